package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/patterns/delivery"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// A producer may not know whether what it has published long ago was of use: what its id was
// used for is known, or it gets an error that this is unknown.
func TestARetryIsKnownOrRefused(t *testing.T) {
	clock := newClock()
	db, ks := openMemory(t, cleave.Options{Groups: 2, Stores: 2, Now: clock.Now})
	q := openQueue(t, db, ks, "q", Options{Shards: 2, Now: clock.Now})
	l := openLog(t, db, ks, "log", Options{Shards: 2, Now: clock.Now})
	m := Message{Body: []byte("pay 100"), ID: db.NewRequestID()}
	must(t, q.Publish(ctx, m))
	must(t, l.Append(ctx, m))
	clock.advance(10 * time.Minute)
	must(t, q.Publish(ctx, m))
	must(t, l.Append(ctx, m))
	clock.advance(time.Millisecond)
	young := Message{Body: []byte("young"), ID: db.NewRequestID()}
	for range 2 { // also when the row is gone
		wantError(t, "an old id", q.Publish(ctx, young, m), cleave.ErrRequestOld)
		wantError(t, "an old id, appended", l.Append(ctx, young, m), cleave.ErrRequestOld)
		clock.advance(time.Hour)
	}
	ahead := clock.Now().Add(10 * time.Minute)
	must(t, q.Publish(ctx, Message{ID: requestIDAt(ahead)}))
	wantError(t, "an id of the future", q.Publish(ctx, Message{ID: requestIDAt(ahead.Add(time.Millisecond))}), cleave.ErrRequestOld)
	stats, err := q.Stats(ctx)
	if must(t, err); stats.Depth != 2 {
		t.Errorf("%d are there, want the first and the one that is a little ahead", stats.Depth)
	}
	r, err := l.Reader(ctx, "r")
	must(t, err)
	if got, err := r.Read(ctx, 10); err != nil || len(got) != 1 {
		t.Errorf("%d entries, %v", len(got), err)
	}
}

