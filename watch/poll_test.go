package watch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
)

// Pollers are spread evenly from the first round on, also if they begin together.
func TestPollersAreSpreadEvenly(t *testing.T) {
	const pollers, rounds, slices = 2000, 20, 20
	rng := rand.New(rand.NewPCG(1, 2))
	o, err := PollOptions{Every: time.Second, Rand: rng.Float64}.withDefaults()
	must(t, err)
	counts := make([]int, rounds*slices)
	looks := 0
	for range pollers {
		p := pollPacer{opts: o, pause: o.Every}
		for at := p.firstPause(); ; at += p.nextPause(false, nil) {
			i := int(at * slices / time.Second)
			if i >= len(counts) {
				break
			}
			counts[i]++
			looks++
		}
	}
	if mean := float64(looks) / pollers / rounds; mean < 0.95 || mean > 1.05 {
		t.Errorf("%.2f looks a round, want one", mean)
	}
	even := float64(pollers) / slices
	for i, n := range counts {
		if float64(n) < 0.6*even || float64(n) > 1.4*even {
			t.Errorf("%d look in slice %d, about %.0f would be even", n, i, even)
		}
	}
}

func TestPollWaitsLongerAfterErrorsAndLessAfterChanges(t *testing.T) {
	o, err := PollOptions{Every: 8 * time.Second, Fast: time.Second, Slow: time.Minute, Rand: func() float64 { return 0.5 }}.withDefaults()
	must(t, err)
	bad := errors.New("bad")
	p := pollPacer{opts: o, pause: o.Every}
	for i, step := range []struct {
		changed bool
		err     error
		want    time.Duration
	}{
		{false, nil, 8 * time.Second}, {true, nil, time.Second}, {false, nil, 2 * time.Second}, {false, nil, 4 * time.Second},
		{false, nil, 8 * time.Second}, {false, nil, 8 * time.Second},
		{true, bad, 16 * time.Second}, {true, bad, 28 * time.Second}, {true, bad, 46 * time.Second}, {true, bad, time.Minute}, {true, bad, time.Minute},
		{false, nil, 8 * time.Second}, {true, bad, 16 * time.Second},
	} {
		if d := p.nextPause(step.changed, step.err); d != step.want {
			t.Errorf("step %d: %v, want %v", i, d, step.want)
		}
	}
}

func TestPollYieldsChangesAndErrorsUntilItsContextEnds(t *testing.T) {
	c, cancel := context.WithCancel(ctx)
	slept, looks := time.Duration(0), 0
	o := PollOptions{
		Every: time.Second, Rand: func() float64 { return 0.5 },
		Sleep: func(ctx context.Context, d time.Duration) error { slept += d; return ctx.Err() },
	}
	bad := errors.New("bad")
	var got []string
	for v, err := range Poll(c, o, func(context.Context) (int, bool, error) {
		if looks++; looks%5 == 0 {
			return looks, false, bad
		}
		return looks, looks%2 == 0, nil
	}) {
		got = append(got, fmt.Sprint(v, err))
		if looks == 8 {
			cancel()
		}
	}
	if s := fmt.Sprint(got); s != "[2 <nil> 4 <nil> 0 bad 6 <nil> 8 <nil> 0 context canceled]" {
		t.Errorf("got %v", s)
	}
	// Half a round, then seven rounds and two, one of which was after an error.
	if slept != 500*time.Millisecond+7*time.Second+2*time.Second {
		t.Errorf("slept %v", slept)
	}
	for _, o := range []PollOptions{{Every: 1}, {Fast: time.Minute}, {Slow: time.Second}} {
		for _, err := range Poll(ctx, o, func(context.Context) (int, bool, error) { return 0, true, nil }) {
			checkRefused(t, fmt.Sprint(o.Every), err, cleave.ErrOptions)
		}
	}
	c, cancel = context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	for _, err := range Poll(c, PollOptions{Every: time.Millisecond}, func(context.Context) (int, bool, error) { return 0, false, nil }) {
		checkRefused(t, "the end", err, context.DeadlineExceeded)
	}
}
