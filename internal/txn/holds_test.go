package txn

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestHoldsAreGrantedInTheOrderOfAsking(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h Holds
		var order []ID // who has asked and not left, first first
		claims := map[ID][]Claim{}
		granted := map[ID]bool{}
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			var told []ID
			if len(order) > 0 && rapid.IntRange(0, 2).Draw(t, "leave") == 0 {
				id := rapid.SampledFrom(order).Draw(t, "who")
				told = h.Release(id)
				order = slices.DeleteFunc(order, func(x ID) bool { return x == id })
			} else {
				id := ID{byte(i + 1)}
				claims[id] = []Claim{drawClaim(t), drawClaim(t)}
				order = append(order, id)
				if h.Ask(id, claims[id], 100) {
					told = []ID{id}
				}
			}
			for _, id := range told {
				granted[id] = true
			}
			for i, id := range order {
				free := true
				for _, before := range order[:i] {
					free = free && !claimsConflict(claims[before], claims[id])
				}
				if granted[id] != free || h.Ask(id, nil, 0) != free {
					t.Fatalf("number %d of %d is granted: %v, want %v", i, len(order), granted[id], free)
				}
			}
			c := drawClaim(t)
			want := slices.ContainsFunc(order, func(id ID) bool { return claimsConflict(claims[id], []Claim{c}) })
			if got := h.Check(ID{99}, c); errors.Is(got, ErrHeld) != want {
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

func drawClaim(t *rapid.T) Claim {
	c := Claim{Span: KeySpan(drawKey(t)), Write: rapid.Bool().Draw(t, "write")}
	if rapid.IntRange(0, 3).Draw(t, "wide") == 0 {
		c.Span.End = nil
	}
	c.Plain = c.Write && rapid.Bool().Draw(t, "plain")
	return c
}

func claimsConflict(a, b []Claim) bool {
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
	p := alone()
	p.do(prepare(1, set("a", "1"))) // before the hold
	claim := []Claim{{Span: KeySpan(at("a")), Write: true}, {Span: KeySpan(at("b")), Write: true}}
	if !p.holds.Ask(ID{2}, claim, 3000) {
		t.Fatal("it is not granted")
	}
	if r := p.do(prepare(3, set("b", "1"))); !errors.Is(r.Err, ErrHeld) {
		t.Errorf("another prepares: %v", r.Err)
	}
	if r := p.do(prepare(2, set("a", "2"), set("b", "2"))); !errors.Is(r.Err, ErrLocked) {
		t.Errorf("the lock from before is not met: %v", r.Err)
	}
	p.do(&Resolve{ID: ID{1}})
	if r := p.do(prepare(2, set("a", "2"), set("b", "2"))); r.Err != nil {
		t.Errorf("the holder: %v", r.Err)
	}
	p.holds.Release(ID{2})
	if r := p.do(prepare(3, set("c", "1"))); r.Err != nil {
		t.Errorf("after the release: %v", r.Err)
	}
}
