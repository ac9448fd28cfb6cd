package txn

import (
	"errors"
	"testing"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

func asking(id byte, keys ...string) *Hold {
	c := &Hold{ID: ID{id}, DeadlineMS: 2000}
	for _, k := range keys {
		c.Claims = append(c.Claims, Claim{Span: KeySpan(at(k)), Write: true})
	}
	return c
}

func TestHoldsAreAskedForInTurnAndStoreNothing(t *testing.T) {
	p := alone()
	for range 2 {
		if !HeldBy(p.do(asking(1, "a", "b"))) {
			t.Fatal("the first does not hold what it asked for, or not when it asks again")
		}
	}
	if HeldBy(p.do(asking(2, "b", "c"))) || HeldBy(p.do(asking(3, "c"))) {
		t.Fatal("a later one holds what an earlier one claims")
	}
	if r := p.do(prepare(4, set("c", "1"))); !errors.Is(r.Err, ErrHeld) {
		t.Errorf("one that has not asked locks what others claim: %v", r.Err)
	}
	if r := p.do(&Unhold{ID: ID{1}}); r.Int != 2 || !HeldBy(p.do(asking(2, "b", "c"))) || HeldBy(p.do(asking(3, "c"))) {
		t.Errorf("after the first has left, not the second has its turn, of %d", r.Int)
	}
	if r := p.do(&Unhold{ID: ID{1}}); r.Int != 2 {
		t.Errorf("to leave twice is to leave once: %d are left", r.Int)
	}
	if len(p.store.keys) > 0 {
		t.Errorf("something is stored: %q", p.store.keys)
	}
	p.open() // as after a crash
	if r := p.do(prepare(4, set("c", "1"))); r.Err != nil {
		t.Errorf("after a crash of the group: %v", r.Err)
	}
}

func TestHoldsOfThoseWhoDiedEnd(t *testing.T) {
	p := alone()
	p.do(asking(1, "a"))
	p.do(asking(2, "b"))
	p.clock = 2001
	late := prepare(3, set("a", "1"))
	late.DeadlineMS = 9000
	if r := p.do(late); !errors.Is(r.Err, ErrHeld) {
		t.Errorf("before anybody keeps house: %v", r.Err)
	}
	if r := p.do(&Unhold{}); r.Int != 0 {
		t.Errorf("%d are left past their deadline", r.Int)
	}
	if r := p.do(late); r.Err != nil {
		t.Errorf("past the deadline of who came first: %v", r.Err)
	}
	p.clock = 1000
	p.do(asking(4, "c"))
	p.clock = 2001
	next := asking(5, "c")
	next.DeadlineMS = 9000
	if !HeldBy(p.do(next)) {
		t.Error("who asks next waits for one whose time is over")
	}
}

func TestBadHoldsAreRefused(t *testing.T) {
	p := alone()
	p.owned = []partition.Span{{Start: at("a"), End: at("m")}}
	for _, test := range []struct {
		name string
		hold *Hold
		want error
	}{
		{"no id", &Hold{Claims: asking(1, "a").Claims, DeadlineMS: 2000}, ErrPart},
		{"no claims", &Hold{ID: ID{1}, DeadlineMS: 2000}, ErrPart},
		{"past its deadline", &Hold{ID: ID{1}, Claims: asking(1, "a").Claims, DeadlineMS: 999}, ErrDeadline},
		{"another group's key", asking(1, "a", "z"), errWrongShard},
	} {
		if r := p.do(test.hold); !errors.Is(r.Err, test.want) || HeldBy(r) {
			t.Errorf("%s: %v, want %v", test.name, r.Err, test.want)
		}
	}
	if p.holds.Len() > 0 || p.store.count(effect.Intents) > 0 {
		t.Error("what was refused has left something")
	}
}
