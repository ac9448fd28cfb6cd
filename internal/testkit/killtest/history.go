package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cleavekv/cleave/internal/testkit/check"
	"github.com/cleavekv/cleave/internal/testkit/check/register"
)

// history is the results of all clients of all lives.
type history struct {
	lastTick int64
	// openCalls are the calls of this life without an answer, by client, and begun when
	// they began.
	openCalls map[int]openCall
	// requests are calls with an id, which live on over a kill.
	requests map[string]*requestState

	registers []register.Call
	lists     []check.Txn
	balances  []check.Balances
	claims    []check.Claim
	counts    map[string][]check.Count
	changes   []check.Change
	scans     []check.Scan
	leases    []lease
	// finalRows is what was there at the last look.
	finalRows map[string]string
	// failures is what needs no checker to be seen.
	failures []error
}

type openCall struct {
	clientCall
	begunAt int64
}

// requestState is a request: one call, however often it is asked.
type requestState struct {
	keys     []string
	begunAt  int64
	answered bool
	reply    int64
	// answeredAt is the number of the answer.
	answeredAt int64
}

func newHistory() *history {
	return &history{openCalls: map[int]openCall{}, requests: map[string]*requestState{}, counts: map[string][]check.Count{}}
}

// recordCall notes that a client is about to do something.
func (h *history) recordCall(client int, c clientCall) {
	h.openCalls[client] = openCall{c, h.lastTick}
	if c.Request == "" || h.requests[c.Request] != nil {
		return
	}
	r := &requestState{begunAt: h.lastTick}
	for _, n := range c.Counts {
		r.keys = append(r.keys, n.Key)
	}
	h.requests[c.Request] = r
}

// recordAnswer notes what came of it.
func (h *history) recordAnswer(client int, c clientCall) {
	o, ok := h.openCalls[client]
	if !ok {
		h.failures = append(h.failures, fmt.Errorf("an answer to client %d, who has asked nothing: %+v", client, c))
		return
	}
	delete(h.openCalls, client)
	h.addCall(client, c, check.Call{Client: client, Invoke: o.begunAt, Return: h.lastTick, Status: c.Status})
}

// recordKill ends a life: what is open gets no answer. It returns how many requests these
// are.
func (h *history) recordKill() int {
	n := len(h.openCalls)
	for client, o := range h.openCalls {
		h.addCall(client, o.clientCall, check.Call{Client: client, Invoke: o.begunAt, Status: check.Unknown})
	}
	clear(h.openCalls)
	return n
}

// addCall adds a call to the history of its kind.
func (h *history) addCall(client int, c clientCall, at check.Call) {
	switch {
	case c.Request != "":
		h.addRequestReply(c, at)
	case c.Register != nil:
		c.Register.Call = at
		h.registers = append(h.registers, *c.Register)
	case c.Lists != nil:
		c.Lists.Call = at
		h.lists = append(h.lists, *c.Lists)
	case c.Bank != nil:
		c.Bank.Call = at
		h.balances = append(h.balances, *c.Bank)
	case c.Claim != nil:
		c.Claim.Call = at
		h.claims = append(h.claims, *c.Claim)
	case c.Change != nil:
		c.Change.Call = at
		h.changes = append(h.changes, *c.Change)
	case c.Scan != nil:
		c.Scan.Call = at
		h.scans = append(h.scans, *c.Scan)
	case c.Lease != nil:
		if c.Lease.Won {
			h.leases = append(h.leases, *c.Lease)
		}
	case c.Look && at.Status == check.OK:
		h.addSnapshot(c.Rows, at)
	}
	for _, n := range c.Counts {
		if c.Request == "" {
			n.Call = at
			h.counts[n.Key] = append(h.counts[n.Key], n.Count)
		}
	}
}

