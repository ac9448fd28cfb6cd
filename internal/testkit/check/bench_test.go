package check

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// longHistory is a history as the simulator makes them: keys are given up for new ones,
// or lists, and so reads, would grow with the run.
func longHistory(txns, clients int) []Txn {
	g := generator{rng: rand.New(rand.NewPCG(1, 1)), Txns: txns, Clients: clients, Keys: 64, Steps: 6, Coarse: 1, Faulty: 2, Fresh: 128}
	return g.run()
}

func BenchmarkLists(b *testing.B) {
	for _, clients := range []int{8, 1000} {
		h := longHistory(100_000, clients)
		b.Run(fmt.Sprintf("history=right/txns=%d/clients=%d", len(h), clients), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if r := Lists(h); !r.OK() {
					b.Fatal(r)
				}
			}
		})
	}
	h := longHistory(100_000, 8)
	for _, wrong := range []struct {
		name    string
		history []Txn
	}{{"rewound", rewindHalf(h)}, {"stale", addStaleRead(h)}, {"ring", newRing("r", len(h), 0, nil)}} {
		b.Run(fmt.Sprintf("history=%s/txns=%d/clients=8", wrong.name, len(h)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if r := Lists(wrong.history); r.OK() {
					b.Fatal("nothing found")
				}
			}
		})
	}
}

// rewindHalf moves the second half of a history to the front of time: half of all
// transactions are in one knot.
func rewindHalf(h []Txn) []Txn {
	moved := append([]Txn(nil), h...)
	end := h[len(h)-1].Invoke + 1
	for i := len(h) / 2; i < len(h); i++ {
		moved[i].Invoke -= end
		moved[i].Return -= end
	}
	return moved
}

// addStaleRead adds a transaction at the end that reads a state from the midst: the
// knot has no cycle of two.
func addStaleRead(h []Txn) []Txn {
	moved := slices.Clone(h)
	last := okTxn(h[len(h)-1].Invoke+100, h[len(h)-1].Invoke+200)
	for i := len(h) / 2; len(last.Ops) < 5; i++ {
		for _, op := range h[i].Ops {
			if h[i].Status == OK && op.Read && len(op.List) > 0 && len(h[i].Ops) == 1 {
				last.Ops = append(last.Ops, op)
			}
		}
	}
	return append(moved, last)
}
