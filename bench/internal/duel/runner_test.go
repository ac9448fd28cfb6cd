package duel

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// fakeClock moves only when a contestant says so.
type fakeClock struct{ now, cpu time.Duration }

func (c *fakeClock) Now() time.Duration { return c.now }
func (c *fakeClock) CPU() time.Duration { return c.cpu }

// costing returns a contestant that takes exactly perOp for an operation on
// each of two cores, and logs its windows.
func (c *fakeClock) costing(name string, perOp time.Duration, log *[]string) Contestant {
	return Contestant{Name: name, Work: func(ops int) {
		c.now += time.Duration(ops) * perOp
		c.cpu += 2 * time.Duration(ops) * perOp
		*log = append(*log, name)
	}}
}

func newFakeRunner(c *fakeClock) *Runner {
	return &Runner{Rounds: 12, LongRounds: 12, Window: time.Millisecond, Seed: 3, Clock: c, Settle: func() {}}
}

func TestRunnerFindsTheCostPerOperation(t *testing.T) {
	var clock fakeClock
	var log []string
	ours := clock.costing("ours", 10*time.Nanosecond, &log)
	ours.Ours = true
	peer := clock.costing("peer", 25*time.Nanosecond, &log)
	res := newFakeRunner(&clock).Run(Cell{ID: "x", Metrics: Costs, Contestants: []Contestant{ours, peer}})

	a, b := res.Line("ours"), res.Line("peer")
	if a.Median(0) != 10 || b.Median(0) != 25 {
		t.Errorf("time per operation %v and %v, want 10 and 25", a.Median(0), b.Median(0))
	}
	if cpu := res.Metric("CPU"); a.Median(cpu) != 20 {
		t.Errorf("CPU per operation %v, want 20", a.Median(cpu))
	}
	if got := Ratio(b, a, 0); got != (Estimate{2.5, 2.5, 2.5, 12}) {
		t.Errorf("ratio %+v, want 2.5 in all rounds", got)
	}
}

func TestEveryRoundGivesEachContestantOneWindowInAnOrderOfItsOwn(t *testing.T) {
	const contestants = 5
	play := func(seed uint64) [][]string {
		var clock fakeClock
		var log []string
		var cell Cell
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			cell.Contestants = append(cell.Contestants, clock.costing(name, time.Microsecond, &log))
		}
		cell.Ops = 1 // no calibration, so the log holds windows only
		r := newFakeRunner(&clock)
		r.Seed = seed
		r.Run(cell)
		return slices.Collect(slices.Chunk(log, contestants))
	}
	rounds := play(3)
	orders := map[string]bool{}
	for _, round := range rounds {
		orders[strings.Join(round, "")] = true
		if got := strings.Join(slices.Sorted(slices.Values(round)), ""); got != "abcde" {
			t.Errorf("round %v is not one window each", round)
		}
	}
	if len(rounds) != 12 || len(orders) < 8 {
		t.Errorf("%d rounds in %d orders, want 12 in nearly as many", len(rounds), len(orders))
	}
	if !reflect.DeepEqual(rounds, play(3)) {
		t.Error("equal seeds played in different orders")
	}
	if reflect.DeepEqual(rounds, play(4)) {
		t.Error("different seeds played in the same order")
	}
}

func TestCalibrationFillsTheWindowForFastAndSlowWork(t *testing.T) {
	for _, perOp := range []time.Duration{time.Nanosecond, time.Microsecond, 3 * time.Millisecond} {
		var clock fakeClock
		var log []string
		r := newFakeRunner(&clock)
		ops := r.calibrate(clock.costing("x", perOp, &log))
		if took := time.Duration(ops) * perOp; took < r.Window*9/10 || took > max(r.Window, perOp) {
			t.Errorf("%v an operation: %d operations take %v, want %v or one operation", perOp, ops, took, r.Window)
		}
	}
}

func TestOneStallDoesNotMakeWindowsShort(t *testing.T) {
	for stalled := range 8 {
		var clock fakeClock
		var log []string
		k := clock.costing("x", time.Microsecond, &log)
		work, windows := k.Work, 0
		k.Work = func(ops int) {
			if windows++; windows == 2+stalled {
				clock.now += 50 * time.Millisecond
			}
			work(ops)
		}
		r := newFakeRunner(&clock)
		if ops := r.calibrate(k); ops < 900 {
			t.Errorf("with a stall in window %d: %d operations, want 1000", stalled, ops)
		}
	}
}

func TestPrepareAndSettleAreNotTimed(t *testing.T) {
	var clock fakeClock
	var log []string
	k := clock.costing("x", time.Microsecond, &log)
	k.Prepare = func() { clock.now += time.Hour }
	r := newFakeRunner(&clock)
	r.Settle = func() { clock.now += time.Hour; clock.cpu += time.Hour }
	line := r.Run(Cell{Ops: 5, Metrics: Costs, Contestants: []Contestant{k}}).Lines[0]
	if line.Median(0) != 1000 || line.Median(1) != 2000 {
		t.Errorf("figures %v and %v, want 1000 and 2000", line.Median(0), line.Median(1))
	}
}

func TestGaugesReportTheirOwnFigures(t *testing.T) {
	next := 0.0
	k := Contestant{Name: "g", Gauge: func() []float64 { next++; return []float64{next, 7} }}
	res := newFakeRunner(&fakeClock{}).Run(Cell{
		Metrics:     []Metric{{"stall", Nanoseconds}, {"size", Bytes}},
		Contestants: []Contestant{k},
	})
	line := res.Lines[0]
	if len(line.Samples[0]) != 12 || line.Median(0) != 6.5 || line.Median(res.Metric("size")) != 7 {
		t.Errorf("samples %v", line.Samples)
	}
}

func TestAContestantThatPanicsIsOutAndTheOthersGoOn(t *testing.T) {
	var clock fakeClock
	var log []string
	turns := 0
	bad := Contestant{Name: "bad", Ours: true, Family: "f", Work: func(int) {
		if turns++; turns > 3 {
			panic("lost my keys")
		}
	}}
	good := clock.costing("good", time.Microsecond, &log)
	res := newFakeRunner(&clock).Run(Cell{Ops: 1, Contestants: []Contestant{bad, good}})
	if got := res.Line("bad"); got.Failed != "lost my keys" || !got.Ours || got.Family != "f" || got.Samples != nil {
		t.Errorf("line %+v, want its name and the reason alone", got)
	}
	if n := len(res.Line("good").Samples[0]); n != 12 {
		t.Errorf("the other one had %d rounds, want 12", n)
	}
	if turns != 4 {
		t.Errorf("%d turns, want none after the panic", turns)
	}
}

func TestFixedWorkHasItsOwnNumberOfRounds(t *testing.T) {
	var clock fakeClock
	var log []string
	k := clock.costing("x", time.Microsecond, &log)
	gauge := Contestant{Name: "gauge", Gauge: func() []float64 { return []float64{1} }}
	for name, test := range map[string]struct {
		cell Cell
		want int
	}{
		"fills windows": {Cell{Contestants: []Contestant{k}}, 12},
		"fixed":         {Cell{Ops: 5, Contestants: []Contestant{k}}, 5},
		"gauge":         {Cell{Contestants: []Contestant{gauge}}, 5},
	} {
		r := newFakeRunner(&clock)
		r.LongRounds = 5
		if got := r.Run(test.cell).Lines[0].Samples[0]; len(got) != test.want {
			t.Errorf("%s: %d rounds, want %d", name, len(got), test.want)
		}
	}
}
