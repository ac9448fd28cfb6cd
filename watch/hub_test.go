package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

func TestBadTargetsAndOptionsAreRefused(t *testing.T) {
	ks, h := newKeyspaceAndHub(t, cleave.Hash)
	other := openMemory(t, cleave.Options{})
	b := func(s string) []byte { return []byte(s) }
	ix, err := ks.DB().CreateIndex(ctx, cleave.IndexOptions{Name: "a", Keyspace: ks, Columns: "a"})
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]Target{
		"entries":            {Keyspace: ix.Entries()},
		"no keyspace":        {},
		"of another store":   {Keyspace: other.Default()},
		"keys and a prefix":  {Keyspace: ks, Keys: [][]byte{b("a")}, Prefix: b("b")},
		"keys and a bound":   {Keyspace: ks, Keys: [][]byte{b("a")}, End: b("b")},
		"prefix and a bound": {Keyspace: ks, Prefix: b("a"), Start: b("b")},
		"an empty list":      {Keyspace: ks, Keys: [][]byte{}},
		"an empty range":     {Keyspace: ks, Start: b("b"), End: b("b")},
	} {
		_, err := h.Watch(target, Options{})
		checkRefused(t, name, err, cleave.ErrOptions)
		for _, err := range h.Follow(ctx, target, Options{}) {
			checkRefused(t, name+", followed", err, cleave.ErrOptions)
		}
	}
	for _, o := range []Options{{Buffer: -1}, {BufferBytes: 10}} {
		_, err := h.Watch(Target{Keyspace: ks}, o)
		checkRefused(t, fmt.Sprint(o), err, cleave.ErrOptions)
	}
	w := watchAll(t, h, ks, Options{From: "nonsense"})
	_, err = w.Next(hangContext(t))
	checkRefused(t, "a bad place", err, cleave.ErrOptions)
	w.Close()
	_, err = w.Next(ctx)
	checkRefused(t, "a closed watcher", err, ErrClosed)
	w.Close()
}

func TestTargetsHaveTheirKeys(t *testing.T) {
	ks, h := newKeyspaceAndHub(t, cleave.Hash)
	for _, c := range []struct {
		t        Target
		has, not []string
	}{
		{Target{}, []string{"", "a", "\xff\xff"}, nil},
		{Target{Keys: [][]byte{[]byte("b"), {}, []byte("a")}}, []string{"a", "b", ""}, []string{"aa", "c"}},
		{Target{Prefix: []byte("a\xff")}, []string{"a\xff", "a\xffz"}, []string{"a", "b", "a\xfe"}},
		{Target{Prefix: []byte("\xff\xff")}, []string{"\xff\xff", "\xff\xff\xff"}, []string{"\xff"}},
		{Target{Start: []byte("b")}, []string{"b", "z"}, []string{"a"}},
		{Target{End: []byte("b")}, []string{"", "a"}, []string{"b"}},
	} {
		c.t.Keyspace = ks
		plain, err := c.t.checkAndNormalize(h.db)
		must(t, err)
		for _, key := range c.has {
			if !plain.hasKey([]byte(key)) {
				t.Errorf("%+v has not %q", c.t, key)
			}
		}
		for _, key := range c.not {
			if plain.hasKey([]byte(key)) {
				t.Errorf("%+v has %q", c.t, key)
			}
		}
	}
}

func TestWatchersHearThatTheirKeyspaceIsDropped(t *testing.T) {
	ks, h := newKeyspaceAndHub(t, cleave.Range)
	checkGoroutines(t)
	w := watchAll(t, h, ks, Options{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for e, err := range h.Follow(hangContext(t), Target{Keyspace: ks}, Options{}) {
				if err == nil && e.Kind != Reset && e.Kind != Synced {
					t.Errorf("it hears %s of %s", e.Kind, e.Key)
				}
				if err != nil {
					checkRefused(t, "who follows", err, cleave.ErrNoKeyspace)
				}
			}
			_, _, err := h.Until(hangContext(t), ks, []byte("a"), func(_ cleave.Item, found bool) bool { return found })
			checkRefused(t, "who waits", err, cleave.ErrNoKeyspace)
		})
	}
	time.Sleep(5 * time.Millisecond) // most of the time they wait by now
	must(t, h.db.DropKeyspace(ctx, ks.Name()))
	again := createKeyspace(t, h.db, ks.Name(), cleave.Range)
	must(t, again.Set(ctx, []byte("new"), nil))
	wg.Wait()
	e, err := w.Next(hangContext(t))
	if checkRefused(t, "who watches", err, cleave.ErrNoKeyspace); err == nil {
		t.Errorf("it hears of %s", e.Key)
	}
	_, err = h.Watch(Target{Keyspace: ks}, Options{})
	checkRefused(t, "who comes late", err, cleave.ErrNoKeyspace)
}

