package watch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// mirroredWatcher is a watcher with what it makes of events.
type mirroredWatcher struct {
	watcher *Watcher
	target  Target
	opts    Options
	copy    *mirror
}

// drainUntil receives all up to a place.
func drainUntil(t testing.TB, w *Watcher, end cleave.Cursor, hear func(Event)) {
	t.Helper()
	for deadline := time.Now().Add(hangTimeout()); !w.Cursor().Covers(end); {
		c, cancel := context.WithTimeout(ctx, time.Millisecond)
		e, err := w.Next(c)
		cancel()
		switch {
		case err == nil:
			hear(e)
		case !errors.Is(err, context.DeadlineExceeded):
			t.Fatal(err)
		case time.Now().After(deadline):
			t.Fatalf("it stays at %s, and does not come to %s", w.Cursor(), end)
		}
	}
}

// A watcher, wherever it begins, how slow it is and how often it comes back, ends with what
// the store has.
func TestAWatcherEndsWithWhatTheStoreHas(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ks, h := newKeyspaceAndHub(t, rapid.SampledFrom([]cleave.Kind{cleave.Hash, cleave.Range}).Draw(rt, "kind"))
		other, _ := newKeyspaceAndHub(t, cleave.Range)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		// pasts are places in the feed with what there was.
		type past struct {
			at   cleave.Cursor
			copy *mirror
		}
		var pasts []past
		var watching []*mirroredWatcher
		defer func() {
			for _, s := range watching {
				s.watcher.Close()
			}
			if h.watcherCount != 0 || len(h.watchers) != 0 || h.cancelReader != nil {
				rt.Errorf("the hub has %d watchers left", h.watcherCount)
			}
		}()
		begin := func(p past, target Target, o Options) *mirroredWatcher {
			o.From = p.at
			w, err := h.Watch(target, o)
			must(t, err)
			return &mirroredWatcher{watcher: w, target: w.target, opts: o, copy: p.copy.restrictTo(&w.target)}
		}
		hear := func(s *mirroredWatcher, e Event) {
			if e.Kind == Lost {
				if s.opts.Every {
					rt.Fatal("one that is told everything has lost something")
				}
				now, _ := readAll(t, ks)
				s.copy = now.restrictTo(&s.target)
				return
			}
			if !s.target.hasKey(e.Key) {
				rt.Fatalf("%s is not watched", e.Key)
			}
			if err := s.copy.apply(e); err != nil {
				rt.Fatal(err)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				for range rapid.IntRange(1, 8).Draw(rt, "writes") {
					must(t, writeRandom(ks, rng, 12))
					must(t, writeRandom(other, rng, 12))
				}
			},
			"note": func(rt *rapid.T) {
				m, at := readAll(t, ks)
				pasts = append(pasts, past{at, m})
			},
			"watch": func(rt *rapid.T) {
				target := Target{Keyspace: ks}
				switch rapid.IntRange(0, 4).Draw(rt, "target") {
				case 0:
					target.Keys = [][]byte{numberKey(3)}
				case 1:
					target.Keys = [][]byte{numberKey(9), numberKey(3), numberKey(9), numberKey(77)}
				case 2:
					target.Prefix = []byte("000")
				case 3:
					target.Start, target.End = numberKey(2), numberKey(11)
				}
				o := Options{Every: rapid.Bool().Draw(rt, "every"), Buffer: []int{0, 1, 3}[rapid.IntRange(0, 2).Draw(rt, "buffer")]}
				m, at := readAll(t, ks)
				p := past{"", m}
				if rapid.Bool().Draw(rt, "at") {
					p.at = at
				}
				if len(pasts) > 0 && rapid.Bool().Draw(rt, "past") {
					p = pasts[rapid.IntRange(0, len(pasts)-1).Draw(rt, "which")]
				}
				watching = append(watching, begin(p, target, o))
			},
			"hear": func(rt *rapid.T) {
				if len(watching) == 0 {
					rt.Skip()
				}
				s := watching[rapid.IntRange(0, len(watching)-1).Draw(rt, "who")]
				for range rapid.IntRange(1, 5).Draw(rt, "events") {
					c, cancel := context.WithTimeout(ctx, 2*time.Millisecond)
					e, err := s.watcher.Next(c)
					if cancel(); err != nil {
						checkRefused(t, "next", err, context.DeadlineExceeded)
						return
					}
					hear(s, e)
				}
			},
			"leave and come back": func(rt *rapid.T) {
				if len(watching) == 0 {
					rt.Skip()
				}
				i := rapid.IntRange(0, len(watching)-1).Draw(rt, "who")
				s := watching[i]
				at := s.watcher.Cursor()
				s.watcher.Close()
				watching[i] = begin(past{at, s.copy}, s.target, s.opts)
			},
		})
		now, _ := readAll(t, ks)
		for _, s := range watching {
			drainUntil(t, s.watcher, h.db.Head(), func(e Event) { hear(s, e) })
			if d := s.copy.diffFrom(now.restrictTo(&s.target)); d != "" {
				rt.Fatalf("a watcher of %+v with %+v has %s", s.target, s.opts, d)
			}
		}
	})
}

