package store

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/storage/wal"
)

// applyFeed applies the feed to a model.
func (m model) applyFeed(s *Store, from wal.Position, did *testCounts) (wal.Position, error) {
	return s.Feed(from, func(c FeedEntry) error {
		for _, op := range c.Batch.All() {
			v := op.Value
			if op.Delete {
				v = nil
			} else if v == nil {
				v = []byte{}
			}
			m.apply(rowWrite{op.Key, v})
		}
		did.add("entries fed", 1)
		return nil
	})
}

func TestASnapshotAndTheFeedBehindItAreTheStore(t *testing.T) {
	var did testCounts
	rng := newRNG(t, testSeeds(t, 1)[0])
	s := mustOpen(t, tinyOptions(vfs.NewMem()))
	follower, truth := model{}, model{}
	var at wal.Position
	for range max(10, 40/slowdown) {
		for range rng.IntN(60) {
			ws := testWrites(rng, 100)
			mustCommit(t, s, ws...)
			truth.apply(ws...)
		}
		next, err := follower.applyFeed(s, at, &did)
		if errors.Is(err, ErrGone) {
			did.add("times gone", 1)
			snap, err := s.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			clear(follower)
			if err := snap.Scan(nil, nil, false, func(k, v []byte) bool {
				follower.apply(rowWrite{k, append([]byte{}, v...)})
				return true
			}); err != nil {
				t.Fatal(err)
			}
			next = snap.Position()
			mustClose(t, snap)
			if next, err = follower.applyFeed(s, next, &did); err != nil {
				t.Fatal(err)
			}
		} else if err != nil {
			t.Fatal(err)
		}
		at = next
		if len(follower) != len(truth) {
			t.Fatalf("%d rows, want %d", len(follower), len(truth))
		}
		if err := follower.compareRows(s, nil, nil, false); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, s)
	did.logAll(t)
}

func TestAFeedThatIsStoppedGoesOnWithTheSameCommit(t *testing.T) {
	s := mustOpen(t, tinyOptions(vfs.NewMem()))
	for _, k := range []string{"a", "b", "c"} {
		mustCommit(t, s, rowWrite{[]byte(k), []byte("v")})
	}
	stop := errors.New("stop")
	var seen []string
	visit := func(c FeedEntry) error {
		for _, op := range c.Batch.All() {
			seen = append(seen, string(op.Key))
			if string(op.Key) == "b" && len(seen) == 2 {
				return stop
			}
		}
		return nil
	}
	pos, err := s.Feed(0, visit)
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if _, err = s.Feed(pos, visit); err != nil {
		t.Fatal(err)
	}
	if got := len(seen); got != 4 || seen[1] != "b" || seen[2] != "b" {
		t.Errorf("%q, want b twice", seen)
	}
	mustClose(t, s)
}

// changedKeys are the keys of changes, in order.
func changedKeys(cs []Change) string {
	var all []string
	for _, c := range cs {
		all = append(all, string(c.Key))
	}
	return strings.Join(all, " ")
}

func startsWithA(key []byte) bool { return bytes.HasPrefix(key, []byte("a")) }

func TestChangesAreRememberedInTheOrderOfTheLast(t *testing.T) {
	s := mustOpen(t, tinyOptions(vfs.NewMem()))
	defer mustClose(t, s)
	set := func(keys ...string) wal.Position {
		t.Helper()
		var ws []rowWrite
		for _, k := range keys {
			ws = append(ws, rowWrite{[]byte(k), []byte("value")})
		}
		mustCommit(t, s, ws...)
		return s.Position()
	}
	set("a0")
	c := s.TrackChanges(startsWithA, 1<<20)
	since := s.Position()
	first := set("a1")
	set("b1", "a2", "a3")
	mustCommit(t, s, rowWrite{key: []byte("a4")}) // a delete
	last := set("a1")
	for _, x := range []struct {
		name  string
		after wal.Position
		limit int64
		want  string
		more  bool
	}{
		{"all", since, 1 << 20, "a2 a3 a4 a1", false},
		{"behind the first change of a1", first, 1 << 20, "a2 a3 a4 a1", false},
		{"a little, which is a whole commit", since, 0, "a2 a3", true},
		{"nothing behind the last", last, 1 << 20, "", false},
	} {
		got, more, ok := c.Next(x.after, x.limit)
		if !ok || changedKeys(got) != x.want || more != x.more {
			t.Errorf("%s: %s, more %v, %v; want %s, more %v", x.name, changedKeys(got), more, ok, x.want, x.more)
		}
	}
	if _, _, ok := c.Next(since-1, 1); ok {
		t.Error("it knows what changed before it was begun")
	}
	if got := c.Bytes(); got != 3*int64(len("a1value"))+int64(len("a4")) {
		t.Errorf("%d bytes", got)
	}
	c.Forget(first)
	if got, _, ok := c.Next(first, 1<<20); !ok || changedKeys(got) != "a2 a3 a4 a1" {
		t.Errorf("a1 has changed again, but there is %s", changedKeys(got))
	}
	if _, _, ok := c.Next(since, 1<<20); ok {
		t.Error("it knows what it has forgotten")
	}
	c.Forget(last)
	if c.Bytes() != 0 || c.memory != 0 || len(c.rows) != 0 || len(c.order) != 0 {
		t.Errorf("%d bytes and %d rows in %d bytes of memory are left of nothing", c.Bytes(), len(c.rows), c.memory)
	}
	c.Close()
	set("a9")
	if got, _, _ := c.Next(last, 1<<20); len(got) != 0 {
		t.Errorf("it has not ended: %s", changedKeys(got))
	}
}