func TestWatchersHearThatTheStoreIsClosed(t *testing.T) {
	db := openMemory(t, cleave.Options{})
	ks, h := db.Default(), New(db)
	w := watchAll(t, h, ks, Options{})
	must(t, ks.Set(ctx, []byte("a"), nil))
	if e, err := w.Next(hangContext(t)); err != nil || string(e.Key) != "a" {
		t.Fatal(e, err)
	}
	must(t, db.Close())
	_, err := w.Next(hangContext(t))
	checkRefused(t, "who waits", err, cleave.ErrClosed)
	late := watchAll(t, h, ks, Options{})
	_, err = late.Next(hangContext(t))
	checkRefused(t, "who comes late", err, cleave.ErrClosed)
}

func TestAKeyThatExpiresIsToldAsDeleted(t *testing.T) {
	ks, h := newKeyspaceAndHub(t, cleave.Hash)
	w := watchAll(t, h, ks, Options{})
	_, err := ks.SetWith(ctx, []byte("a"), []byte("v"), cleave.SetOptions{TTL: 20 * time.Millisecond})
	must(t, err)
	var told []Kind
	for e, err := range w.Events(hangContext(t)) {
		must(t, err)
		told = append(told, e.Kind)
		if e.Kind == Deleted {
			break
		}
		if e.Item.Expires.IsZero() {
			t.Error("it does not say that it will expire")
		}
	}
	if fmt.Sprint(told) != "[set deleted]" {
		t.Errorf("told %v", told)
	}
}

func TestKeysOnlyTellsAHashAsAKey(t *testing.T) {
	ks, h := newKeyspaceAndHub(t, cleave.Range)
	w := watchAll(t, h, ks, Options{KeysOnly: true, Every: true})
	_, err := ks.HSet(ctx, []byte("h"), cleave.Field{Name: []byte("f"), Value: []byte("v")})
	must(t, err)
	must(t, ks.Set(ctx, []byte("s"), []byte("v")))
	for _, key := range []string{"h", "s"} {
		e, err := w.Next(hangContext(t))
		if err != nil || string(e.Key) != key || e.Kind != Set || e.Field != nil || e.Item.Value != nil || e.Item.Version == 0 {
			t.Errorf("told %+v, %v, want %s", e, err, key)
		}
	}
	n := 0
	for e, err := range h.Follow(hangContext(t), Target{Keyspace: ks}, Options{KeysOnly: true}) {
		must(t, err)
		if e.Kind == Synced {
			break
		}
		if n++; e.Field != nil || e.Item.Value != nil {
			t.Errorf("told %+v", e)
		}
	}
	if n != 3 {
		t.Errorf("%d events for two rows", n)
	}
}

