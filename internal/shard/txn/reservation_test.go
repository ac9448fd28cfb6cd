package txn

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

func newReserve(id byte, keys ...string) *Reserve {
	c := &Reserve{ID: ID{id}, DeadlineMS: 2000}
	for _, k := range keys {
		c.Spans = append(c.Spans, ReservedSpan{Span: KeySpan(positionOf(k)), Write: true})
	}
	return c
}

func TestHoldsAreAskedForInTurnAndStoreNothing(t *testing.T) {
	p := newLonePeer()
	for range 2 {
		if !IsReserved(p.evalOne(newReserve(1, "a", "b"))) {
			t.Fatal("the first does not hold what it asked for, or not when it asks again")
		}
	}
	if IsReserved(p.evalOne(newReserve(2, "b", "c"))) || IsReserved(p.evalOne(newReserve(3, "c"))) {
		t.Fatal("a later one holds what an earlier one claims")
	}
	if r := p.evalOne(newPrepare(4, newSet("c", "1"))); !errors.Is(r.Err, ErrReserved) {
		t.Errorf("one that has not asked locks what others claim: %v", r.Err)
	}
	if r := p.evalOne(&Release{ID: ID{1}}); r.Int != 2 || !IsReserved(p.evalOne(newReserve(2, "b", "c"))) || IsReserved(p.evalOne(newReserve(3, "c"))) {
		t.Errorf("after the first has left, not the second has its turn, of %d", r.Int)
	}
	if r := p.evalOne(&Release{ID: ID{1}}); r.Int != 2 {
		t.Errorf("to leave twice is to leave once: %d are left", r.Int)
	}
	if len(p.store.Keys) > 0 {
		t.Errorf("something is stored: %q", p.store.Keys)
	}
	p.reopen() // as after a crash
	if r := p.evalOne(newPrepare(4, newSet("c", "1"))); r.Err != nil {
		t.Errorf("after a crash of the group: %v", r.Err)
	}
}

func TestHoldsOfThoseWhoDiedEnd(t *testing.T) {
	p := newLonePeer()
	p.evalOne(newReserve(1, "a"))
	p.evalOne(newReserve(2, "b"))
	p.clock = 2001
	late := newPrepare(3, newSet("a", "1"))
	late.DeadlineMS = 9000
	if r := p.evalOne(late); !errors.Is(r.Err, ErrReserved) {
		t.Errorf("before anybody keeps house: %v", r.Err)
	}
	if r := p.evalOne(&Release{}); r.Int != 0 {
		t.Errorf("%d are left past their deadline", r.Int)
	}
	if r := p.evalOne(late); r.Err != nil {
		t.Errorf("past the deadline of who came first: %v", r.Err)
	}
	p.clock = 1000
	p.evalOne(newReserve(4, "c"))
	p.clock = 2001
	next := newReserve(5, "c")
	next.DeadlineMS = 9000
	if !IsReserved(p.evalOne(next)) {
		t.Error("who asks next waits for one whose time is over")
	}
}

func TestBadHoldsAreRefused(t *testing.T) {
	p := newLonePeer()
	p.owned = []partition.Span{{Start: positionOf("a"), End: positionOf("m")}}
	for _, test := range []struct {
		name string
		hold *Reserve
		want error
	}{
		{"no id", &Reserve{Spans: newReserve(1, "a").Spans, DeadlineMS: 2000}, ErrBadParticipant},
		{"no claims", &Reserve{ID: ID{1}, DeadlineMS: 2000}, ErrBadParticipant},
		{"past its deadline", &Reserve{ID: ID{1}, Spans: newReserve(1, "a").Spans, DeadlineMS: 999}, ErrDeadline},
		{"another group's key", newReserve(1, "a", "z"), errWrongShard},
	} {
		if r := p.evalOne(test.hold); !errors.Is(r.Err, test.want) || IsReserved(r) {
			t.Errorf("%s: %v, want %v", test.name, r.Err, test.want)
		}
	}
	if p.reservations.Len() > 0 || p.store.Count(effect.Intents) > 0 {
		t.Error("what was refused has left something")
	}
}

