package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/lanes"
)

// Those who revive the same message at once revive it once, and are in nobody's way who
// publishes to the same shard.
func TestARevivalThatComesTooLateFailsNobodyElse(t *testing.T) {
	db, ks := memory(t, cleave.Options{})
	q := open(t, db, ks, "q", Options{Shards: 1, MaxDeliveries: 1})
	for round := range 20 {
		must(t, q.Publish(ctx, Message{Body: []byte("dead")}))
		got, err := q.Receive(ctx, 1)
		must(t, err)
		must(t, q.Nack(ctx, 0, got...))
		if got, err = q.TryReceive(ctx, 1); err != nil || len(got) > 0 {
			t.Fatalf("%v, %v", bodies(got), err)
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
			t.Fatalf("round %d: revived and published %v", round, bodies(got))
		}
		must(t, q.Ack(ctx, got...))
	}
}

// A caller who has left may use its memory again: what is published yet is what it was.
func TestWhatIsPublishedIsWhatWasHandedIn(t *testing.T) {
	db, ks := memory(t, cleave.Options{})
	q := open(t, db, ks, "q", Options{Shards: 1})
	busy := &lane{busy: true} // somebody is at work
	q.c.posts[lanes.Bucket{Epoch: 1, Of: 1}] = busy
	leaving, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	m := Message{Key: []byte("key"), Body: []byte("body")}
	wantError(t, "a post whose caller leaves", q.Publish(leaving, m), cleave.ErrUnknown)
	copy(m.Body, "evil")
	copy(m.Key, "bad")
	busy.waiting[0].turn <- nil
	got, err := q.Receive(ctx, 1)
	if must(t, err); string(got[0].Body) != "body" || string(got[0].Key) != "key" {
		t.Errorf("it is %q of %q", got[0].Body, got[0].Key)
	}
}

// A manifest that was read late does not take the place of a newer one: the epochs that it
// lacks would not be asked for the ids of messages.
func TestAManifestThatWasReadLateIsNotBelieved(t *testing.T) {
	db, ks := memory(t, cleave.Options{})
	q := open(t, db, ks, "q", Options{Shards: 1})
	old := q.c.manifest.Load()
	must(t, q.Resize(ctx, 2))
	q.c.learn(old)
	if n := q.c.manifest.Load().Open().Number; n != 2 {
		t.Errorf("the epoch is %d", n)
	}
}

// Each id is looked for in all epochs that are remembered, so fewer messages are committed
// at once where there are many: none is refused, and ids are known over all of them.
func TestMessagesWithIDsArePublishedAfterManyResizes(t *testing.T) {
	db, ks := memory(t, cleave.Options{})
	q := open(t, db, ks, "q", Options{Shards: 1})
	for i := range 10 {
		must(t, q.Resize(ctx, 1+(i+1)%2))
	}
	list := make([]Message, postMessages)
	for i := range list {
		list[i] = Message{ID: db.NewRequestID(), Delay: time.Hour}
	}
	must(t, q.Publish(ctx, list...))
	must(t, q.Resize(ctx, 2))
	must(t, q.Publish(ctx, list...)) // as after ErrUnknown
	stats, err := q.Stats(ctx)
	if must(t, err); stats.Depth != postMessages {
		t.Errorf("of %d there are %d", postMessages, stats.Depth)
	}
}

// A message without an id needs fewer rows, and may find room where the one before it found none.
func TestMessagesOfOneCallKeepTheirOrderThoughNotAllHaveIDs(t *testing.T) {
	db, ks := memory(t, cleave.Options{})
	l := openLog(t, db, ks, "log", Options{Shards: 1})
	for i := range 4 {
		must(t, l.Resize(ctx, 1+(i+1)%2))
	}
	var list []Message
	for rows := 0; rows <= postRows; {
		x := Message{Key: []byte("k"), ID: db.NewRequestID(), Body: fmt.Append(nil, len(list))}
		list = append(list, x)
		rows += rowsOf(l.c.manifest.Load(), &x)
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

// A reader is told of all that was trimmed before it read it: also of shards that are gone
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
			db, ks := memory(t, cleave.Options{Now: clock.Now})
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
				clock.pass(time.Hour)
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