// A key that becomes what is wanted at any moment, also between the look at it and the
// wait, is not missed.
func TestUntilMissesNothing(t *testing.T) {
	ks, h := newKeyspaceAndHub(t, cleave.Hash)
	checkGoroutines(t)
	rng := rand.New(rand.NewPCG(testSeed(t), 1))
	for i := range scaleRounds(300) {
		key := numberKey(i)
		pause := time.Duration(rng.IntN(100)) * time.Microsecond
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(pause)
			if err := ks.Set(ctx, key, []byte("done")); err != nil {
				t.Error(err)
			}
		})
		asked := 0
		item, found, err := h.Until(hangContext(t), ks, key, func(item cleave.Item, found bool) bool {
			if asked++; asked == 1 && i%3 == 0 {
				wg.Wait() // it changes right after it was looked at
			}
			return found && string(item.Value) == "done"
		})
		if err != nil || !found || string(item.Value) != "done" {
			t.Fatalf("key %d: %v %v %v", i, item, found, err)
		}
		wg.Wait()
	}
	go func() { _, _ = ks.Delete(ctx, numberKey(0)) }()
	_, found, err := h.Until(hangContext(t), ks, numberKey(0), func(_ cleave.Item, found bool) bool { return !found })
	if must(t, err); found {
		t.Error("it is gone")
	}
	_, err = ks.HSet(ctx, []byte("h"), cleave.Field{Name: []byte("f")})
	must(t, err)
	_, found, err = h.Until(hangContext(t), ks, []byte("h"), func(item cleave.Item, found bool) bool { return found && item.Value == nil })
	if must(t, err); !found {
		t.Error("it is a hash")
	}
	c, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	_, _, err = h.Until(c, ks, []byte("never"), func(_ cleave.Item, found bool) bool { return found })
	checkRefused(t, "nothing happens", err, context.DeadlineExceeded)
}

// The place of another store, say of the one that this was restored from, is gone: a
// watcher gets an error, a follower begins anew.
func TestWhoFollowsBeginsAnewIfThePlaceIsGone(t *testing.T) {
	ks, h := newKeyspaceAndHub(t, cleave.Hash)
	must(t, ks.Set(ctx, []byte("a"), []byte("v")))
	gone := "00000000" + h.db.Head()[8:]
	_, err := watchAll(t, h, ks, Options{From: gone}).Next(hangContext(t))
	checkRefused(t, "who watches", err, cleave.ErrGone)
	var told []string
	for e, err := range h.Follow(hangContext(t), Target{Keyspace: ks}, Options{From: gone}) {
		must(t, err)
		told = append(told, fmt.Sprintf("%s %s", e.Kind, e.Key))
		if e.Kind == Synced {
			break
		}
	}
	if fmt.Sprint(told) != "[reset  set a synced ]" {
		t.Errorf("who follows hears %q", told)
	}
}

// delayedFeed is a feed whose reader is held up until it is released.
type delayedFeed struct {
	feedSource
	release chan struct{}
}

func (l *delayedFeed) Feed(ctx context.Context, o cleave.FeedOptions) iter.Seq2[cleave.Change, error] {
	if !o.Progress { // of another than the hub
		return l.feedSource.Feed(ctx, o)
	}
	return func(yield func(cleave.Change, error) bool) {
		select {
		case <-l.release:
		case <-ctx.Done():
		}
		l.feedSource.Feed(ctx, o)(yield)
	}
}

// A watcher that begins at a place that the hub has not come to yet does not get what was before.
func TestAPlaceAheadOfTheHubIsNotToldAgain(t *testing.T) {
	ks, h := newKeyspaceAndHub(t, cleave.Range)
	feed := &delayedFeed{h.feed, make(chan struct{})}
	h.feed = feed
	first := watchAll(t, h, ks, Options{})
	must(t, ks.Set(ctx, []byte("a"), nil))
	now, from := watchAll(t, h, ks, Options{}), watchAll(t, h, ks, Options{From: h.db.Head()})
	must(t, ks.Set(ctx, []byte("b"), nil))
	close(feed.release)
	for w, want := range map[*Watcher]string{first: "a", now: "b", from: "b"} {
		if e, err := w.Next(hangContext(t)); err != nil || string(e.Key) != want {
			t.Errorf("told %s, %v, want %s first", e.Key, err, want)
		}
	}
}

