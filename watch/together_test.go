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

	"github.com/cleavekv/cleave"
)

// While several write, in several stores, and shards move, all who watch end with what
// there is: fast and slow ones, those of every change, of some keys, and those who follow
// or come back all the time. Nobody leaves a goroutine behind.
func TestAllWhoWatchEndWithWhatThereIsWhileShardsMove(t *testing.T) {
	seed := seedOf(t)
	ks, h := fresh(t, cleave.Range)
	db := h.db
	leaks(t)
	const keys = 400 // more than a page of rows
	job, err := db.Start(ctx, cleave.Split{Keyspace: ks, At: [][]byte{number(100), number(200), number(300)}})
	must(t, err)
	_, err = job.Wait(ctx)
	must(t, err)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 3 * keys {
		must(t, write(ks, rng, keys))
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
				if err := write(ks, rng, keys); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Go(func() { // across stores
		for rng := rand.New(rand.NewPCG(seed, 3)); !over(); time.Sleep(time.Millisecond) {
			err := db.Update(ctx, func(tx *cleave.Txn) error {
				for range 3 {
					key := number(rng.IntN(keys))
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
	c := patience(t)
	watch := func(name string, target Target, o Options, slow time.Duration) {
		target.Keyspace = ks
		if target.Keys != nil {
			target.Keys = append(target.Keys, end)
		}
		readers.Go(func() {
			r := reader{name: name, target: target, mirror: newMirror()}
			for e, err := range h.Follow(c, target, o) {
				if r.hear(t, ks, e, err) {
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
	watch("keys", Target{Keys: [][]byte{number(1), number(150), number(350)}}, Options{}, 0)
	watch("range", Target{Start: number(90), End: []byte("99999")}, Options{Buffer: 1}, 0)
	readers.Go(func() { // comes back all the time
		r := reader{name: "who comes back", target: Target{Keyspace: ks}, mirror: newMirror()}
		for at := cleave.Cursor(""); ; {
			n := 0
			r.versions = map[string]uint64{} // it may hear things again
			for e, err := range h.Follow(c, r.target, Options{From: at}) {
				if r.hear(t, ks, e, err) {
					return
				}
				at = e.After
				if n++; at != "" && n > 50 {
					break
				}
			}
		}
	})
	for range soaking(4) {
		move(t, db, ks, number(rng.IntN(keys)))
	}
	close(stop)
	writers.Wait()
	settle(t, ks)
	must(t, ks.Set(ctx, end, []byte("x")))
	readers.Wait()
	if h.count != 0 || h.stop != nil {
		t.Errorf("the hub has %d watchers left", h.count)
	}
}

// end is the key that is written last.
var end = []byte("9999")

// reader makes a copy of what it hears.
type reader struct {
	name   string
	target Target
	*mirror
	want *mirror // what there is, once it has heard of end
}

// hear takes an event, and tells whether the reader may go: it has all that there is, or
// has failed. Stores are told in any order, so end may come before what others have.
func (r *reader) hear(t *testing.T, ks *cleave.Keyspace, e Event, err error) (over bool) {
	switch {
	case err != nil && r.want != nil:
		t.Errorf("%s: %v; it has %s", r.name, err, r.differs(r.want))
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
	if r.want == nil && string(e.Key) == string(end) {
		plain, err := r.target.check(ks.DB())
		must(t, err)
		now, _ := readAll(t, ks)
		r.want = now.within(&plain)
	}
	return r.want != nil && r.differs(r.want) == ""
}

// move moves the shard of a key to another store.
func move(t testing.TB, db *cleave.DB, ks *cleave.Keyspace, key []byte) {
	t.Helper()
	at := ks.Locate(key)
	groups := db.Groups()
	i := slices.IndexFunc(groups, func(g cleave.GroupInfo) bool { return g.Store != at.Store })
	job, err := db.Start(ctx, cleave.Move{Shard: at.Shard, To: groups[i].ID})
	must(t, err)
	_, err = job.Wait(ctx)
	must(t, err)
}

// settle waits until transactions across stores are in the rows, and so in the feed.
func settle(t testing.TB, ks *cleave.Keyspace) {
	t.Helper()
	for ks.DB().Metrics().Transactions.Open > 0 {
		time.Sleep(time.Millisecond)
	}
}

// The order of commits to one key is that of its events, to whichever store it is moved.
func TestEveryChangeOfAKeyIsToldInOrderWhileItIsMoved(t *testing.T) {
	ks, h := fresh(t, cleave.Range)
	w := watchAll(t, h, ks, Options{Every: true, Buffer: 3})
	const last = 400
	go func() {
		for i := range last + 1 {
			if err := ks.Set(ctx, []byte("k"), number(i)); err != nil {
				t.Error(err)
			}
			if i%200 == 50 {
				move(t, h.db, ks, []byte("k"))
			}
		}
	}()
	want := 0
	for e, err := range w.Events(patience(t)) {
		must(t, err)
		if string(e.Item.Value) != string(number(want)) {
			t.Fatalf("%s is told where %d was to come", e.Item.Value, want)
		}
		if want++; want > last {
			break
		}
	}
}

func TestWhoTakesItsTimeHoldsUpNobodyAndHearsOnceThatItMustReadAgain(t *testing.T) {
	ks, h := fresh(t, cleave.Range)
	slow, fast := watchAll(t, h, ks, Options{Buffer: 5}), watchAll(t, h, ks, Options{})
	patient := watchAll(t, h, ks, Options{Every: true, Buffer: 5})
	for i := range 100 {
		must(t, ks.Set(ctx, number(i), nil))
	}
	c := patience(t)
	for i := range 100 {
		for name, w := range map[string]*Watcher{"fast": fast, "every": patient} {
			if e, err := w.Next(c); err != nil || string(e.Key) != string(number(i)) {
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
	if e, err := slow.Next(done()); !errors.Is(err, context.Canceled) {
		t.Errorf("and then %v, %v", e, err)
	}
}

// done returns a context that has ended.
func done() context.Context {
	c, cancel := context.WithCancel(ctx)
	cancel()
	return c
}