// An old id fails no other caller that publishes to the same shard at the same time.
func TestAnOldIDFailsNobodyElse(t *testing.T) {
	clock := newClock()
	db, ks := openMemory(t, cleave.Options{Now: clock.Now})
	q := openQueue(t, db, ks, "q", Options{Shards: 1, Now: clock.Now})
	old := Message{ID: db.NewRequestID()}
	clock.advance(time.Hour)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if err := q.Publish(ctx, old); !errors.Is(err, cleave.ErrRequestOld) {
				t.Error(err)
			}
		})
		all.Go(func() {
			if err := q.Publish(ctx, Message{Body: fmt.Append(nil, i), ID: db.NewRequestID()}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if stats, err := q.Stats(ctx); err != nil || stats.Depth != 20 {
		t.Errorf("%d are there, %v", stats.Depth, err)
	}
}

// A retry with an id that was just young enough waits for its turn, and the first of it is
// known when that comes: also if the id was ahead of the clock, and if the shard where it is
// was closed, emptied and may be forgotten.
func TestARetryThatWaitsForItsTurnIsKnown(t *testing.T) {
	for _, ahead := range []time.Duration{-9 * time.Minute, 0, 10 * time.Minute} {
		for _, resized := range []bool{false, true} {
			t.Run(fmt.Sprintf("ahead=%v/resized=%v", ahead, resized), func(t *testing.T) {
				checkWaitingRetry(t, ahead, resized)
			})
		}
	}
}

func checkWaitingRetry(t *testing.T, ahead time.Duration, resized bool) {
	clock := newClock()
	db, ks := openMemory(t, cleave.Options{Now: clock.Now})
	q := openQueue(t, db, ks, "q", Options{Shards: 1, Now: clock.Now})
	m := Message{ID: requestIDAt(clock.Now().Add(ahead))}
	must(t, q.Publish(ctx, m))
	got, err := q.Receive(ctx, 1)
	must(t, err)
	must(t, q.Ack(ctx, got...))
	b := q.c.manifest.Load().OpenBuckets()[0]
	if resized {
		must(t, q.Resize(ctx, 2))
		b = q.c.manifest.Load().BucketFor(messagePoint(&m, 0))
	}
	clock.advance(ahead + q.c.opts.Remember)
	busy := &publishQueue{committing: true} // a commit is under way
	q.c.mu.Lock()
	q.c.publishQueues[b] = busy
	q.c.mu.Unlock()
	done := make(chan error)
	go func() { done <- q.Publish(ctx, m) }()
	eventually.Holds(t, "the publication waits", func() bool {
		busy.mu.Lock()
		defer busy.mu.Unlock()
		return len(busy.pending) > 0
	})
	clock.advance(q.c.opts.Remember - time.Minute)
	if got, err = q.TryReceive(ctx, 1); err != nil || len(got) > 0 { // what is empty is drained
		t.Fatal(len(got), err)
	}
	if _, err := q.c.reloadManifest(ctx); err != nil {
		t.Fatal(err)
	}
	busy.pending[0].resultCh <- nil
	must(t, <-done)
	if got, err = q.TryReceive(ctx, 1); err != nil || len(got) > 0 {
		t.Fatalf("%d come again, %v", len(got), err)
	}
}

// requestIDAt is an id that was made at a time.
func requestIDAt(at time.Time) (id cleave.RequestID) {
	for i := range 6 {
		id[i] = byte(at.UnixMilli() >> (8 * (5 - i)))
	}
	return id
}

// Callers that revive the same message at once revive it once, and do not disturb those that
// publish to the same shard.
func TestARevivalThatComesTooLateFailsNobodyElse(t *testing.T) {
	db, ks := openMemory(t, cleave.Options{})
	q := openQueue(t, db, ks, "q", Options{Shards: 1, MaxDeliveries: 1})
	for round := range 20 {
		must(t, q.Publish(ctx, Message{Body: []byte("dead")}))
		got, err := q.Receive(ctx, 1)
		must(t, err)
		must(t, q.Nack(ctx, 0, got...))
		if got, err = q.TryReceive(ctx, 1); err != nil || len(got) > 0 {
			t.Fatalf("%v, %v", deliveryBodies(got), err)
		}
		dead, err := q.Dead(ctx, 10)
		if must(t, err); len(dead) != 1 {
			t.Fatalf("%d are dead", len(dead))
		}
		errs := make(chan error, 16)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() { errs <- q.Revive(ctx, dead...) })
			all.Go(func() { errs <- q.Publish(ctx, Message{Body: fmt.Append(nil, i)}) })
		}
		all.Wait()
		close(errs)
		for err := range errs {
			must(t, err)
		}
		got, err = q.Receive(ctx, 100)
		must(t, err)
		times := map[string]int{}
		for _, d := range got {
			times[string(d.Body)]++
		}
		if times["dead"] != 1 || len(got) != 9 {
			t.Fatalf("round %d: revived and published %v", round, deliveryBodies(got))
		}
		must(t, q.Ack(ctx, got...))
	}
}

// A caller that has left may use its memory again: what is published yet is what it was.
func TestWhatIsPublishedIsWhatWasHandedIn(t *testing.T) {
	db, ks := openMemory(t, cleave.Options{})
	q := openQueue(t, db, ks, "q", Options{Shards: 1})
	busy := &publishQueue{committing: true} // a commit is under way
	q.c.publishQueues[delivery.Bucket{Epoch: 1, Of: 1}] = busy
	leaving, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	m := Message{Key: []byte("key"), Body: []byte("body")}
	wantError(t, "a post whose caller leaves", q.Publish(leaving, m), cleave.ErrUnknown)
	copy(m.Body, "evil")
	copy(m.Key, "bad")
	busy.pending[0].resultCh <- nil
	got, err := q.Receive(ctx, 1)
	if must(t, err); string(got[0].Body) != "body" || string(got[0].Key) != "key" {
		t.Errorf("it is %q of %q", got[0].Body, got[0].Key)
	}
}

// A manifest that was read late does not take the place of a newer one: the epochs that it
// lacks would not be asked for the ids of messages.
func TestAManifestThatWasReadLateIsNotBelieved(t *testing.T) {
	db, ks := openMemory(t, cleave.Options{})
	q := openQueue(t, db, ks, "q", Options{Shards: 1})
	old := q.c.manifest.Load()
	must(t, q.Resize(ctx, 2))
	q.c.keepNewerManifest(old)
	if n := q.c.manifest.Load().OpenEpoch().Number; n != 2 {
		t.Errorf("the epoch is %d", n)
	}
}