// A watcher that gets a change before the hub reports that it has come past it, and falls behind
// then, goes on from the log with what it has not received yet.
func TestWhoFallsBehindIsToldNothingTwice(t *testing.T) {
	for _, o := range []Options{{Every: true, Buffer: 2}, {Buffer: 2, readsOverflow: true}} {
		ks, h := newKeyspaceAndHub(t, cleave.Range)
		h.feed = &delayedFeed{h.feed, nil} // the test tells
		w := watchAll(t, h, ks, o)
		begun := h.db.Head()
		keys := []string{"a", "b", "b", "c", "d", "e"}
		for _, key := range keys {
			must(t, ks.Set(ctx, []byte(key), nil))
		}
		must(t, h.db.Update(ctx, func(tx *cleave.Txn) error {
			return errors.Join(tx.Set(ks, []byte("f"), nil), tx.Set(ks, []byte("g"), nil))
		}))
		waitResolved(t, ks)
		var versions []uint64
		hear := func() {
			t.Helper()
			e, err := w.Next(hangContext(t))
			must(t, err)
			versions = append(versions, e.Item.Version)
		}
		first := true
		for c, err := range h.db.Feed(ctx, cleave.FeedOptions{From: begun, Until: h.db.Head()}) {
			must(t, err)
			if first && len(c.Ops) > 0 {
				w.offerChange(&c, &c.Ops[0], *h.deliveredTo.Load())
				hear()
				h.deliveredTo.Store(&c.After)
				first = false
				continue
			}
			h.deliverChange(h.readerEpoch, &c)
		}
		for !w.Cursor().Covers(*h.deliveredTo.Load()) {
			hear()
		}
		if len(versions) < len(keys) {
			t.Errorf("%+v: it hears %d times", o, len(versions))
		}
		if !slices.IsSorted(versions) || len(slices.Compact(slices.Clone(versions))) != len(versions) {
			t.Errorf("%+v: it hears of the versions %d", o, versions)
		}
	}
}

// Of the place of a watcher and that of the hub each has a store in which it is ahead. What
// the watcher has read by itself it does not get again, when the hub misses something then.
func TestWhoKnowsMoreThanTheHubAndLessIsToldNothingTwice(t *testing.T) {
	for _, o := range []Options{{}, {Every: true}} {
		checkKnowsMoreAndLess(t, o)
	}
}

func checkKnowsMoreAndLess(t *testing.T, o Options) {
	ks, h := newKeyspaceAndHub(t, cleave.Hash)
	h.feed = &delayedFeed{h.feed, nil} // the test tells
	begun := h.db.Head()
	// places are behind the change of a key in each of the two stores.
	var places [2]cleave.Cursor
	var keys [2]string
	for i := 0; places[0] == "" || places[1] == ""; i++ {
		before := strings.Split(string(h.db.Head()), "-")
		must(t, ks.Set(ctx, numberKey(i), nil))
		after := strings.Split(string(h.db.Head()), "-")
		one := strings.Split(string(begun), "-")
		for s := range places {
			if places[s] == "" && before[s+1] != after[s+1] && before[2-s] == after[2-s] {
				one[s+1] = after[s+1]
				places[s], keys[s] = cleave.Cursor(strings.Join(one, "-")), string(numberKey(i))
			}
		}
	}
	first := watchAll(t, h, ks, Options{From: begun}) // the hub begins
	defer first.Close()
	h.deliveredTo.Store(&places[0])
	o.From = places[1]
	w := watchAll(t, h, ks, o)
	hear := func(want string) {
		t.Helper()
		if e, err := w.Next(hangContext(t)); err != nil || string(e.Key) != want {
			t.Fatalf("told of %q, %v, want %q", e.Key, err, want)
		}
	}
	hear(keys[0])
	w.markLost(places[0])
	both := places[0].Join(places[1])
	h.deliveredTo.Store(&both)
	must(t, ks.Set(ctx, []byte("later"), nil))
	for c, err := range h.db.Feed(ctx, cleave.FeedOptions{From: both, Until: h.db.Head()}) {
		must(t, err)
		h.deliverChange(h.readerEpoch, &c)
	}
	for e, err := range w.Events(hangContext(t)) {
		must(t, err)
		if string(e.Key) == keys[0] || string(e.Key) == keys[1] {
			t.Fatalf("told again of %s", e.Key)
		}
		if string(e.Key) == "later" {
			break
		}
	}
}

