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

	"github.com/cleavekv/cleave/internal/testkit/tally"
)

// okTxn is an acknowledged transaction over an interval.
func okTxn(invoke, ret int64, ops ...Op) Txn {
	return Txn{Call{Invoke: invoke, Return: ret, Status: OK}, ops}
}

func failedTxn(invoke, ret int64, ops ...Op) Txn {
	return Txn{Call{Invoke: invoke, Return: ret, Status: Failed}, ops}
}

func openTxn(invoke int64, ops ...Op) Txn {
	return Txn{Call{Invoke: invoke}, ops}
}

// listAnomalies has one small history of each sort. All transactions are concurrent
// unless it is about time.
var listAnomalies = []struct {
	what    string
	kind    Kind
	name    string
	history []Txn
}{
	{"one element twice", Duplicate, "", []Txn{okTxn(0, 9, Append("x", 1)), okTxn(0, 9, Read("x", 1, 1))}},
	{"twice off the order", Duplicate, "", []Txn{
		okTxn(0, 9, Append("x", 1)), okTxn(0, 9, Append("x", 2)), okTxn(0, 9, Append("x", 3)),
		okTxn(0, 9, Read("x", 1, 2, 3)), okTxn(0, 9, Read("x", 2, 2))}},
	{"an element of nobody", Garbage, "", []Txn{okTxn(0, 9, Read("x", 7))}},
	{"an element of another key", Garbage, "", []Txn{okTxn(0, 9, Append("y", 7)), okTxn(0, 9, Read("x", 7))}},
	{"never seen again", Lost, "", []Txn{okTxn(0, 1, Append("x", 1)), okTxn(2, 3, Read("x"))}},
	{"from one that failed", G1a, "", []Txn{failedTxn(0, 9, Append("x", 1)), okTxn(0, 9, Read("x", 1))}},
	{"from the midst of another", G1b, "", []Txn{
		okTxn(0, 9, Append("x", 1), Append("x", 2)), okTxn(0, 9, Read("x", 1)), okTxn(0, 9, Read("x", 1, 2))}},
	{"two orders", Forked, "", []Txn{
		okTxn(0, 9, Append("x", 1)), okTxn(0, 9, Append("x", 2)), okTxn(0, 9, Read("x", 1, 2)), okTxn(0, 9, Read("x", 2, 1))}},
	{"appends of one the other way round", Reordered, "", []Txn{
		okTxn(0, 9, Append("x", 1), Append("x", 2)), okTxn(0, 9, Read("x", 2, 1))}},
	{"its own append not seen", Internal, "", []Txn{okTxn(0, 9, Append("x", 1), Read("x"))}},
	{"its own append seen too early", Internal, "", []Txn{okTxn(0, 9, Read("x", 1), Append("x", 1))}},
	{"its own append not the last", Internal, "", []Txn{
		okTxn(0, 9, Append("x", 1), Read("x", 1, 2)), okTxn(0, 9, Append("x", 2))}},
	{"two reads of one differ", Internal, "", []Txn{okTxn(0, 9, Append("x", 1)), okTxn(0, 9, Read("x"), Read("x", 1))}},
	{"writes interleaved", G0, "", []Txn{
		okTxn(0, 9, Append("x", 1), Append("y", 2)), okTxn(0, 9, Append("x", 3), Append("y", 4)),
		okTxn(0, 9, Read("x", 1, 3)), okTxn(0, 9, Read("y", 4, 2))}},
	{"writes interleaved, one not seen", G0, "", []Txn{
		okTxn(0, 9, Append("x", 1), Append("y", 2)), okTxn(0, 9, Append("x", 3), Append("y", 4)),
		okTxn(0, 9, Read("x", 1)), okTxn(0, 9, Read("y", 4, 2))}},
	{"each read the other's", G1c, "", []Txn{
		okTxn(0, 9, Append("x", 1), Read("y", 2)), okTxn(0, 9, Append("y", 2), Read("x", 1))}},
	{"both read, then both appended", GSingle, "lost update", []Txn{
		okTxn(0, 9, Read("x"), Append("x", 1)), okTxn(0, 9, Read("x"), Append("x", 2)), okTxn(0, 9, Read("x", 1, 2))}},
	{"half of another", GSingle, "fractured read", []Txn{
		okTxn(0, 9, Append("x", 1), Append("y", 2)), okTxn(0, 9, Read("x", 1), Read("y"))}},
	{"half of another that is open", GSingle, "fractured read", []Txn{
		openTxn(0, Append("x", 1), Append("y", 2)), okTxn(5, 9, Read("x", 1), Read("y"))}},
	{"each read what the other wrote", G2, "write skew", []Txn{
		okTxn(0, 9, Read("x"), Append("y", 1)), okTxn(0, 9, Read("y"), Append("x", 2)), okTxn(0, 9, Read("x", 2), Read("y", 1))}},
	{"the same, never read", G2, "write skew", []Txn{
		okTxn(0, 9, Read("x"), Append("y", 1)), okTxn(0, 9, Read("y"), Append("x", 2))}},
	{"two readers, two orders", G2, "long fork", []Txn{
		okTxn(0, 9, Append("x", 1)), okTxn(0, 9, Append("y", 2)), okTxn(0, 9, Read("x", 1), Read("y")), okTxn(0, 9, Read("x"), Read("y", 2))}},
	{"a later write in front", G0RealTime, "", []Txn{
		okTxn(0, 1, Append("x", 1)), okTxn(2, 3, Append("x", 2)), okTxn(0, 9, Read("x", 2, 1))}},
	{"a read from the future", G1cRealTime, "", []Txn{okTxn(0, 1, Read("x", 1)), okTxn(2, 3, Append("x", 1))}},
	{"an old read", GSingleRealTime, "stale read", []Txn{
		okTxn(0, 1, Append("x", 1)), okTxn(2, 3, Read("x")), okTxn(0, 9, Read("x", 1))}},
	{"older than somebody saw", GSingleRealTime, "stale read", []Txn{
		openTxn(0, Append("x", 1)), okTxn(2, 3, Read("x", 1)), okTxn(4, 5, Read("x"))}},
	{"an old read by way of another", GSingleRealTime, "stale read", []Txn{
		okTxn(0, 1, Append("x", 1)), okTxn(2, 3, Append("y", 2)), okTxn(0, 9, Read("x"), Read("y", 2))}},
	{"two old reads", G2RealTime, "", []Txn{
		okTxn(0, 1, Append("y", 1)), okTxn(2, 3, Read("x")), okTxn(0, 9, Read("y"), Append("x", 2))}},
}