func TestTooManyChangesAreNotRemembered(t *testing.T) {
	s := mustOpen(t, tinyOptions(vfs.NewMem()))
	defer mustClose(t, s)
	c := s.TrackChanges(startsWithA, 10*(changeOverhead+2))
	defer c.Close()
	since := s.Position()
	for i := range 50 { // the same few: they take no more
		mustCommit(t, s, rowWrite{fmt.Appendf(nil, "a%d", i%10), []byte("value")})
	}
	if _, ok := c.Since(); !ok {
		t.Fatal("ten rows are too many")
	}
	for i := range 50 {
		mustCommit(t, s, rowWrite{fmt.Appendf(nil, "a%d", i), []byte("value")})
	}
	if _, ok := c.Since(); ok || c.Bytes() != 0 {
		t.Error("fifty rows are remembered where there is room for ten")
	}
	if got, _, ok := c.Next(since, 1<<20); ok || got != nil {
		t.Errorf("it gave up, and knows %s", changedKeys(got))
	}
}

// No caller has to ask for it: what commits have recorded takes little memory.
func TestWhatWasHeardIsPutInOrderNowAndThen(t *testing.T) {
	s := mustOpen(t, tinyOptions(vfs.NewMem()))
	defer mustClose(t, s)
	const many = 3 * maxPendingKeyBytes / 2 / maxChangeKey
	c := s.TrackChanges(startsWithA, 1<<30)
	defer c.Close()
	since := s.Position()
	for i := range many {
		key := fmt.Appendf(nil, "a%d", i)
		mustCommit(t, s, rowWrite{append(key, make([]byte, maxChangeKey)...), nil})
		if n := len(c.pending.keys); n > maxPendingKeyBytes+2*maxChangeKey {
			t.Fatalf("%d bytes wait to be put in order", n)
		}
	}
	if next, _, ok := c.Next(since, 1<<30); !ok || len(next) != many {
		t.Errorf("%d of %d changes are known, %v", len(next), many, ok)
	}
}

// maxChangeKey is the length of keys that are long.
const maxChangeKey = 8 << 10

// A reader that has seen a place of the log finds all that has changed up to it, and sees the rows as
// they have been since.
func TestNoChangeIsMissedByWhoSawItsPlace(t *testing.T) {
	s := mustOpen(t, tinyOptions(vfs.NewMem()))
	defer mustClose(t, s)
	const keys, writers, writes = 20, 4, 300
	var running sync.WaitGroup
	c := s.TrackChanges(startsWithA, 1<<20)
	defer c.Close()
	for w := range writers {
		running.Go(func() {
			for i := range writes {
				if err := commitWrites(s, rowWrite{fmt.Appendf(nil, "a%d", (i*(w+3))%keys), fmt.Appendf(nil, "%d-%d", w, i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	after, _ := c.Since()
	copied := map[string]string{}
	look := func() {
		place := s.Position()
		next, _, ok := c.Next(after, 1<<20)
		if !ok {
			t.Error("it has forgotten what nobody told it to")
		}
		for _, n := range next {
			v, _, err := s.Get(n.Key, nil)
			if err != nil {
				t.Error(err)
			}
			copied[string(n.Key)] = string(v)
		}
		after = place
		c.Forget(place)
	}
	over := make(chan struct{})
	go func() {
		running.Wait()
		close(over)
	}()
	for ended := false; !ended; {
		select {
		case <-over:
			ended = true
		default:
		}
		look()
	}
	for k, v := range copied {
		if now, _ := mustGetRow(t, s, []byte(k)); string(now) != v {
			t.Errorf("%s is %s, and %s in the copy", k, now, v)
		}
	}
	if len(copied) != keys {
		t.Errorf("%d of %d rows were seen", len(copied), keys)
	}
}