// Between two pages of rows the keys of the first go on to be what they are at the
// moment of the second.
func TestRowsOfOnePageChangeWhileTheNextIsRead(t *testing.T) {
	for _, kind := range []cleave.Kind{cleave.Hash, cleave.Range} {
		ks, h := newKeyspaceAndHub(t, kind)
		const keys = 3*maxPageRows - 5
		var all [][]byte
		for i := range keys {
			all = append(all, numberKey(i))
			must(t, ks.Set(ctx, numberKey(i), []byte("old")))
		}
		for _, target := range []Target{{Keyspace: ks}, {Keyspace: ks, Keys: all}} {
			m, rows := newMirror(), 0
			for e, err := range h.Follow(hangContext(t), target, Options{}) {
				must(t, err)
				must(t, m.apply(e))
				switch e.Kind {
				case Set:
					rows++
				case Synced:
					now, at := readAll(t, ks)
					if d := m.diffFrom(now); d != "" {
						t.Errorf("when it is synced it has %s", d)
					}
					if !at.Covers(e.After) {
						t.Errorf("it is synced up to %s, the end is %s", e.After, at)
					}
				}
				if e.Kind == Synced {
					break
				}
				if rows%100 == 50 && rows < 2*maxPageRows-60 { // not while the last page is sent
					key := numberKey((rows * 7) % keys)
					must(t, ks.Set(ctx, key, fmt.Append(nil, rows)))
					_, err := ks.Delete(ctx, numberKey((rows*11)%keys))
					must(t, err)
				}
			}
			if rows < keys-50 {
				t.Errorf("%d rows are told", rows)
			}
		}
	}
}

// lossyFeed is a feed that loses what was not read.
type lossyFeed struct {
	feedSource
	fail chan error
}

func (f *lossyFeed) Feed(ctx context.Context, o cleave.FeedOptions) iter.Seq2[cleave.Change, error] {
	if !o.Progress { // of another than the hub
		return f.feedSource.Feed(ctx, o)
	}
	return func(yield func(cleave.Change, error) bool) {
		c, cancel := context.WithCancel(ctx)
		defer cancel()
		var err error
		go func() {
			select {
			case err = <-f.fail:
				cancel()
			case <-c.Done():
			}
		}()
		for change, e := range f.feedSource.Feed(c, o) {
			if e != nil && err != nil && ctx.Err() == nil {
				yield(cleave.Change{}, err)
				return
			}
			if !yield(change, e) {
				return
			}
		}
	}
}

func TestAHubThatHasMissedSomethingSaysSoAndGoesOn(t *testing.T) {
	ks, h := newKeyspaceAndHub(t, cleave.Range)
	checkGoroutines(t)
	feed := &lossyFeed{feedSource: h.feed, fail: make(chan error)}
	h.feed = feed
	w, every := watchAll(t, h, ks, Options{}), watchAll(t, h, ks, Options{Every: true})
	must(t, ks.Set(ctx, []byte("a"), nil))
	if e, err := w.Next(hangContext(t)); err != nil || string(e.Key) != "a" {
		t.Fatal(e, err)
	}
	feed.fail <- cleave.ErrGone
	if e, err := w.Next(hangContext(t)); err != nil || e.Kind != Lost {
		t.Fatalf("told %s %s, %v, want that something is lost", e.Kind, e.Key, err)
	}
	must(t, ks.Set(ctx, []byte("b"), nil))
	if e, err := w.Next(hangContext(t)); err != nil || string(e.Key) != "b" {
		t.Fatalf("told %s %s, %v", e.Kind, e.Key, err)
	}
	for _, key := range []string{"a", "b"} { // the log has it
		if e, err := every.Next(hangContext(t)); err != nil || string(e.Key) != key {
			t.Fatalf("told %s %s, %v, want %s", e.Kind, e.Key, err, key)
		}
	}
	broken := errors.New("broken")
	feed.fail <- broken
	_, err := w.Next(hangContext(t))
	checkRefused(t, "a broken feed", err, broken)
}

