package duel

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Runner measures cells. All fields are required.
type Runner struct {
	// Rounds is how often each contestant gets a window.
	Rounds int
	// LongRounds is Rounds for cells whose work is of a fixed size, which may
	// take much longer than a window.
	LongRounds int
	// Window is how long a window should last.
	Window time.Duration
	// Seed fixes the order of play.
	Seed  uint64
	Clock Clock
	// Settle runs before each window, outside of its time: it brings the
	// process into the same state for everyone.
	Settle func()
}

// Run measures every contestant of c in interleaved rounds. A contestant that
// panics is out: its result holds the reason instead of figures.
func (r *Runner) Run(c Cell) *Result {
	res := newResult(c)
	ops := make([]int, len(c.Contestants))
	for i, k := range c.Contestants {
		ops[i] = c.Ops
		res.guard(i, func() {
			if c.Ops == 0 && k.Work != nil {
				ops[i] = r.calibrate(k)
			}
		})
	}
	rng := rand.New(rand.NewPCG(r.Seed, uint64(len(c.Contestants))))
	for range r.rounds(c) {
		for _, i := range rng.Perm(len(c.Contestants)) {
			res.guard(i, func() { res.Lines[i].add(r.window(c.Contestants[i], ops[i])) })
		}
	}
	for i, k := range c.Contestants {
		if k.Facts != nil {
			res.guard(i, func() { res.Lines[i].Facts = k.Facts() })
		}
	}
	return res
}

func (r *Runner) rounds(c Cell) int {
	if c.Rounds > 0 {
		return c.Rounds
	}
	if c.fixed() {
		return r.LongRounds
	}
	return r.Rounds
}

// window gives one contestant its turn and returns its figures per operation.
func (r *Runner) window(k Contestant, ops int) []float64 {
	if k.Prepare != nil {
		k.Prepare()
	}
	r.Settle()
	if k.Work == nil {
		return k.Gauge()
	}
	cpu, start := r.Clock.CPU(), r.Clock.Now()
	k.Work(ops)
	wall := r.Clock.Now() - start
	cpu = r.Clock.CPU() - cpu
	return []float64{float64(wall) / float64(ops), float64(cpu) / float64(ops)}
}

// calibrate finds how many operations fill a window. It quadruples until the
// clock's own cost no longer counts, and warms the contestant up with that. Long
// enough is what is so three times: one stall must not make all windows short.
func (r *Runner) calibrate(k Contestant) int {
	const most = 1 << 40 // ends the search for work that takes no time at all
	r.window(k, 1)       // the first time may cost what no other does
	for ops := 1; ; ops *= 4 {
		perOp := r.window(k, ops)[0]
		for again := 0; again < 2 && r.fills(perOp, ops); again++ {
			perOp = min(perOp, r.window(k, ops)[0])
		}
		if r.fills(perOp, ops) || ops >= most {
			return max(1, int(float64(r.Window)/max(perOp, 1e-3)))
		}
	}
}

// fills reports whether so many operations take a fair part of a window.
func (r *Runner) fills(perOp float64, ops int) bool {
	return perOp*float64(ops)*4 >= float64(r.Window)
}

// guard runs f for contestant i unless it is out, and takes it out if f
// panics.
func (res *Result) guard(i int, f func()) {
	if res.Lines[i].Failed != "" {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			res.Lines[i].Samples, res.Lines[i].Failed = nil, fmt.Sprint(p)
		}
	}()
	f()
}