// addRequestReply notes an answer to a request. Without one it stays open. A second one
// must be the first again.
func (h *history) addRequestReply(c clientCall, at check.Call) {
	r := h.requests[c.Request]
	if at.Status != check.OK {
		return
	}
	told := c.Counts[0].Value
	if r.answered && r.reply != told {
		h.failures = append(h.failures, fmt.Errorf("request %s about %s was answered with %d and then with %d", c.Request, r.keys, r.reply, told))
	}
	if r.answered {
		return
	}
	r.answered, r.reply, r.answeredAt = true, told, at.Return
	at.Invoke = r.begunAt
	for _, n := range c.Counts {
		n.Call = at
		h.counts[n.Key] = append(h.counts[n.Key], n.Count)
	}
}

// listRequests returns the requests for the next life: those that are open, and the newest
// of those that are not.
func (h *history) listRequests() (pending, answered []request) {
	for id, r := range h.requests {
		if r.answered {
			answered = append(answered, request{id, r.keys})
		} else {
			pending = append(pending, request{id, r.keys})
		}
	}
	slices.SortFunc(answered, func(a, b request) int {
		return int(h.requests[b.ID].answeredAt - h.requests[a.ID].answeredAt)
	})
	return pending, answered[:min(len(answered), 20)]
}

// addSnapshot takes a view of all rows apart: it is a read of each kind. What is not there
// counts too, if a client has written it.
func (h *history) addSnapshot(rows map[string]string, at check.Call) {
	h.finalRows = rows
	number := func(key string) uint64 {
		list := parseElements(rows[key])
		if len(list) == 0 {
			return 0
		}
		return list[0]
	}
	registers, lists, counters := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range h.registers {
		registers[c.Key] = true
	}
	for _, t := range h.lists {
		for _, op := range t.Ops {
			lists[op.Key] = true
		}
	}
	for key := range h.counts {
		counters[key] = true
	}
	bank := check.Balances{Call: at, Of: map[string]int64{}}
	scan := check.Scan{Call: at, Start: "o:scan ", End: "o:scan~"}
	for key := range rows {
		switch sort, _, _ := strings.Cut(key[2:], " "); sort {
		case "reg", "hash":
			registers[key] = true
		case "list":
			lists[key] = true
		case "cnt":
			counters[key] = true
		case "bank":
			bank.Of[key] = int64(number(key))
		case "scan":
			scan.Keys = append(scan.Keys, key)
		}
	}
	slices.Sort(scan.Keys)
	h.balances, h.scans = append(h.balances, bank), append(h.scans, scan)
	txn := check.Txn{Call: at}
	for key := range registers {
		h.registers = append(h.registers, register.Call{Call: at, Key: key, Kind: register.Get, Got: register.Value(number(key))})
	}
	for key := range lists {
		txn.Ops = append(txn.Ops, check.Read(key, parseElements(rows[key])...))
	}
	for key := range counters {
		h.counts[key] = append(h.counts[key], check.Count{Call: at, Told: true, Value: int64(number(key))})
	}
	h.lists = append(h.lists, txn)
}

// checkHistories hands everything to the checkers, and returns what is wrong.
func (h *history) checkHistories() error {
	wrong := append(h.failures, checkLeases(h.leases)...)
	for id, r := range h.requests {
		if !r.answered {
			wrong = append(wrong, fmt.Errorf("request %s about %s was never answered", id, r.keys))
		}
	}
	end := check.Booked{Owners: map[string]uint64{}}
	for key, value := range h.finalRows {
		n := parseElements(value)
		switch {
		case len(n) == 0:
			wrong = append(wrong, fmt.Errorf("%s is %q", key, value))
		case key == bookingsKey:
			end.Counter = int64(n[0])
		case strings.HasPrefix(key[2:], "cab "):
			end.Owners[key] = n[0]
		}
	}
	reports := map[string]*check.Report{
		"registers": register.Check(h.registers),
		"lists":     check.Lists(h.lists),
		"bank":      check.Bank(check.BankRules{Accounts: accountCount, Total: accountCount * openingBalance}, h.balances),
		"bookings":  check.Bookings(h.claims, end),
		"scans":     check.Scans(h.changes, h.scans),
	}
	for key, calls := range h.counts {
		reports["counter "+key] = check.Counter(calls)
	}
	for name, r := range reports {
		if err := r.Err(); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(wrong...)
}
