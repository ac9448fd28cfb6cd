package queue

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
)

// A producer may not know whether what it has published long ago was of use: what its id was
// used for is known, or it is told that nobody knows.
func TestARetryIsKnownOrRefused(t *testing.T) {
	clock := newClock()
	db, ks := memory(t, cleave.Options{Groups: 2, Stores: 2, Now: clock.Now})
	q := open(t, db, ks, "q", Options{Shards: 2, Now: clock.Now})
	l := openLog(t, db, ks, "log", Options{Shards: 2, Now: clock.Now})
	m := Message{Body: []byte("pay 100"), ID: db.NewRequestID()}
	must(t, q.Publish(ctx, m))
	must(t, l.Append(ctx, m))
	clock.pass(10 * time.Minute)
	must(t, q.Publish(ctx, m))
	must(t, l.Append(ctx, m))
	clock.pass(time.Millisecond)
	young := Message{Body: []byte("young"), ID: db.NewRequestID()}
	for range 2 { // also when the row is gone
		wantError(t, "an old id", q.Publish(ctx, young, m), cleave.ErrRequestOld)
		wantError(t, "an old id, appended", l.Append(ctx, young, m), cleave.ErrRequestOld)
		clock.pass(time.Hour)
	}
	ahead := clock.Now().Add(10 * time.Minute)
	must(t, q.Publish(ctx, Message{ID: idOf(ahead)}))
	wantError(t, "an id of the future", q.Publish(ctx, Message{ID: idOf(ahead.Add(time.Millisecond))}), cleave.ErrRequestOld)
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

// An old id fails nobody who publishes to the same shard at the same time.
func TestAnOldIDFailsNobodyElse(t *testing.T) {
	clock := newClock()
	db, ks := memory(t, cleave.Options{Now: clock.Now})
	q := open(t, db, ks, "q", Options{Shards: 1, Now: clock.Now})
	old := Message{ID: db.NewRequestID()}
	clock.pass(time.Hour)
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
				retryThatWaits(t, ahead, resized)
			})
		}
	}
}

func retryThatWaits(t *testing.T, ahead time.Duration, resized bool) {
	clock := newClock()
	db, ks := memory(t, cleave.Options{Now: clock.Now})
	q := open(t, db, ks, "q", Options{Shards: 1, Now: clock.Now})
	m := Message{ID: idOf(clock.Now().Add(ahead))}
	must(t, q.Publish(ctx, m))
	got, err := q.Receive(ctx, 1)
	must(t, err)
	must(t, q.Ack(ctx, got...))
	b := q.c.manifest.Load().Buckets()[0]
	if resized {
		must(t, q.Resize(ctx, 2))
		b = q.c.manifest.Load().For(pointOf(&m, 0))
	}
	clock.pass(ahead + q.c.opts.Remember)
	busy := &lane{busy: true} // somebody is at work
	q.c.mu.Lock()
	q.c.posts[b] = busy
	q.c.mu.Unlock()
	done := make(chan error)
	go func() { done <- q.Publish(ctx, m) }()
	for waits := false; !waits; time.Sleep(time.Millisecond) {
		busy.mu.Lock()
		waits = len(busy.waiting) > 0
		busy.mu.Unlock()
	}
	clock.pass(q.c.opts.Remember - time.Minute)
	if got, err = q.TryReceive(ctx, 1); err != nil || len(got) > 0 { // what is empty is drained
		t.Fatal(len(got), err)
	}
	if _, err := q.c.reload(ctx); err != nil {
		t.Fatal(err)
	}
	busy.waiting[0].turn <- nil
	must(t, <-done)
	if got, err = q.TryReceive(ctx, 1); err != nil || len(got) > 0 {
		t.Fatalf("%d come again, %v", len(got), err)
	}
}

// idOf is an id that was made at a time.
func idOf(at time.Time) (id cleave.RequestID) {
	for i := range 6 {
		id[i] = byte(at.UnixMilli() >> (8 * (5 - i)))
	}
	return id
}
