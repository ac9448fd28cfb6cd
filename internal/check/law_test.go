package check

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/tally"
)

// trials calls f with the randomness of n seeds, fewer if the test is short and
// more in a soak, until it fails. CLEAVE_SEED replays one.
func trials(t *testing.T, n int, f func(rng *rand.Rand)) {
	t.Helper()
	first := rand.Uint64()
	if s := os.Getenv("CLEAVE_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("CLEAVE_SEED is %q: use a number", s)
		}
		first, n = seed, 1
	} else if os.Getenv("CLEAVE_SOAK") == "1" {
		n *= 20
	} else if testing.Short() {
		n /= 10
	}
	for i := range n {
		seed := first + uint64(i)
		if f(rand.New(rand.NewPCG(seed, 0))); t.Failed() {
			t.Fatalf("run again with: CLEAVE_SEED=%d go test -run '^%s$' ./internal/check", seed, t.Name())
		}
	}
}

// finish logs the counts. A run of all seeds must have gone through what is
// needed.
func finish(t *testing.T, counts *tally.Counts, needed ...string) {
	t.Helper()
	if os.Getenv("CLEAVE_SEED") != "" {
		needed = nil
	}
	counts.Log(t, needed...)
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
	trials(t, 1500, func(rng *rand.Rand) {
		g := generator{
			rng:  rng,
			Txns: 1 + rng.IntN(200), Clients: 1 + rng.IntN(12), Keys: 1 + rng.IntN(8), Steps: 1 + rng.IntN(6),
			Coarse: 1 + rng.Int64N(5), Faulty: rng.IntN(15),
		}
		h := g.run()
		r := Lists(h)
		if err := r.Err(); err != nil {
			t.Errorf("%v\n%s", err, show(h))
		}
		counts.Add("histories", 1)
		counts.Add("transactions judged", r.Judged)
		counts.Add("open transactions that were seen", r.Judged-acknowledged(h))
	})
	finish(t, &counts, "histories", "transactions judged", "open transactions that were seen")
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
	trials(t, 20_000, func(rng *rand.Rand) {
		g := generator{
			rng: rng, Isolation: isolation(rng.IntN(4)),
			Txns: 2 + rng.IntN(5), Clients: 2 + rng.IntN(3), Keys: 1 + rng.IntN(3), Steps: 1 + rng.IntN(4),
			Coarse: 1 + rng.Int64N(3), Faulty: rng.IntN(10),
		}
		h := g.run()
		for range rng.IntN(3) {
			spoil(rng, h)
		}
		want := explainable(h)
		r := Lists(h)
		if r.OK() != want {
			t.Errorf("an order exists: %v; the checker says: %v\n%s", want, r, show(h))
		}
		// A search that gives up at once finds something in every knot, too.
		hasty := judge(h, 0)
		if hasty.OK() != want {
			t.Errorf("an order exists: %v; a hasty search says: %v\n%s", want, hasty, show(h))
		}
		if err := errors.Join(sound(h, r), sound(h, hasty)); err != nil {
			t.Errorf("%v\n%s", err, show(h))
		}
		if want {
			counts.Add("right histories", 1)
		} else {
			counts.Add("wrong histories", 1)
		}
		for k := range r.Counts {
			counts.Add("histories with "+string(k), 1)
		}
	})
	finish(t, &counts, "right histories", "wrong histories",
		"histories with G0", "histories with G1c", "histories with G-single", "histories with G2",
		"histories with G0-realtime", "histories with G1c-realtime", "histories with G-single-realtime", "histories with G2-realtime",
		"histories with G1a", "histories with G1b", "histories with lost", "histories with forked",
		"histories with internal", "histories with duplicate", "histories with garbage", "histories with reordered")
}

// sound holds the cycles of a report to what they claim: they close, no
// transaction is in one twice, and each edge is as it says.
func sound(h []Txn, r *Report) error {
	for _, a := range r.Anomalies {
		if rank(a.Kind) >= rank(G0) && rank(a.Kind) <= rank(G2RealTime) && len(a.Cycle) < 2 {
			return fmt.Errorf("no cycle: %v", a)
		}
		var seen []int
		for i, e := range a.Cycle {
			next := a.Cycle[(i+1)%len(a.Cycle)]
			if e.To != next.From || slices.Contains(seen, e.From) || len(a.Cycle) != len(a.Calls) {
				return fmt.Errorf("no cycle: %v", a)
			}
			seen = append(seen, e.From)
			if !holds(e, h[e.From], h[e.To]) {
				return fmt.Errorf("edge %+v does not hold: %v", e, a)
			}
		}
	}
	return nil
}

func holds(e Edge, from, to Txn) bool {
	appends := func(t Txn, any bool) bool {
		return slices.ContainsFunc(t.Ops, func(o Op) bool { return !o.Read && o.Key == e.Key && (any || o.Element == e.Element) })
	}
	reads := func(t Txn, with bool) bool {
		return slices.ContainsFunc(t.Ops, func(o Op) bool { return o.Read && o.Key == e.Key && slices.Contains(o.List, e.Element) == with })
	}
	switch e.Kind {
	case "ww":
		return appends(from, true) && appends(to, false)
	case "wr":
		return appends(from, false) && reads(to, true)
	case "rw":
		return reads(from, false) && appends(to, false)
	}
	return from.before(to.Call)
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
