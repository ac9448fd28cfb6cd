package queue

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/testkit/caller"
)

func openLog(t testing.TB, db *cleave.DB, ks *cleave.Keyspace, name string, o Options) *Log {
	t.Helper()
	l, err := OpenLog(ctx, db, ks, name, o)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// What was appended is read once by each reader, merged in the order of time, over resizes
// and reopened readers, and entries with equal keys in their order.
func TestReadersSeeTheLogInOrder(t *testing.T) {
	clock := newClock()
	db, ks := openMemory(t, cleave.Options{Groups: 2, Stores: 2, Now: clock.Now})
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		l, err := OpenLog(ctx, db, ks, fmt.Sprint("log", runs), Options{Shards: 3, Now: clock.Now})
		must(t, err)
		defer l.Close()
		var want []string
		seen := map[string][]string{}
		read := func(name string, all bool) {
			r, err := l.Reader(ctx, name)
			must(t, err)
			last := time.Time{}
			for {
				list, err := r.Read(ctx, rapid.IntRange(1, 5).Draw(t, "max"))
				must(t, err)
				for _, e := range list {
					if e.Time.Before(last) {
						t.Fatalf("%s is of %v, after one of %v", e.Body, e.Time, last)
					}
					last = e.Time
					seen[name] = append(seen[name], string(e.Body))
				}
				must(t, r.Commit(ctx))
				if !all || len(list) == 0 {
					return
				}
			}
		}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"append", "append", "append", "pass", "read", "resize"}).Draw(t, "op") {
			case "append":
				body := fmt.Sprint(len(want))
				id := db.NewRequestID()
				key := []byte(rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key"))
				for range rapid.IntRange(1, 2).Draw(t, "times") {
					must(t, l.Append(ctx, Message{Key: key, Body: []byte(body), ID: id}))
				}
				want = append(want, body)
				clock.advance(time.Millisecond) // so that there is one order
			case "pass":
				clock.advance(time.Second)
			case "read":
				read(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "reader"), false)
			case "resize":
				must(t, l.Resize(ctx, rapid.IntRange(1, 5).Draw(t, "shards")))
			}
		}
		for _, name := range []string{"x", "y", "z"} {
			read(name, true)
			if !slices.Equal(seen[name], want) {
				t.Fatalf("reader %s has seen %q, want %q", name, seen[name], want)
			}
		}
	})
}

func TestALogIsTrimmedFromItsOldEnd(t *testing.T) {
	clock := newClock()
	db, ks := openMemory(t, cleave.Options{Now: clock.Now})
	l := openLog(t, db, ks, "log", Options{Shards: 1, Now: clock.Now})
	wantError(t, "a delay", l.Append(ctx, Message{Delay: 1}), ErrMessage)
	_, err := l.Trim(ctx, Retention{Age: -1})
	wantError(t, "an age before birth", err, cleave.ErrOptions)
	r, err := l.Reader(ctx, "r")
	must(t, err)
	put := func(n int) {
		for i := range n {
			must(t, l.Append(ctx, Message{Body: fmt.Appendf(nil, "%04d", i)}))
		}
	}
	trim := func(keep Retention, want int) {
		t.Helper()
		if n, err := l.Trim(ctx, keep); err != nil || n != want {
			t.Fatalf("%d were removed, %v; want %d", n, err, want)
		}
	}
	put(20)
	list, err := r.Read(ctx, 2)
	must(t, err)
	if len(list) != 2 || list[0].Key != nil {
		t.Fatal(list)
	}
	trim(Retention{}, 0)
	trim(Retention{ShardEntries: 15}, 5)
	_, err = r.Read(ctx, 2)
	wantError(t, "a reader that is behind", err, ErrTrimmed)
	list, err = r.Read(ctx, 1)
	must(t, err)
	if string(list[0].Body) != "0005" {
		t.Fatalf("it goes on with %s", list[0].Body)
	}
	trim(Retention{ShardBytes: 4 * 10}, 5)
	clock.advance(time.Hour)
	put(3)
	trim(Retention{Age: time.Minute}, 10)
	must(t, l.Resize(ctx, 2))
	put(1)
	clock.advance(time.Hour)
	trim(Retention{Age: time.Minute}, 4)
	m, err := l.c.reloadManifest(ctx)
	must(t, err)
	if len(m.RemainingBuckets()) != 2 {
		t.Errorf("what is empty for good is still looked at: %+v", m)
	}
	fresh, err := l.Reader(ctx, "fresh") // one that never was there has lost nothing
	must(t, err)
	if list, err := fresh.Read(ctx, 10); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
	wait := make(chan error)
	go func() {
		list, err := fresh.Next(ctx, 10)
		if len(list) != 1 {
			err = errors.Join(err, fmt.Errorf("%d entries", len(list)))
		}
		wait <- err
	}()
	put(1)
	must(t, <-wait)
	_, err = l.Reader(ctx, "")
	wantError(t, "a reader without a name", err, cleave.ErrOptions)
}

// Wherever a trim is interrupted, it counts what it removed.
func TestATrimCountsWhatItRemoved(t *testing.T) {
	db, ks := openMemory(t, cleave.Options{})
	l := openLog(t, db, ks, "log", Options{Shards: 1})
	for range 10 {
		must(t, l.Append(ctx, Message{Body: []byte("x")}))
	}
	p := newBucketKeys("log", l.c.manifest.Load().OpenBuckets()[0])
	entries := func() int {
		page, err := ks.ScanPage(ctx, cleave.ScanOptions{Start: p.kindPrefix(kindMessage), End: p.kindPrefix(kindMessage + 1)})
		must(t, err)
		return len(page.Items)
	}
	for looks := 0; entries() == 10; looks++ {
		left := looks
		n, err := l.Trim(caller.WithCancelWhen(ctx, func() bool { left--; return left < 0 }), Retention{ShardEntries: 4})
		if gone := 10 - entries(); n != gone && !errors.Is(err, cleave.ErrUnknown) {
			t.Fatalf("after %d looks at its context it says that it removed %d, of %d: %v", looks, n, gone, err)
		}
	}
}