func TestHoldsAreGrantedInTheOrderOfAsking(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h ReservationQueue
		var order []ID // those that have asked and not left, first first
		claims := map[ID][]ReservedSpan{}
		granted := map[ID]bool{}
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			var told []ID
			if len(order) > 0 && rapid.IntRange(0, 2).Draw(t, "leave") == 0 {
				id := rapid.SampledFrom(order).Draw(t, "who")
				told = h.Release(id)
				order = slices.DeleteFunc(order, func(x ID) bool { return x == id })
			} else {
				id := ID{byte(i + 1)}
				claims[id] = []ReservedSpan{drawReservedSpan(t), drawReservedSpan(t)}
				order = append(order, id)
				if h.Reserve(id, claims[id], 100) {
					told = []ID{id}
				}
			}
			for _, id := range told {
				granted[id] = true
			}
			for i, id := range order {
				free := true
				for _, before := range order[:i] {
					free = free && !spansConflict(claims[before], claims[id])
				}
				if granted[id] != free || h.Reserve(id, nil, 0) != free {
					t.Fatalf("number %d of %d is granted: %v, want %v", i, len(order), granted[id], free)
				}
			}
			c := drawReservedSpan(t)
			want := slices.ContainsFunc(order, func(id ID) bool { return spansConflict(claims[id], []ReservedSpan{c}) })
			if got := h.Check(ID{99}, c); errors.Is(got, ErrReserved) != want {
				t.Fatalf("one who has not asked: %v, want held: %v", got, want)
			}
		}
		if h.Expire(100); h.Len() != len(order) {
			t.Fatal("they expired before their deadline")
		}
		if h.Expire(101); h.Len() != 0 {
			t.Fatal("they did not expire")
		}
	})
}

func drawReservedSpan(t *rapid.T) ReservedSpan {
	c := ReservedSpan{Span: KeySpan(drawKey(t)), Write: rapid.Bool().Draw(t, "write")}
	if rapid.IntRange(0, 3).Draw(t, "wide") == 0 {
		c.Span.End = nil
	}
	c.Plain = c.Write && rapid.Bool().Draw(t, "plain")
	return c
}

func spansConflict(a, b []ReservedSpan) bool {
	for _, x := range a {
		for _, y := range b {
			if (x.Write || y.Write) && !(x.Plain && y.Plain) && !x.Span.Intersect(y.Span).Empty() {
				return true
			}
		}
	}
	return false
}

func TestAHoldKeepsOthersFromLocking(t *testing.T) {
	p := newLonePeer()
	p.evalOne(newPrepare(1, newSet("a", "1"))) // before the hold
	claim := []ReservedSpan{{Span: KeySpan(positionOf("a")), Write: true}, {Span: KeySpan(positionOf("b")), Write: true}}
	if !p.reservations.Reserve(ID{2}, claim, 3000) {
		t.Fatal("it is not granted")
	}
	if r := p.evalOne(newPrepare(3, newSet("b", "1"))); !errors.Is(r.Err, ErrReserved) {
		t.Errorf("another prepares: %v", r.Err)
	}
	if r := p.evalOne(newPrepare(2, newSet("a", "2"), newSet("b", "2"))); !errors.Is(r.Err, ErrLocked) {
		t.Errorf("the lock from before is not met: %v", r.Err)
	}
	p.evalOne(&Resolve{ID: ID{1}})
	if r := p.evalOne(newPrepare(2, newSet("a", "2"), newSet("b", "2"))); r.Err != nil {
		t.Errorf("the holder: %v", r.Err)
	}
	p.reservations.Release(ID{2})
	if r := p.evalOne(newPrepare(3, newSet("c", "1"))); r.Err != nil {
		t.Errorf("after the release: %v", r.Err)
	}
}