// Each id is looked for in all epochs that are remembered, so fewer messages are committed
// at once where there are many: none is refused, and ids are known over all of them.
func TestMessagesWithIDsArePublishedAfterManyResizes(t *testing.T) {
	db, ks := openMemory(t, cleave.Options{})
	q := openQueue(t, db, ks, "q", Options{Shards: 1})
	for i := range 10 {
		must(t, q.Resize(ctx, 1+(i+1)%2))
	}
	list := make([]Message, maxCommitMessages)
	for i := range list {
		list[i] = Message{ID: db.NewRequestID(), Delay: time.Hour}
	}
	must(t, q.Publish(ctx, list...))
	must(t, q.Resize(ctx, 2))
	must(t, q.Publish(ctx, list...)) // as after ErrUnknown
	stats, err := q.Stats(ctx)
	if must(t, err); stats.Depth != maxCommitMessages {
		t.Errorf("of %d there are %d", maxCommitMessages, stats.Depth)
	}
}

// A message without an id needs fewer rows, and may find room where the one before it found none.
func TestMessagesOfOneCallKeepTheirOrderThoughNotAllHaveIDs(t *testing.T) {
	db, ks := openMemory(t, cleave.Options{})
	l := openLog(t, db, ks, "log", Options{Shards: 1})
	for i := range 4 {
		must(t, l.Resize(ctx, 1+(i+1)%2))
	}
	var list []Message
	for rows := 0; rows <= maxCommitRows; {
		x := Message{Key: []byte("k"), ID: db.NewRequestID(), Body: fmt.Append(nil, len(list))}
		list = append(list, x)
		rows += countRows(l.c.manifest.Load(), &x)
	}
	list = append(list, Message{Key: []byte("k"), Body: fmt.Append(nil, len(list))})
	must(t, l.Append(ctx, list...))
	r, err := l.Reader(ctx, "r")
	must(t, err)
	got, err := r.Read(ctx, len(list))
	if must(t, err); len(got) != len(list) {
		t.Fatalf("of %d there are %d", len(list), len(got))
	}
	for i, e := range got {
		if string(e.Body) != fmt.Sprint(i) {
			t.Fatalf("the one in place %d is %s", i, e.Body)
		}
	}
}

// A reader gets the count of all that was trimmed before it read it: also of shards that are gone
// with all they had, and of those that came and went while it was away.
func TestAReaderIsToldOfEntriesThatWentWithTheirShard(t *testing.T) {
	for _, c := range []struct {
		name string
		away func(l *Log, add func(n int))
		lost string
	}{
		{"read to the end", func(l *Log, add func(int)) { must(t, l.Resize(ctx, 2)) }, ""},
		{"not read to the end", func(l *Log, add func(int)) { add(3); must(t, l.Resize(ctx, 2)) }, "3"},
		{"of a new shard", func(l *Log, add func(int)) { must(t, l.Resize(ctx, 2)); add(4) }, "4"},
		{"came and went", func(l *Log, add func(int)) {
			add(1)
			must(t, l.Resize(ctx, 2))
			add(2)
			must(t, l.Resize(ctx, 3))
			add(4)
		}, "7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := newClock()
			db, ks := openMemory(t, cleave.Options{Now: clock.Now})
			l := openLog(t, db, ks, "log", Options{Shards: 1, Now: clock.Now})
			add := func(n int) {
				for i := range n {
					must(t, l.Append(ctx, Message{Key: fmt.Append(nil, i)}))
				}
			}
			add(5)
			r, err := l.Reader(ctx, "r")
			must(t, err)
			list, err := r.Read(ctx, 100)
			if must(t, err); len(list) != 5 {
				t.Fatalf("%d entries", len(list))
			}
			must(t, r.Commit(ctx))
			c.away(l, add)
			for range 2 {
				clock.advance(time.Hour)
				_, err = l.Trim(ctx, Retention{Age: time.Minute})
				must(t, err)
			}
			add(1)
			r, err = l.Reader(ctx, "r")
			must(t, err)
			if c.lost != "" {
				list, err := r.Read(ctx, 100)
				if want := fmt.Sprintf("%v: %s", ErrTrimmed, c.lost); !errors.Is(err, ErrTrimmed) || err.Error() != want {
					t.Fatalf("%d entries, %v; want %s", len(list), err, want)
				}
			}
			if list, err := r.Read(ctx, 100); err != nil || len(list) != 1 {
				t.Fatalf("then %d entries, %v", len(list), err)
			}
			fresh, err := l.Reader(ctx, "another")
			must(t, err)
			if list, err := fresh.Read(ctx, 100); err != nil || len(list) != 1 {
				t.Fatalf("one that begins: %d entries, %v", len(list), err)
			}
		})
	}
}
