package sim

import (
	"encoding/binary"
	"strconv"

	"github.com/cleavekv/cleave/internal/check"
	"github.com/cleavekv/cleave/internal/check/register"
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
)

// history is what all clients have heard.
type history struct {
	registers []register.Call
	txns      []check.Txn
	balances  []check.Balances
	claims    []check.Claim
	counts    map[string][]check.Count
	changes   []check.Change
	scans     []check.Scan
	leases    map[string]*leases
	// came is how many rounds a visitor saw when he had come.
	came  map[int]int
	sagas []*played
	queue queueHistory
}

func encode(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// number reads what encode wrote, 0 for nothing.
func number(b []byte) uint64 {
	if len(b) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// elements takes a list apart.
func elements(b []byte) (list []uint64) {
	for ; len(b) >= 8; b = b[8:] {
		list = append(list, number(b))
	}
	return list
}

// request makes a request about a key, which may be sent again if it has an id.
func (c *client) request(k string, named bool, make func() command.Command) func() group.Request {
	var id group.RequestID
	if named {
		id = c.w.id()
	}
	return func() group.Request { return group.Request{Command: make(), Key: at(k), ID: id} }
}

// register reads, writes, swaps or deletes a register.
func (c *client) register(k string) {
	w := c.w
	w.serial++
	call := register.Call{Key: k, New: register.Value(w.serial)}
	o := c.start(func(at check.Call) {
		call.Call = at
		w.history.registers = append(w.history.registers, call)
	})
	kind := w.rng.IntN(5)
	named := w.chance(500)
	write := func(c2 func() command.Command, heard func(command.Reply)) {
		o.route(at(k), named, w.plain(c.request(k, named, c2)), heard)
	}
	set := func(cond command.Condition, version uint64) func() command.Command {
		return func() command.Command {
			return &command.Set{Key: at(k), Value: encode(uint64(call.New)), If: cond, Version: version}
		}
	}
	switch kind {
	case 0, 1:
		call.Kind = register.Get
		o.route(at(k), true, read(k), func(r command.Reply) {
			call.Got = register.Value(number(r.Bytes))
			o.finish(check.OK)
		})
	case 2:
		call.Kind = register.Set
		write(set(command.Always, 0), o.done)
	case 3:
		call.Kind = register.Delete
		write(func() command.Command { return &command.Delete{Keys: positions(k)} }, func(r command.Reply) {
			call.Done = r.Int == 1
			o.done(r)
		})
	default:
		call.Kind = register.Swap
		o.route(at(k), true, read(k), func(r command.Reply) {
			call.Old, call.Done = register.Value(number(r.Bytes)), true
			write(set(command.IfVersion, r.Version), o.done)
		})
	}
}

// done ends an op with the reply to its command: one that is refused has changed
// nothing.
func (o *op) done(r command.Reply) {
	if r.Err != nil {
		o.finish(check.Failed)
		return
	}
	o.finish(check.OK)
}

// count adds to a counter, with an id: a retry is not counted again.
func (c *client) count(k string) {
	w := c.w
	call := check.Count{Delta: 1}
	o := c.start(func(at check.Call) {
		call.Call = at
		w.history.counts[k] = append(w.history.counts[k], call)
	})
	add := func() command.Command { return &command.Add{Key: at(k), Delta: 1} }
	o.route(at(k), true, w.plain(c.request(k, true, add)), func(r command.Reply) {
		call.Told, call.Value = true, r.Int
		o.done(r)
	})
}

// change puts or deletes a key for scans.
func (c *client) change(k string) {
	w := c.w
	call := check.Change{Key: k, Delete: w.chance(400)}
	o := c.start(func(at check.Call) {
		call.Call = at
		w.history.changes = append(w.history.changes, call)
	})
	o.route(at(k), true, w.plain(c.request(k, true, func() command.Command {
		if call.Delete {
			return &command.Delete{Keys: positions(k)}
		}
		return &command.Set{Key: at(k), Value: []byte("here")}
	})), o.done)
}

func decimal(b []byte) int64 {
	n, _ := strconv.ParseInt(string(b), 10, 64)
	return n
}
