package sim

import (
	"bytes"
	"errors"
	"maps"
	"slices"

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

// tx is an attempt at a transaction: what it has read, and what it is to write.
type tx struct {
	o      *op
	values map[string][]byte
	reads  []command.Read
	ranges []command.RangeRead
	writes []write
	// id is set if it locks first: then groups hold for it what it claims.
	id   txn.ID
	held []partition.GroupID
}

// deed makes an attempt at a transaction: what it does, and what is noted when it
// has ended.
type deed func(x *tx) (body func(), end func(check.Call))

// patienceToLock is how often a transaction fails before it locks first.
const patienceToLock = 3

// transact attempts a transaction until it is committed, or nobody knows. What it
// may touch is known before.
func (c *client) transact(claims []txn.Claim, tries int, d deed) {
	w := c.w
	if tries > w.mostTries() {
		w.failf("client %d has tried %d times in vain", c.number, tries)
	}
	w.tries = max(w.tries, tries+1)
	x := &tx{values: map[string][]byte{}}
	body, end := d(x)
	x.o = c.start(func(at check.Call) {
		x.release()
		if x.id != (txn.ID{}) {
			w.count("transactions that locked first " + at.Status.String())
			if at.Status == check.Unknown && w.calm() {
				w.failf("client %d has locked first, and waited in vain", c.number)
			}
		}
		end(at)
	})
	x.o.again = func(own bool) {
		if !own {
			tries++
		}
		c.transact(claims, tries, d)
	}
	if tries < patienceToLock {
		body()
		return
	}
	if w.calm() {
		x.o.patience(2 * deadlineMS * millisecond) // it need not be patient for long
	}
	x.hold(claims, body)
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
	visit := read(k)
	if isHash(k) || x.id != (txn.ID{}) {
		// In its turn, behind those who have locked it before: then nobody
		// changes it any more.
		visit = x.o.c.w.account(k)
	}
	x.o.route(at(k), true, visit, func(r command.Reply) {
		x.values[k] = bytes.Clone(r.Bytes)
		x.reads = append(x.reads, command.Read{Key: at(k), Version: r.Version})
		x.readAll(keys[1:], then)
	})
}

// scan reads the keys of a span, group by group, and goes on then.
func (x *tx) scan(s partition.Span, keys *[]string, then func()) {
	piece := drive.Pieces(x.o.c.m, s)[0]
	x.o.route(piece.Span.Start, true, func(p drive.Place) (command.Reply, error) {
		return p.Group.Try(ctx, group.Request{Command: &command.Range{Start: piece.Span.Start, End: piece.Span.End, Limit: 10000}})
	}, func(r command.Reply) {
		if r.Err != nil {
			x.o.finish(check.Failed)
			return
		}
		// Of this reply: another copy of the visit may have seen something else.
		var digest command.Digest
		for _, item := range r.Items {
			k, _, err := space.Split(nil, item.Field)
			x.o.c.w.must(err, "a position in a scan")
			*keys = append(*keys, string(k))
			digest.Add(item.Field, item.Version)
		}
		x.ranges = append(x.ranges, command.RangeRead{Start: piece.Span.Start, End: piece.Span.End, Digest: digest})
		if bytes.Equal(piece.Span.End, s.End) {
			then()
			return
		}
		x.scan(partition.Span{Start: piece.Span.End, End: s.End}, keys, then)
	})
}

// parts divides the transaction by the map that the client knows.
func (x *tx) parts() (parts []txn.Part, groups []partition.GroupID) {
	m := x.o.c.m
	divided := drive.NewParts(m, x.ranges)
	for _, r := range x.reads {
		t := divided.Of(r.Key)
		t.Reads = append(t.Reads, r)
	}
	for _, wr := range x.writes {
		t := divided.Of(at(wr.key))
		t.Writes = append(t.Writes, wr.command())
	}
	parts = divided.Sorted()
	for _, t := range parts {
		if t.Span.Equal(m.Find(t.Span.Start).Span) {
			x.o.c.w.count("parts of one shard")
		} else {
			x.o.c.w.count("parts of several shards")
		}
		groups = append(groups, m.Owner(t.Span.Start).Group)
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
	case together && w.chance(600) && x.id == (txn.ID{}):
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
		d := w.home(groups[0])
		if w.silent(d, err) {
			return
		}
		if refused(err) {
			w.send(l, func() { x.o.finish(check.Failed) })
			return
		}
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
		x.o.cancelled = errors.Is(a.Err, txn.ErrCancelled)
		x.o.finish(check.Failed)
	}
}
