package check

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/tally"
	"pgregory.net/rapid"
)

// rounds is how often rapid is asked for its hundred histories.
func rounds(n int) int {
	switch {
	case os.Getenv("CLEAVE_SOAK") == "1":
		return 100 * n
	case testing.Short():
		return n / 10
	}
	return n
}

func show(history []Txn) string {
	var b strings.Builder
	for i, t := range history {
		fmt.Fprintf(&b, "T%d is %v\n", i, t)
	}
	return b.String()
}

func TestSerialHistoriesHaveNoAnomaly(t *testing.T) {
	var counts tally.Counts
	for range rounds(40) {
		rapid.Check(t, func(t *rapid.T) {
			g := generator{
				Seed:    rapid.Uint64().Draw(t, "seed"),
				Txns:    rapid.IntRange(1, 200).Draw(t, "txns"),
				Clients: rapid.IntRange(1, 12).Draw(t, "clients"),
				Keys:    rapid.IntRange(1, 8).Draw(t, "keys"),
				Steps:   rapid.IntRange(1, 6).Draw(t, "steps"),
				Coarse:  rapid.Int64Range(1, 5).Draw(t, "coarse"),
				Faulty:  rapid.IntRange(0, 15).Draw(t, "faulty"),
			}
			h := g.run()
			r := Lists(h)
			if err := r.Err(); err != nil {
				t.Fatalf("%v\n%s", err, show(h))
			}
			counts.Add("histories", 1)
			counts.Add("transactions judged", r.Judged)
			counts.Add("open transactions that were seen", r.Judged-acknowledged(h))
		})
	}
	counts.Log(t, "histories", "transactions judged", "open transactions that were seen")
}

func acknowledged(h []Txn) (n int) {
	for _, t := range h {
		if t.Status == OK {
			n++
		}
	}
	return n
}

// TestSmallHistoriesAreJudgedLikeTheDefinition compares with a trial of all
// orders, over stores of every isolation and over histories that no store gave.
func TestSmallHistoriesAreJudgedLikeTheDefinition(t *testing.T) {
	var counts tally.Counts
	for range rounds(400) {
		rapid.Check(t, func(t *rapid.T) {
			g := generator{
				Isolation: rapid.SampledFrom([]isolation{serial, snapshot, stale, ragged}).Draw(t, "isolation"),
				Seed:      rapid.Uint64().Draw(t, "seed"),
				Txns:      rapid.IntRange(2, 6).Draw(t, "txns"),
				Clients:   rapid.IntRange(1, 4).Draw(t, "clients"),
				Keys:      rapid.IntRange(1, 3).Draw(t, "keys"),
				Steps:     rapid.IntRange(1, 4).Draw(t, "steps"),
				Coarse:    rapid.Int64Range(1, 3).Draw(t, "coarse"),
				Faulty:    rapid.IntRange(0, 20).Draw(t, "faulty"),
			}
			h := g.run()
			for n := rapid.IntRange(-2, 2).Draw(t, "changes"); n > 0; n-- {
				spoil(g.rng, h)
			}
			want := explainable(h)
			r := Lists(h)
			if r.OK() != want {
				t.Fatalf("an order exists: %v; the checker says: %v\n%s", want, r, show(h))
			}
			if want {
				counts.Add("right histories", 1)
			} else {
				counts.Add("wrong histories", 1)
			}
			for k := range r.Counts {
				counts.Add("histories with "+string(k), 1)
			}
			if err := sound(h, r); err != nil {
				t.Fatalf("%v\n%s", err, show(h))
			}
		})
	}
	counts.Log(t, "right histories", "wrong histories",
		"histories with G0", "histories with G1c", "histories with G-single", "histories with G2",
		"histories with G0-realtime", "histories with G1c-realtime", "histories with G-single-realtime", "histories with G2-realtime",
		"histories with G1a", "histories with G1b", "histories with lost", "histories with forked",
		"histories with internal", "histories with duplicate", "histories with garbage", "histories with reordered")
}

// sound holds the cycles of a report to what they claim: they close, no
// transaction is in one twice, and real time is as it says.
func sound(h []Txn, r *Report) error {
	for _, a := range r.Anomalies {
		var seen []int
		for i, e := range a.Cycle {
			next := a.Cycle[(i+1)%len(a.Cycle)]
			if e.To != next.From || slices.Contains(seen, e.From) || len(a.Cycle) != len(a.Calls) {
				return fmt.Errorf("no cycle: %v", a)
			}
			seen = append(seen, e.From)
			if e.Kind == "rt" && !h[e.From].before(h[e.To].Call) {
				return fmt.Errorf("T%d is not before T%d: %v", e.From, e.To, a)
			}
		}
	}
	return nil
}

// spoil changes one thing in a history, for the worse or not.
func spoil(rng *rand.Rand, h []Txn) {
	t := &h[rng.IntN(len(h))]
	if len(t.Ops) == 0 {
		return
	}
	op := &t.Ops[rng.IntN(len(t.Ops))]
	switch n := len(op.List); rng.IntN(8) {
	case 0:
		t.Status = Status(rng.IntN(3))
		t.Return = max(t.Invoke, t.Return)
	case 1: // earlier or later
		by := rng.Int64N(9) - 4
		t.Invoke, t.Return = t.Invoke+by, t.Return+by
	case 2: // another's step
		other := h[rng.IntN(len(h))]
		if op.Read && len(other.Ops) > 0 {
			if o := other.Ops[rng.IntN(len(other.Ops))]; o.Read {
				op.List = o.List
			}
		}
	case 3:
		if op.Read {
			op.List = append(slices.Clone(op.List), 1+rng.Uint64N(12))
		}
	case 4:
		if n > 1 {
			op.List = slices.Clone(op.List)
			i, j := rng.IntN(n), rng.IntN(n)
			op.List[i], op.List[j] = op.List[j], op.List[i]
		}
	default:
		if n > 0 {
			op.List = op.List[:rng.IntN(n)]
		}
	}
}