// While several goroutines write, in several stores, and shards move, all watchers end with what
// there is: fast and slow ones, those of every change, of some keys, and those that follow
// or come back all the time. No goroutine is left behind.
func TestAllWhoWatchEndWithWhatThereIsWhileShardsMove(t *testing.T) {
	seed := testSeed(t)
	ks, h := newKeyspaceAndHub(t, cleave.Range)
	db := h.db
	checkGoroutines(t)
	const keys = 400 // more than a page of rows
	job, err := db.Start(ctx, cleave.SplitAtKeys(ks, numberKey(100), numberKey(200), numberKey(300)))
	must(t, err)
	_, err = job.Wait(ctx)
	must(t, err)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 3 * keys {
		must(t, writeRandom(ks, rng, keys))
	}
	stop := make(chan struct{})
	var writers, readers sync.WaitGroup
	over := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	for i := range uint64(2) {
		writers.Go(func() {
			for rng := rand.New(rand.NewPCG(seed, 1+i)); !over(); time.Sleep(100 * time.Microsecond) {
				if err := writeRandom(ks, rng, keys); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Go(func() { // across stores
		for rng := rand.New(rand.NewPCG(seed, 3)); !over(); time.Sleep(time.Millisecond) {
			err := db.Update(ctx, func(tx *cleave.Txn) error {
				for range 3 {
					key := numberKey(rng.IntN(keys))
					if _, err := tx.Delete(ks, key); err != nil {
						return err
					}
					if err := tx.Set(ks, key, fmt.Append(nil, rng.Uint32())); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
	c := hangContext(t)
	watch := func(name string, target Target, o Options, slow time.Duration) {
		target.Keyspace = ks
		if target.Keys != nil {
			target.Keys = append(target.Keys, endKey)
		}
		readers.Go(func() {
			r := mirrorReader{name: name, target: target, mirror: newMirror()}
			for e, err := range h.Follow(c, target, o) {
				if r.handleEvent(t, ks, e, err) {
					return
				}
				if slow > 0 && !over() {
					time.Sleep(slow)
				}
			}
		})
	}
	watch("all", Target{}, Options{}, 0)
	watch("every", Target{}, Options{Every: true}, 0)
	watch("slow", Target{}, Options{Buffer: 20}, 5*time.Millisecond)
	watch("slow, every", Target{}, Options{Every: true, Buffer: 20}, 2*time.Millisecond)
	watch("keys", Target{Keys: [][]byte{numberKey(1), numberKey(150), numberKey(350)}}, Options{}, 0)
	watch("range", Target{Start: numberKey(90), End: []byte("99999")}, Options{Buffer: 1}, 0)
	readers.Go(func() { // comes back all the time
		r := mirrorReader{name: "who comes back", target: Target{Keyspace: ks}, mirror: newMirror()}
		for at := cleave.Cursor(""); ; {
			n := 0
			r.versions = map[string]uint64{} // it may receive things again
			for e, err := range h.Follow(c, r.target, Options{From: at}) {
				if r.handleEvent(t, ks, e, err) {
					return
				}
				at = e.After
				if n++; at != "" && n > 50 {
					break
				}
			}
		}
	})
	for range scaleRounds(4) {
		moveShardOf(t, db, ks, numberKey(rng.IntN(keys)))
	}
	close(stop)
	writers.Wait()
	waitResolved(t, ks)
	must(t, ks.Set(ctx, endKey, []byte("x")))
	readers.Wait()
	if h.watcherCount != 0 || h.cancelReader != nil {
		t.Errorf("the hub has %d watchers left", h.watcherCount)
	}
}

// endKey is the key that is written last.
var endKey = []byte("9999")

// mirrorReader makes a copy of what it receives.
type mirrorReader struct {
	name   string
	target Target
	*mirror
	want *mirror // what there is, once it has received end
}

// handleEvent takes an event, and reports whether the reader may go: it has all that there is, or
// has failed. Stores report in any order, so end may come before what others have.
func (r *mirrorReader) handleEvent(t *testing.T, ks *cleave.Keyspace, e Event, err error) (over bool) {
	switch {
	case err != nil && r.want != nil:
		t.Errorf("%s: %v; it has %s", r.name, err, r.diffFrom(r.want))
		return true
	case err == nil:
		err = r.apply(e)
	}
	if err == nil && e.Kind == Lost {
		err = errors.New("who follows does not lose anything")
	}
	if err != nil {
		t.Errorf("%s: %v", r.name, err)
		return true
	}
	if r.want == nil && string(e.Key) == string(endKey) {
		plain, err := r.target.checkAndNormalize(ks.DB())
		must(t, err)
		now, _ := readAll(t, ks)
		r.want = now.restrictTo(&plain)
	}
	return r.want != nil && r.diffFrom(r.want) == ""
}

// moveShardOf moves the shard of a key to another store.
func moveShardOf(t testing.TB, db *cleave.DB, ks *cleave.Keyspace, key []byte) {
	t.Helper()
	at := ks.Locate(key)
	groups := db.Groups()
	i := slices.IndexFunc(groups, func(g cleave.GroupInfo) bool { return g.Store != at.Store })
	job, err := db.Start(ctx, cleave.Move{Shard: at.Shard, To: groups[i].ID})
	must(t, err)
	_, err = job.Wait(ctx)
	must(t, err)
}

// waitResolved waits until transactions across stores are in the rows, and so in the feed.
func waitResolved(t testing.TB, ks *cleave.Keyspace) {
	t.Helper()
	eventually.Holds(t, "transactions are resolved", func() bool { return ks.DB().Metrics().Transactions.Open == 0 })
}

// The order of commits to one key is that of its events, to whichever store it is moved.
func TestEveryChangeOfAKeyIsToldInOrderWhileItIsMoved(t *testing.T) {
	ks, h := newKeyspaceAndHub(t, cleave.Range)
	w := watchAll(t, h, ks, Options{Every: true, Buffer: 3})
	const last = 400
	go func() {
		for i := range last + 1 {
			if err := ks.Set(ctx, []byte("k"), numberKey(i)); err != nil {
				t.Error(err)
			}
			if i%200 == 50 {
				moveShardOf(t, h.db, ks, []byte("k"))
			}
		}
	}()
	want := 0
	for e, err := range w.Events(hangContext(t)) {
		must(t, err)
		if string(e.Item.Value) != string(numberKey(want)) {
			t.Fatalf("%s is told where %d was to come", e.Item.Value, want)
		}
		if want++; want > last {
			break
		}
	}
}

func TestWhoTakesItsTimeHoldsUpNobodyAndHearsOnceThatItMustReadAgain(t *testing.T) {
	ks, h := newKeyspaceAndHub(t, cleave.Range)
	slow, fast := watchAll(t, h, ks, Options{Buffer: 5}), watchAll(t, h, ks, Options{})
	patient := watchAll(t, h, ks, Options{Every: true, Buffer: 5})
	for i := range 100 {
		must(t, ks.Set(ctx, numberKey(i), nil))
	}
	c := hangContext(t)
	for i := range 100 {
		for name, w := range map[string]*Watcher{"fast": fast, "every": patient} {
			if e, err := w.Next(c); err != nil || string(e.Key) != string(numberKey(i)) {
				t.Fatalf("%s hears %s %s, %v, want %d", name, e.Kind, e.Key, err, i)
			}
		}
	}
	if n := slow.queue.len(); n > 6 {
		t.Errorf("%d keys wait for the slow one", n)
	}
	e, err := slow.Next(c)
	if err != nil || e.Kind != Lost {
		t.Fatalf("the slow one hears %s of %s, %v", e.Kind, e.Key, err)
	}
	must(t, ks.Set(ctx, []byte("later"), nil))
	if e, err := slow.Next(c); err != nil || string(e.Key) != "later" || e.Kind != Set {
		t.Errorf("then it hears %s of %s, %v", e.Kind, e.Key, err)
	}
	if e, err := slow.Next(newCanceledContext()); !errors.Is(err, context.Canceled) {
		t.Errorf("and then %v, %v", e, err)
	}
}

// newCanceledContext returns a context that has ended.
func newCanceledContext() context.Context {
	c, cancel := context.WithCancel(ctx)
	cancel()
	return c
}