func TestEachAnomalyIsFoundAndNamed(t *testing.T) {
	for _, test := range listAnomalies {
		t.Run(test.what, func(t *testing.T) {
			if hasOrder(test.history) {
				t.Fatal("the test is wrong: there is an order")
			}
			for range 2 {
				r := Lists(test.history)
				if !r.Has(test.kind) || !r.HasName(test.name) || !errors.Is(r.Err(), ErrAnomaly) {
					t.Fatalf("want %s (%s), got %v", test.kind, test.name, r)
				}
				if err := checkCycles(test.history, r); err != nil {
					t.Error(err)
				}
				slices.Reverse(test.history) // what it finds does not depend on the order of the notes
			}
		})
	}
}

func TestWhatIsPossibleIsNoAnomaly(t *testing.T) {
	for _, test := range []struct {
		what    string
		history []Txn
	}{
		{"nothing", nil},
		{"an open append that came", []Txn{openTxn(0, Append("x", 1)), okTxn(5, 6, Read("x", 1))}},
		{"an open append that came late", []Txn{openTxn(0, Append("x", 1)), okTxn(5, 6, Read("x")), okTxn(7, 8, Read("x", 1))}},
		{"an open append that never came", []Txn{openTxn(0, Append("x", 1)), okTxn(5, 6, Read("x"))}},
		{"a failed one with an odd read", []Txn{failedTxn(0, 1, Read("x", 9)), okTxn(5, 6, Read("x"))}},
		{"an open one with an odd read", []Txn{openTxn(0, Read("x", 9), Append("x", 1)), okTxn(5, 6, Read("x"))}},
		{"a touch is no order", []Txn{okTxn(0, 5, Append("x", 1)), okTxn(5, 6, Read("x"))}},
		{"its own appends in between", []Txn{
			okTxn(0, 1, Append("x", 1)), okTxn(2, 3, Read("x", 1), Append("x", 2), Read("x", 1, 2), Append("x", 3), Read("x", 1, 2, 3))}},
		{"appends that nobody read", []Txn{okTxn(0, 9, Append("x", 1), Append("y", 2)), okTxn(0, 9, Append("y", 3), Append("x", 4))}},
	} {
		if r := Lists(test.history); !r.OK() || !hasOrder(test.history) {
			t.Errorf("%s: %v", test.what, r)
		}
	}
}

func TestAHistoryThatCannotBeIsRefused(t *testing.T) {
	for _, test := range []struct {
		what    string
		history []Txn
	}{
		{"returned", []Txn{okTxn(5, 4)}},
		{"status", []Txn{{Call: Call{Status: 3}}}},
		{"unique", []Txn{okTxn(0, 1, Append("x", 1)), okTxn(0, 1, Append("y", 1))}},
	} {
		r := Lists(test.history)
		if err := r.Err(); !errors.Is(err, ErrHistory) || !strings.Contains(err.Error(), test.what) {
			t.Errorf("%s: %v", test.what, err)
		}
	}
}

func TestAReportKeepsFewAndCountsAll(t *testing.T) {
	var h []Txn
	for i := range int64(100) {
		h = append(h, okTxn(i, i, Read("x", uint64(i)+1)))
	}
	h = append(h, okTxn(0, 1, Append("y", 1000)), okTxn(2, 3, Read("y")))
	r := Lists(h)
	if r.Counts[Garbage] < 90 || r.Counts[Lost] != 1 || len(r.Anomalies) > 3*maxKeptAnomalies+2 {
		t.Errorf("%v", r)
	}
	if !slices.IsSortedFunc(r.Anomalies, func(a, b Anomaly) int { return kindRank(a.Kind) - kindRank(b.Kind) }) {
		t.Errorf("not the worst first: %v", r)
	}
}

