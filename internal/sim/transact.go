package sim

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/internal/check"
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

func positions(keys ...string) (list []partition.Position) {
	for _, k := range keys {
		list = append(list, at(k))
	}
	return list
}

// tx is a transaction of a client: what it has read, and what it is to write.
type tx struct {
	o      *op
	values map[string][]byte
	reads  []command.Read
	ranges []command.RangeRead
	writes []write
}

// write is a command for a key.
type write struct {
	key     string
	command func() command.Command
}

// readAll reads keys one after the other and goes on then. That they belong to
// one moment is for the commit to find out.
func (x *tx) readAll(keys []string, then func()) {
	if len(keys) == 0 {
		then()
		return
	}
	k := keys[0]
	x.o.route(at(k), true, read(k), func(r command.Reply) {
		x.values[k] = bytes.Clone(r.Bytes)
		x.reads = append(x.reads, command.Read{Key: at(k), Version: r.Version})
		x.readAll(keys[1:], then)
	})
}

// scan reads the keys of a span, shard by shard, and goes on then.
func (x *tx) scan(s partition.Span, keys *[]string, then func()) {
	piece := drive.Pieces(x.o.c.m, s)[0]
	c := &scanning{}
	x.o.route(piece.Span.Start, true, func(p drive.Place) (command.Reply, error) {
		c = &scanning{span: piece.Span}
		return p.Group.Try(ctx, group.Request{Command: c})
	}, func(r command.Reply) {
		if r.Err != nil {
			x.o.finish(check.Failed)
			return
		}
		for _, item := range r.Items {
			k, _, err := space.Split(nil, item.Field)
			x.o.c.w.must(err, "a position in a scan")
			*keys = append(*keys, string(k))
		}
		x.ranges = append(x.ranges, command.RangeRead{Start: piece.Span.Start, End: piece.Span.End, Digest: c.digest})
		if bytes.Equal(piece.Span.End, s.End) {
			then()
			return
		}
		x.scan(partition.Span{Start: piece.Span.End, End: s.End}, keys, then)
	})
}

// scanning reads a span and digests it, for the commit to compare.
type scanning struct {
	span   partition.Span
	digest command.Digest
}

// Eval reads.
func (c *scanning) Eval(e *command.Env) command.Reply {
	r := e.Do(&command.Range{Start: c.span.Start, End: c.span.End, Limit: 10000})
	for _, item := range r.Items {
		c.digest.Add(item.Field, item.Version)
	}
	return r
}

// parts divides the transaction by the shards that the client knows.
func (x *tx) parts() (parts []txn.Part, groups []partition.GroupID) {
	m := x.o.c.m
	byStart := map[string]*txn.Part{}
	part := func(p partition.Position) *txn.Part {
		s := m.Find(p)
		if byStart[string(s.Span.Start)] == nil {
			byStart[string(s.Span.Start)] = &txn.Part{Span: s.Span}
		}
		return byStart[string(s.Span.Start)]
	}
	for _, r := range x.reads {
		t := part(r.Key)
		t.Reads = append(t.Reads, r)
	}
	for _, r := range x.ranges {
		t := part(r.Start)
		t.Ranges = append(t.Ranges, r)
	}
	for _, wr := range x.writes {
		t := part(at(wr.key))
		t.Writes = append(t.Writes, wr.command())
	}
	for _, start := range slices.Sorted(maps.Keys(byStart)) {
		t := *byStart[start]
		parts, groups = append(parts, t), append(groups, m.Owner(t.Span.Start).Group)
	}
	return parts, groups
}

// commit commits by whatever way is open: one command, one batch of several
// groups of a store, or two phases.
func (x *tx) commit() {
	if x.o.over {
		return
	}
	w := x.o.c.w
	parts, groups := x.parts()
	together := !slices.ContainsFunc(groups, func(g partition.GroupID) bool { return w.home(g) != w.home(groups[0]) })
	x.o.attempt++ // reads that come late are of no use
	switch {
	case together && w.chance(600):
		w.count("transactions joint")
		x.joint(parts, groups)
	default:
		w.count("transactions in two phases")
		w.coordinate(x, parts, groups[0])
	}
}

// joint commits in one batch of one or several groups.
func (x *tx) joint(parts []txn.Part, groups []partition.GroupID) {
	w := x.o.c.w
	commits := map[partition.GroupID]*command.Commit{}
	for i, p := range parts {
		c := commits[groups[i]]
		if c == nil {
			c = &command.Commit{}
			commits[groups[i]] = c
		}
		c.Reads, c.Ranges = append(c.Reads, p.Reads...), append(c.Ranges, p.Ranges...)
		c.Writes.Commands = append(c.Writes.Commands, p.Writes...)
	}
	l := letter{"joint", false}
	w.send(l, func() {
		var pieces []group.Piece
		for _, g := range slices.Sorted(maps.Keys(commits)) {
			p, err := w.find(g)
			if err != nil {
				return
			}
			pieces = append(pieces, group.Piece{Group: p.Group, Request: group.Request{Command: commits[g]}})
		}
		replies, err := group.TryJoint(ctx, pieces)
		w.must(err, "a joint batch")
		w.send(l, func() {
			for _, r := range replies {
				if r.Err != nil {
					w.settleMet(r.Err, 2)
					x.o.c.relearn()
					x.o.done(r)
					return
				}
			}
			x.o.finish(check.OK)
		})
	})
}

