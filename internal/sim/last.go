package sim

import (
	"github.com/cleavekv/cleave/internal/check"
	"github.com/cleavekv/cleave/internal/check/register"
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/partition"
)

// last reads everything once more when all is at rest, as part of the histories.
type last struct {
	w *world
	m *partition.Map
}

// read reads all that clients have worked on, and hands it to the checkers.
func (l last) read() {
	w := l.w
	h := &w.history
	for _, letter := range letters {
		l.registers(letter)
		l.counters(letter)
		l.roster(letter)
	}
	h.txns = append(h.txns, l.lists())
	h.balances, h.scans = append(h.balances, l.bank()), append(h.scans, l.scanned())
	w.judgeLeases(l.get)
	w.judgeRounds(l.get)
	w.lastSalted(l.get)
	w.lastIndexed(l.get, l.listed)
	w.judgeSagas(l.m, l.get)
	l.counted(splitCounter, w.lastSum(l.get))
	w.judgeQueue(l.listed, l.get(queueManifest))
	w.judge(l.bookings())
}

func (l last) get(k string) []byte {
	p, err := l.w.find(l.m.Owner(at(k)).Group)
	l.w.must(err, "the last reads")
	row, _, err := p.Group.Read(ctx, at(k), nil)
	l.w.must(err, "the last reads")
	return row.Payload
}

func (l last) ask(k string, c command.Command) command.Reply {
	return l.w.mustDo(l.m.Owner(at(k)).Group, c)
}

// field reads the first field of a hash.
func (l last) field(k string) []byte {
	return l.ask(k, &command.HGet{Key: at(k), Field: fields[0]}).Bytes
}

// call is one by nobody, after all others.
func (l last) call() check.Call {
	return check.Call{Client: -1, Invoke: l.w.tick(), Return: l.w.tick(), Status: check.OK}
}

func (l last) registers(letter string) {
	got := func(k string, v register.Value) {
		l.w.history.registers = append(l.w.history.registers, register.Call{Call: l.call(), Key: k, Kind: register.Get, Got: v})
	}
	for i := range 2 {
		k := key(letter, "reg", i)
		got(k, register.Value(number(l.get(k))))
	}
	k := key(letter, "hash", 0)
	got(k, l.w.whole(k, l.ask(k, &command.HGetAll{Key: at(k)})))
}

func (l last) counters(letter string) {
	k := key(letter, "cnt", 0)
	l.counted(k, decimal(l.get(k)))
	k = key(letter, "hcnt", 0)
	l.counted(k, decimal(l.field(k)))
}

// counted notes what a counter holds.
func (l last) counted(k string, n int64) {
	counts := l.w.history.counts
	counts[k] = append(counts[k], check.Count{Call: l.call(), Told: true, Value: n})
}

// roster compares one with its size.
func (l last) roster(letter string) {
	members := int64(0)
	for i := range 3 {
		if l.get(key(letter, "ros", i)) != nil {
			members++
		}
	}
	if size := decimal(l.get(sizeOf(letter))); size != members {
		l.w.failf("at rest the roster of %s has %d members, and its size is %d", letter, members, size)
	}
}

func (l last) lists() (t check.Txn) {
	for _, letter := range letters {
		k := key(letter, "list", 0)
		t.Ops = append(t.Ops, check.Read(k, elements(l.get(k))...))
	}
	t.Call = l.call()
	return t
}

func (l last) bank() check.Balances {
	b := check.Balances{Call: l.call(), Of: map[string]int64{}}
	for _, letter := range letters {
		k := key(letter, "bank", 0)
		if isHash(k) {
			b.Of[k] = balance(l.field(k))
		} else {
			b.Of[k] = balance(l.get(k))
		}
	}
	return b
}

func (l last) scanned() check.Scan {
	s := check.Scan{Call: l.call()}
	for _, letter := range letters {
		for i := range 4 {
			if k := key(letter, "scan", i); l.get(k) != nil {
				s.Keys = append(s.Keys, k)
			}
		}
	}
	return s
}

func (l last) bookings() check.Booked {
	b := check.Booked{Counter: decimal(l.get(booked)), Owners: map[string]uint64{}}
	for _, letter := range letters {
		for i := range 20 {
			if k := key(letter, "cab", i); l.get(k) != nil {
				b.Owners[k] = number(l.get(k))
			}
		}
	}
	return b
}

// listed are all keys with a prefix, with their values.
func (l last) listed(prefix string) map[string]string {
	found := map[string]string{}
	for _, piece := range drive.Pieces(l.m, space.PrefixSpan([]byte(prefix))) {
		r := l.w.mustDo(piece.Group, &command.Range{Start: piece.Span.Start, End: piece.Span.End, Limit: 10000})
		for _, item := range r.Items {
			k, _, err := space.Split(nil, item.Field)
			l.w.must(err, "a position")
			found[string(k)] = string(item.Value)
		}
	}
	return found
}
