package wal

import (
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/cleavekv/cleave/internal/tally"
)

// TestAcknowledgedEntriesSurviveCrashes is the law of the package. It appends from
// several goroutines, crashes at a random operation (in Open, while zeros are
// written, while files are renamed, in the midst of a write), opens again, and
// compares. CLEAVE_SEED replays one seed, as far as the scheduler agrees;
// CLEAVE_SOAK runs for a long time.
func TestAcknowledgedEntriesSurviveCrashes(t *testing.T) {
	first, n := rand.Uint64()>>16, 300/slowdown
	if testing.Short() {
		n = 60 / slowdown
	}
	if os.Getenv("CLEAVE_SOAK") != "" {
		n = 10_000
	}
	if s := os.Getenv("CLEAVE_SEED"); s != "" {
		var err error
		if first, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
		n = 1
	}
	crashes, during := 0, 0
	for i := range n {
		w := newWorld(first + uint64(i))
		during += w.live(4 + w.rng.IntN(6))
		crashes += w.crashes
		if len(w.problems) > 0 {
			for _, p := range w.problems {
				t.Error(p)
			}
			t.Fatalf("durability %s; replay with CLEAVE_SEED=%d go test -run %s ./internal/wal", w.o.Durability, w.seed, t.Name())
		}
	}
	tally.Add(t, "seeds", n)
	tally.Add(t, "crashes", crashes)
	tally.Add(t, "crashes during Open", during)
	if during == 0 && n > 1 {
		t.Error("no crash happened during Open: the test is not what it says")
	}
}

// live goes through some lives of the log and returns how many ended in Open.
func (w *world) live(lives int) (during int) {
	for life := range lives {
		if len(w.problems) > 0 {
			return during
		}
		last := life == lives-1
		if !last && w.rng.IntN(3) == 0 {
			w.disk.set(func(d *disk) { d.fuse = w.rng.IntN(4) })
		}
		if err := w.open(); err != nil {
			if !errors.Is(err, errCrashed) || last {
				w.problem("open: %v", err)
				return during
			}
			during++
			_ = w.stop(false)
			continue
		}
		clean := last || w.rng.IntN(4) == 0
		if !clean {
			w.disk.set(func(d *disk) { d.fuse, d.gentle = w.rng.IntN(120), w.rng.IntN(4) == 0 })
		}
		w.work(clean)
		if err := w.stop(clean); clean && err != nil && !errors.Is(err, errCrashed) {
			w.problem("close: %v", err)
		}
	}
	return during
}

// work appends from several goroutines until the disk dies, or for a while.
func (w *world) work(clean bool) {
	var wg sync.WaitGroup
	for g := range 1 + w.rng.IntN(4) {
		rng := rand.New(rand.NewPCG(w.rng.Uint64(), uint64(g)))
		wg.Go(func() {
			for i := 0; !clean && i < 2000 || i < 20; i++ {
				switch rng.IntN(20) {
				case 0:
					w.syncOne()
				case 1:
					w.follow(rng)
				}
				if err := w.appendOne(rng); errors.Is(err, ErrFailed) {
					return
				} else if err != nil {
					w.problem("append: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
}
