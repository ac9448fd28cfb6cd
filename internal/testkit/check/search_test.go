package check

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// newRing returns transactions that form one cycle of rw edges, and share the first
// with others if that is given.
func newRing(name string, n int, invoke int64, shared *Txn) []Txn {
	txns := make([]Txn, n)
	for i := range n {
		ops := []Op{
			Read(fmt.Sprint(name, i)),
			Append(fmt.Sprint(name, (i+1)%n), rand.Uint64()),
		}
		if i == 0 && shared != nil {
			shared.Ops = append(shared.Ops, ops...)
			continue
		}
		txns[i] = okTxn(invoke, 99, ops...)
	}
	if shared != nil {
		return txns[1:]
	}
	return txns
}

func TestTheShortestCycleOfAKnotIsTold(t *testing.T) {
	for a := 2; a <= 8; a++ {
		for b := 2; b <= 8; b++ {
			h := newRing("a", a, 0, nil)
			h = append(h, newRing("b", b, 1, &h[0])...)
			r := Lists(h)
			if r.Counts[G2] != 1 || len(r.Counts) != 1 || len(r.Anomalies[0].Cycle) != min(a, b) {
				t.Errorf("rings of %d and %d: %v", a, b, r)
			}
		}
	}
}

func TestEachKnotIsTold(t *testing.T) {
	var h []Txn
	for i := range 2 * maxKeptAnomalies {
		h = append(h, newRing(fmt.Sprint("r", i, "."), 2, 0, nil)...)
	}
	if r := Lists(h); r.Counts[G2] != 2*maxKeptAnomalies || len(r.Anomalies) != maxKeptAnomalies {
		t.Errorf("%v", r)
	}
}

func TestADetourIsNotTold(t *testing.T) {
	r := Lists([]Txn{
		okTxn(0, 1, Read("x"), Append("x", 1)),
		okTxn(2, 3, Read("x"), Append("x", 2)),
		okTxn(0, 9, Read("x", 1, 2)),
	})
	if len(r.Anomalies) != 1 || !r.HasName("lost update") {
		t.Errorf("%v", r)
	}
}

func TestRealTimeReachesOverTheWholeHistory(t *testing.T) {
	g := generator{rng: rand.New(rand.NewPCG(1, 1)), Txns: 500, Clients: 5, Keys: 5, Steps: 3}
	h := append(g.run(),
		openTxn(-9, Append("z", 1<<40)),
		okTxn(-8, -7, Read("z", 1<<40)),
		okTxn(1<<40, 1<<40, Read("z")),
	)
	r := Lists(h)
	if err := checkCycles(h, r); err != nil || len(r.Anomalies) != 1 || !r.HasName("stale read") || len(r.Anomalies[0].Cycle) != 3 {
		t.Errorf("%v, %v", r, err)
	}
}

func TestRealTimeReachesOverCallsThatReturnMeanwhile(t *testing.T) {
	const clients = 20
	for seen := range clients {
		h := []Txn{openTxn(0, Append("z", 1))}
		for i := range int64(clients) {
			h = append(h, okTxn(0, 10+i, Read("y")))
		}
		h[1+seen].Ops = []Op{Read("z", 1)}
		h = append(h, okTxn(100, 101, Read("z")))
		if r := Lists(h); !r.HasName("stale read") {
			t.Errorf("seen by client %d: %v", seen, r)
		}
	}
}

func TestAForkIsNotCalledMore(t *testing.T) {
	r := Lists([]Txn{
		okTxn(0, 1, Append("x", 1)), okTxn(0, 1, Append("x", 3)), okTxn(0, 1, Append("x", 4)), openTxn(0, Append("x", 2)),
		okTxn(2, 3, Read("x", 1, 3)), okTxn(2, 3, Read("x", 2)), okTxn(4, 5, Read("x", 4)),
	})
	if r.Counts[Forked] != 2 || len(r.Counts) != 1 {
		t.Errorf("%v", r)
	}
}

func TestTheSameHistoryGetsTheSameReport(t *testing.T) {
	h := rewindHalf(longHistory(3000, 8))
	first := Lists(h).String()
	for range 3 {
		if again := Lists(h).String(); again != first {
			t.Fatalf("%s\nand then\n%s", first, again)
		}
	}
}
