package txn

import (
	"errors"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/tally"
	"github.com/cleavekv/cleave/partition"
)

// between is a world at rest, in which g1 owns what is before b, g2 what is
// from b to c, and so on.
func between(t *testing.T) *world { return newWorld(t, 0, new(tally.Counts)) }

func TestARangeLockIsCutWithItsRange(t *testing.T) {
	for _, boundary := range []partition.Position{at("b2"), at("b2")[:3], at("b1")} {
		w := between(t)
		from, to := w.peers[1], w.peers[0]
		c := prepare(1)
		c.Part = Part{Span: w.shards[1].span, Ranges: []command.RangeRead{{Start: at("b"), End: at("c")}}}
		if r := from.do(c); r.Err != nil {
			t.Fatal(r.Err)
		}
		left, right := w.shards[1], w.shards[1]
		left.span.End, right.span.Start = boundary, boundary
		w.shards = append(w.shards[:1:1], append([]shard{left, right}, w.shards[2:]...)...)
		w.assign()
		w.handOver(&w.shards[2], to)
		for _, key := range []string{"b", "b1", "b2", "b3"} {
			p := w.shardOf(at(key)).owner
			write := prepare(2, set(key, "1"))
			write.Part.Span = KeySpan(at(key))
			if r := p.do(write); !errors.Is(r.Err, ErrLocked) {
				t.Errorf("boundary %q: %s is written in a range that is locked: %v", []byte(boundary), key, r.Err)
			}
			if p.locks.Key(ID{}, at(key), true) == nil {
				t.Errorf("boundary %q: the lock on %s is lost", []byte(boundary), key)
			}
		}
		for _, s := range w.shards[1:3] {
			if r := s.owner.do(&Resolve{ID: ID{1}, Span: s.span, DeadlineMS: 2000}); r.Err != nil || s.owner.locks.Len() > 0 {
				t.Errorf("boundary %q: %v, %d locks left in %v", []byte(boundary), r.Err, s.owner.locks.Len(), s.span)
			}
		}
	}
}

func TestOnlyTheOwnerConfirms(t *testing.T) {
	w := between(t)
	from, to := w.peers[1], w.peers[0]
	c := prepare(1, set("b1", "1"))
	c.Part.Span = w.shards[1].span
	from.do(c)
	w.handOver(&w.shards[1], to)
	resolve := &Resolve{ID: ID{1}, Span: w.shards[1].span, Commit: true, DeadlineMS: 2000}
	if r := from.do(resolve); !errors.Is(r.Err, errWrongShard) {
		t.Errorf("the old owner says %d, %v", r.Int, r.Err)
	}
	if r := to.do(resolve); r.Err != nil || r.Int != 1 {
		t.Errorf("the new owner says %d, %v", r.Int, r.Err)
	}
	if r := to.do(c); !errors.Is(r.Err, ErrFinished) {
		t.Errorf("the new owner prepares again: %v", r.Err)
	}
}

// The parts of a transaction are by shard: after a merge a group may have two,
// and whoever resolves both with one command has finished both.
func TestOneResolveFinishesAllPartsInItsSpan(t *testing.T) {
	p := alone()
	var parts []*Prepare
	for _, key := range []string{"a", "b"} {
		c := prepare(1, set(key, "1"))
		c.Part.Span = KeySpan(at(key))
		parts = append(parts, c)
		if r := p.do(c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if r := p.do(&Resolve{ID: ID{1}, Span: space.Span(), DeadlineMS: 2000}); r.Int != 2 {
		t.Fatalf("%d locks, %v", r.Int, r.Err)
	}
	for _, c := range parts {
		if r := p.do(c); !errors.Is(r.Err, ErrFinished) {
			t.Errorf("%v is prepared again: %v", c.Part.Span, r.Err)
		}
	}
}

// A piece of a part may be resolved by another group, and come back before the
// rest is resolved: what is not locked any more must not be locked again.
func TestAPieceThatIsResolvedStaysSo(t *testing.T) {
	w := between(t)
	home, away := w.peers[1], w.peers[0]
	c := prepare(1, set("b3", "1"))
	c.Part.Span = w.shards[1].span
	home.do(c)
	left, right := w.shards[1], w.shards[1]
	left.span.End, right.span.Start = at("b2"), at("b2")
	w.shards = append(w.shards[:1:1], append([]shard{left, right}, w.shards[2:]...)...)
	w.assign()
	w.handOver(&w.shards[2], away)
	if r := away.do(&Resolve{ID: ID{1}, Span: right.span, Commit: true, DeadlineMS: 2000}); r.Int != 1 {
		t.Fatal(r.Err)
	}
	w.handOver(&w.shards[2], home)
	if r := home.do(c); !errors.Is(r.Err, ErrFinished) {
		t.Errorf("it is prepared again: %v", r.Err)
	}
}