// What is offered to others by a later reader would let those of before go on behind what
// was written while there was no reader.
func TestWhoseReaderHasFailedIsOfferedNothingMore(t *testing.T) {
	for name, o := range map[string]Options{"every": {Every: true}, "last": {}} {
		t.Run(name, func(t *testing.T) {
			ks, h := newKeyspaceAndHub(t, cleave.Range)
			feed := &lossyFeed{feedSource: h.feed, fail: make(chan error)}
			h.feed = feed
			w := watchAll(t, h, ks, o)
			broken := errors.New("broken")
			feed.fail <- broken
			<-w.wakeup // the hub has noticed
			must(t, ks.Set(ctx, []byte("gap"), nil))
			other := watchAll(t, h, ks, o)
			must(t, ks.Set(ctx, []byte("later"), nil))
			if e, err := other.Next(hangContext(t)); err != nil || string(e.Key) != "later" {
				t.Fatal(e, err)
			}
			if e, err := w.Next(hangContext(t)); !errors.Is(err, broken) {
				t.Fatalf("told %s %s, %v", e.Kind, e.Key, err)
			}
			o.From = w.Cursor()
			again := watchAll(t, h, ks, o)
			for _, key := range []string{"gap", "later"} {
				if e, err := again.Next(hangContext(t)); err != nil || string(e.Key) != key {
					t.Fatalf("told %s %s, %v, want %s", e.Kind, e.Key, err, key)
				}
			}
		})
	}
}

// overrunFeed is a store whose log is gone when its reader stops.
type overrunFeed struct {
	feedSource
	reads atomic.Int64
}

func (s *overrunFeed) Feed(ctx context.Context, o cleave.FeedOptions) iter.Seq2[cleave.Change, error] {
	if !o.Progress { // of another than the hub
		return s.feedSource.Feed(ctx, o)
	}
	return func(yield func(cleave.Change, error) bool) {
		<-ctx.Done()
		s.reads.Add(1)
		yield(cleave.Change{}, cleave.ErrGone)
	}
}

func TestAHubThatHasMissedSomethingReadsNoMoreWhenNobodyWatches(t *testing.T) {
	ks, h := newKeyspaceAndHub(t, cleave.Range)
	feed := &overrunFeed{feedSource: h.feed}
	h.feed = feed
	w := watchAll(t, h, ks, Options{})
	must(t, ks.Set(ctx, []byte("a"), nil))
	w.Close()
	eventually.Holds(t, "the feed is read", func() bool { return feed.reads.Load() > 0 })
	time.Sleep(20 * time.Millisecond)
	if n := feed.reads.Load(); n > 1 {
		t.Errorf("nobody watches, and it was read %d times", n)
	}
}

// The tree finds what a look at each range finds.
func TestAKeyFindsAllRangesThatItIsIn(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tree := newIntervalTree()
		var all []*Watcher
		bound := rapid.SliceOfN(rapid.ByteRange('a', 'd'), 0, 2)
		for n := range rapid.IntRange(1, 60).Draw(rt, "steps") {
			if len(all) > 0 && rapid.IntRange(0, 2).Draw(rt, "step") == 0 {
				i := rapid.IntRange(0, len(all)-1).Draw(rt, "which")
				tree.remove(all[i])
				all = slices.Delete(all, i, i+1)
			} else {
				w := &Watcher{number: uint64(n), target: Target{Start: bound.Draw(rt, "start"), End: bound.Draw(rt, "end")}}
				if len(w.target.End) == 0 {
					w.target.End = nil
				}
				tree.add(w)
				all = append(all, w)
			}
			key := bound.Draw(rt, "key")
			var want, got []uint64
			for _, w := range all {
				if bytes.Compare(w.target.Start, key) <= 0 && (w.target.End == nil || bytes.Compare(key, w.target.End) < 0) {
					want = append(want, w.number)
				}
			}
			tree.visitContaining(key, func(w *Watcher) { got = append(got, w.number) })
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				rt.Fatalf("%s is in %v, found %v", key, want, got)
			}
		}
		n := 0
		tree.visitAll(func(*Watcher) { n++ })
		if n != len(all) {
			rt.Fatalf("%d ranges, want %d", n, len(all))
		}
	})
}