// runSeeds calls f with the randomness of n seeds, fewer if the test is short and
// more in a soak, until it fails. CLEAVE_SEED replays one.
func runSeeds(t *testing.T, n int, f func(rng *rand.Rand)) {
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
			t.Fatalf("run again with: CLEAVE_SEED=%d go test -run '^%s$' ./internal/testkit/check", seed, t.Name())
		}
	}
}

// logCounts logs the counts. A run of all seeds must have gone through what is
// needed.
func logCounts(t *testing.T, counts *tally.Counts, needed ...string) {
	t.Helper()
	if os.Getenv("CLEAVE_SEED") != "" {
		needed = nil
	}
	counts.Log(t, needed...)
}

func formatHistory(history []Txn) string {
	var b strings.Builder
	for i, t := range history {
		fmt.Fprintf(&b, "T%d is %v\n", i, t)
	}
	return b.String()
}

func TestSerialHistoriesHaveNoAnomaly(t *testing.T) {
	var counts tally.Counts
	runSeeds(t, 1500, func(rng *rand.Rand) {
		g := generator{
			rng:  rng,
			Txns: 1 + rng.IntN(200), Clients: 1 + rng.IntN(12), Keys: 1 + rng.IntN(8), Steps: 1 + rng.IntN(6),
			Coarse: 1 + rng.Int64N(5), Faulty: rng.IntN(15),
		}
		h := g.run()
		r := Lists(h)
		if err := r.Err(); err != nil {
			t.Errorf("%v\n%s", err, formatHistory(h))
		}
		counts.Add("histories", 1)
		counts.Add("transactions judged", r.Judged)
		counts.Add("open transactions that were seen", r.Judged-countAcknowledged(h))
	})
	logCounts(t, &counts, "histories", "transactions judged", "open transactions that were seen")
}

func countAcknowledged(h []Txn) (n int) {
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
	runSeeds(t, 20_000, func(rng *rand.Rand) {
		g := generator{
			rng: rng, Isolation: isolationLevel(rng.IntN(4)),
			Txns: 2 + rng.IntN(5), Clients: 2 + rng.IntN(3), Keys: 1 + rng.IntN(3), Steps: 1 + rng.IntN(4),
			Coarse: 1 + rng.Int64N(3), Faulty: rng.IntN(10),
		}
		h := g.run()
		for range rng.IntN(3) {
			spoilHistory(rng, h)
		}
		want := hasOrder(h)
		r := Lists(h)
		if r.OK() != want {
			t.Errorf("an order exists: %v; the checker says: %v\n%s", want, r, formatHistory(h))
		}
		// A search that gives up at once finds something in every knot, too.
		hasty := checkLists(h, 0)
		if hasty.OK() != want {
			t.Errorf("an order exists: %v; a hasty search says: %v\n%s", want, hasty, formatHistory(h))
		}
		if err := errors.Join(checkCycles(h, r), checkCycles(h, hasty)); err != nil {
			t.Errorf("%v\n%s", err, formatHistory(h))
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
	logCounts(t, &counts, "right histories", "wrong histories",
		"histories with G0", "histories with G1c", "histories with G-single", "histories with G2",
		"histories with G0-realtime", "histories with G1c-realtime", "histories with G-single-realtime", "histories with G2-realtime",
		"histories with G1a", "histories with G1b", "histories with lost", "histories with forked",
		"histories with internal", "histories with duplicate", "histories with garbage", "histories with reordered")
}

// checkCycles holds the cycles of a report to what they claim: they close, no
// transaction is in one twice, and each edge is as it says.
func checkCycles(h []Txn, r *Report) error {
	for _, a := range r.Anomalies {
		if kindRank(a.Kind) >= kindRank(G0) && kindRank(a.Kind) <= kindRank(G2RealTime) && len(a.Cycle) < 2 {
			return fmt.Errorf("no cycle: %v", a)
		}
		var seen []int
		for i, e := range a.Cycle {
			next := a.Cycle[(i+1)%len(a.Cycle)]
			if e.To != next.From || slices.Contains(seen, e.From) || len(a.Cycle) != len(a.Calls) {
				return fmt.Errorf("no cycle: %v", a)
			}
			seen = append(seen, e.From)
			if !isEdgeTrue(e, h[e.From], h[e.To]) {
				return fmt.Errorf("edge %+v does not hold: %v", e, a)
			}
		}
	}
	return nil
}

func isEdgeTrue(e Edge, from, to Txn) bool {
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
	return from.isBefore(to.Call)
}

// spoilHistory changes one thing in a history, for the worse or not.
func spoilHistory(rng *rand.Rand, h []Txn) {
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