// answered ends the transaction as its coordinator says.
func (x *tx) answered(a txn.Answer) {
	switch a.Outcome {
	case txn.Committed:
		x.o.finish(check.OK)
	case txn.Aborted:
		x.o.c.relearn()
		x.o.c.w.settleMet(a.Err, 2)
		x.o.finish(check.Failed)
	}
}

func (c *client) begintx(end func(check.Call)) *tx {
	return &tx{o: c.start(end), values: map[string][]byte{}}
}

// some returns n different letters in their order.
func (w *world) some(n int) []string {
	list := slices.Clone(letters)
	if w.chance(500) {
		list = list[:3] // where all the others are too
	}
	w.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	list = list[:n]
	slices.Sort(list)
	return list
}

// appendLists reads lists and appends to some of them.
func (c *client) appendLists() {
	w := c.w
	var t check.Txn
	x := c.begintx(func(at check.Call) {
		t.Call = at
		w.history.txns = append(w.history.txns, t)
	})
	var reads []string
	for _, l := range w.some(1 + w.rng.IntN(3)) {
		k := key(l, "list", 0)
		if w.chance(750) {
			reads = append(reads, k)
		}
		if w.chance(650) {
			w.serial++
			n := w.serial
			x.writes = append(x.writes, write{k, func() command.Command { return &command.Append{Key: at(k), Tail: encode(n)} }})
			t.Ops = append(t.Ops, check.Append(k, n))
		}
	}
	if len(reads)+len(x.writes) == 0 {
		x.o.finish(check.Failed)
		return
	}
	x.readAll(reads, func() {
		var ops []check.Op
		for _, k := range reads {
			ops = append(ops, check.Read(k, elements(x.values[k])...))
		}
		t.Ops = append(ops, t.Ops...)
		x.commit()
	})
}

// opening is what each account has at first.
const opening = 100

func balance(b []byte) int64 {
	if len(b) == 0 {
		return opening
	}
	return decimal(b)
}

// transfer moves money from one account to another.
func (c *client) transfer() {
	w := c.w
	x := c.begintx(func(check.Call) {})
	two := w.some(2)
	from, to := key(two[0], "bank", 0), key(two[1], "bank", 0)
	if w.chance(500) {
		from, to = to, from
	}
	x.readAll([]string{from, to}, func() {
		sum := min(1+w.rng.Int64N(20), balance(x.values[from]))
		for k, b := range map[string]int64{from: balance(x.values[from]) - sum, to: balance(x.values[to]) + sum} {
			x.writes = append(x.writes, write{k, func() command.Command {
				return &command.Set{Key: at(k), Value: strconv.AppendInt(nil, b, 10)}
			}})
		}
		slices.SortFunc(x.writes, func(a, b write) int { return strings.Compare(a.key, b.key) })
		x.commit()
	})
}

// audit reads all accounts at one moment.
func (c *client) audit() {
	w := c.w
	call := check.Balances{Of: map[string]int64{}}
	x := c.begintx(func(at check.Call) {
		call.Call = at
		w.history.balances = append(w.history.balances, call)
	})
	var keys []string
	for _, l := range letters {
		keys = append(keys, key(l, "bank", 0))
	}
	x.readAll(keys, func() {
		for _, k := range keys {
			call.Of[k] = balance(x.values[k])
		}
		x.commit()
	})
}

// booked counts bookings.
const booked = "c/booked"

// book tries to get a cabin, and counts it elsewhere.
func (c *client) book() {
	w := c.w
	w.serial++
	call := check.Claim{Cabin: key(pick(w, letters), "cab", w.rng.IntN(20)), Customer: w.serial, Won: true}
	x := c.begintx(func(at check.Call) {
		call.Call = at
		w.history.claims = append(w.history.claims, call)
	})
	x.readAll([]string{call.Cabin}, func() {
		if len(x.values[call.Cabin]) > 0 {
			call.Won = false
			x.o.finish(check.OK)
			return
		}
		x.writes = []write{
			{call.Cabin, func() command.Command { return &command.Set{Key: at(call.Cabin), Value: encode(call.Customer)} }},
			{booked, func() command.Command { return &command.Add{Key: at(booked), Delta: 1} }},
		}
		x.commit()
	})
}

// scan lists the keys between two letters, at one moment or piece by piece.
func (c *client) scan() {
	w := c.w
	two := w.some(2)
	call := check.Scan{Start: two[0] + "/scan", End: two[1] + "/scan"}
	x := c.begintx(func(at check.Call) {
		call.Call = at
		call.Keys = slices.DeleteFunc(call.Keys, func(k string) bool { return !strings.Contains(k, "/scan") })
		w.history.scans = append(w.history.scans, call)
	})
	span := partition.Span{Start: space.PrefixSpan([]byte(call.Start)).Start, End: space.PrefixSpan([]byte(call.End)).Start}
	x.scan(span, &call.Keys, func() {
		if w.chance(500) {
			x.o.finish(check.OK)
			return
		}
		x.commit()
	})
}
