package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/counter"
	"github.com/cleavekv/cleave/internal/ops/api"
)

var likes = Story{
	Name: "likes",
	About: "A celebrity posts, and all like it: one counter, one key. The store names it. Package counter splits the counter, and keeps " +
		"the parts only where adds then take less time.",
	Takes: 30 * time.Second,
	play:  playLikes,
}

const (
	// fans is how many like at once, and likedPost the post.
	fans      = 64
	likedPost = "post:celebrity"
	// fixedParts is how many parts a counter is given by hand, to compare.
	fixedParts = 8
)

func playLikes(st *stage) error {
	st.heading("All like one post")
	st.say("%d clients count the likes of one post with INCR; one request of five is about one of 100,000 other posts.", fans)
	crowd := st.start(&clients{number: fans, pipeline: 4, send: func(ctx context.Context, pipe redis.Pipeliner, r *rand.Rand) {
		key := likedPost
		if r.IntN(5) == 0 {
			key = "post:" + strconv.Itoa(r.IntN(100_000))
		}
		pipe.Incr(ctx, key)
	}})
	found, err := st.awaitFinding("hot key", "default")
	if err != nil {
		return err
	}
	_, err = st.awaitDecision("decision about it", func(d *api.Decision) bool { return d.Class == found.Class && d.Change == "keep" })
	if err != nil {
		return err
	}
	if err := crowd.stop(); err != nil {
		return err
	}
	return st.countLikes()
}

// likeWay is a way to count likes, and what was measured of it.
type likeWay struct {
	name  string
	add   func(context.Context) error
	sum   func(context.Context) (int64, error)
	parts func(context.Context) (int, error)

	window
	seconds float64
	writes  map[uint64]float64 // of groups
}

// countLikes adds to one number in three ways, from a program that embeds the store.
func (st *stage) countLikes() error {
	st.heading("One key, or a counter that splits itself")
	st.say("The same from a Go program: %d goroutines add to one number, as one key (Keyspace.Add), as package counter decides, and with %d parts "+
		"whatever it brings. The ways take turns.", fans, fixedParts)
	ks, err := st.db.CreateKeyspace(st.ctx, cleave.KeyspaceOptions{Name: "likes"})
	if err != nil {
		return err
	}
	decides, err := counter.Open(st.db, ks, counter.Options{})
	if err != nil {
		return err
	}
	defer decides.Close()
	fixed, err := counter.Open(st.db, ks, counter.Options{Window: time.Hour}) // it never decides
	if err != nil {
		return err
	}
	defer fixed.Close()
	if err := fixed.Resize(st.ctx, "fixed", fixedParts); err != nil {
		return err
	}
	ways := []*likeWay{plainWay(ks), counterWay("as it decides", decides, likedPost), counterWay(fmt.Sprintf("%d parts", fixedParts), fixed, "fixed")}
	for range likeTurns {
		for _, w := range ways {
			if err := st.takeTurn(w); err != nil {
				return err
			}
		}
	}
	return st.compareWays(ways)
}

// likeTurns is how often the ways take turns, so that all meet the same moods of the machine.
const likeTurns = 3

func plainWay(ks *cleave.Keyspace) *likeWay {
	name := []byte("plain")
	return &likeWay{
		name: "one key",
		add:  func(ctx context.Context) error { _, err := ks.Add(ctx, name, 1); return err },
		sum: func(ctx context.Context) (int64, error) {
			value, err := ks.Get(ctx, name)
			if err != nil {
				return 0, err
			}
			return strconv.ParseInt(string(value), 10, 64)
		},
		parts: func(context.Context) (int, error) { return 1, nil },
	}
}

func counterWay(way string, c *counter.Counters, name string) *likeWay {
	return &likeWay{
		name:  way,
		add:   func(ctx context.Context) error { return c.Add(ctx, name, 1) },
		sum:   func(ctx context.Context) (int64, error) { return c.Sum(ctx, name) },
		parts: func(ctx context.Context) (int, error) { return c.Parts(ctx, name) },
	}
}

// takeTurn lets the crowd like in one way for some time.
func (st *stage) takeTurn(w *likeWay) error {
	before, err := st.shardsOf("likes")
	if err != nil {
		return err
	}
	if err := st.likeInCrowd(w); err != nil {
		return err
	}
	after, err := st.shardsOf("likes")
	if err != nil {
		return err
	}
	if w.writes == nil {
		w.writes = map[uint64]float64{}
	}
	for i, share := range spreadOf(before, after).shares {
		w.writes[after[i].Group] += share / likeTurns
	}
	return nil
}

// compareWays adds all up and prints it.
func (st *stage) compareWays(ways []*likeWay) error {
	c := Comparison{Figures: []Figure{
		{Name: "parts at the end", format: asCount}, {Name: "busiest group's part of writes", format: asPercent}, {Name: "likes a second", format: asCount},
		{Name: "p99 of a like", format: asTime}, {Name: "time of an exact sum", format: asTime}, {Name: "likes that the sum lacks", format: asCount},
	}}
	for _, w := range ways {
		parts, err := w.parts(st.ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		sum, err := w.sum(st.ctx)
		if err != nil {
			return err
		}
		took := time.Since(began).Seconds()
		busiest := 0.0
		for _, n := range w.writes {
			busiest = max(busiest, n)
		}
		c.Columns = append(c.Columns, w.name)
		for i, v := range []float64{float64(parts), busiest, float64(w.done) / w.seconds, w.p99(), took, float64(int64(w.done) - sum)} {
			c.Figures[i].Values = append(c.Figures[i].Values, v)
		}
	}
	st.compare(c)
	st.print("\n")
	st.say("%s", judgeSplit(c.Figures[2].Values))
	return nil
}

// judgeSplit says in words what the split has brought: often nothing, and then the counter stays as it is.
func judgeSplit(rates []float64) string {
	ratio := rates[2] / rates[0]
	what := "That is a tie"
	switch {
	case ratio >= 1.2:
		what = "That pays"
	case ratio <= 1/1.2:
		what = "That does not pay"
	}
	return fmt.Sprintf("%s on %d processors: %d parts do %.2f times the likes of one key. Adds to one key that wait share a batch, so one hot key is not "+
		"slow by itself; parts help where one group is what limits, or where others of the group are held up (docs/patterns/counters.md).",
		what, runtime.NumCPU(), fixedParts, ratio)
}

// likeInCrowd adds with many goroutines for a turn.
func (st *stage) likeInCrowd(w *likeWay) error {
	var done atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	times, errs := make([][]time.Duration, fans), make([]error, fans)
	began := time.Now()
	for i := range fans {
		wg.Go(func() {
			for n := 0; !stop.Load() && errs[i] == nil; n++ {
				sent := time.Now()
				if errs[i] = w.add(st.ctx); errs[i] == nil {
					done.Add(1)
				}
				if n%16 == 0 { // enough for a percentile
					times[i] = append(times[i], time.Since(sent))
				}
			}
		})
	}
	err := st.rest(st.pace.Measure/likeTurns, "liking: "+w.name)
	stop.Store(true)
	wg.Wait()
	w.seconds += time.Since(began).Seconds()
	w.done += int(done.Load())
	for i := range times {
		w.times = append(w.times, times[i]...)
	}
	return errors.Join(append(errs, err)...)
}
