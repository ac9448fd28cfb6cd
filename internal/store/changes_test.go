package store

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/wal"
)

// names are the keys of changes, in order.
func names(cs []Change) string {
	var all []string
	for _, c := range cs {
		all = append(all, string(c.Key))
	}
	return strings.Join(all, " ")
}

func startsWithA(key []byte) bool { return bytes.HasPrefix(key, []byte("a")) }

func TestChangesAreRememberedInTheOrderOfTheLast(t *testing.T) {
	s := mustOpen(t, tiny(vfs.NewMem()))
	defer mustClose(t, s)
	set := func(keys ...string) wal.Position {
		t.Helper()
		var ws []write
		for _, k := range keys {
			ws = append(ws, write{[]byte(k), []byte("value")})
		}
		mustCommit(t, s, ws...)
		return s.Position()
	}
	set("a0")
	c := s.Follow(startsWithA, 1<<20)
	since := s.Position()
	first := set("a1")
	set("b1", "a2", "a3")
	mustCommit(t, s, write{key: []byte("a4")}) // a delete
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
		if !ok || names(got) != x.want || more != x.more {
			t.Errorf("%s: %s, more %v, %v; want %s, more %v", x.name, names(got), more, ok, x.want, x.more)
		}
	}
	if _, _, ok := c.Next(since-1, 1); ok {
		t.Error("it knows what changed before it was begun")
	}
	if got := c.Bytes(); got != 3*int64(len("a1value"))+int64(len("a4")) {
		t.Errorf("%d bytes", got)
	}
	c.Forget(first)
	if got, _, ok := c.Next(first, 1<<20); !ok || names(got) != "a2 a3 a4 a1" {
		t.Errorf("a1 has changed again, but there is %s", names(got))
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
		t.Errorf("it has not ended: %s", names(got))
	}
}

func TestTooManyChangesAreNotRemembered(t *testing.T) {
	s := mustOpen(t, tiny(vfs.NewMem()))
	defer mustClose(t, s)
	c := s.Follow(startsWithA, 10*(changeBytes+2))
	defer c.Close()
	since := s.Position()
	for i := range 50 { // the same few: they take no more
		mustCommit(t, s, write{fmt.Appendf(nil, "a%d", i%10), []byte("value")})
	}
	if _, ok := c.Since(); !ok {
		t.Fatal("ten rows are too many")
	}
	for i := range 50 {
		mustCommit(t, s, write{fmt.Appendf(nil, "a%d", i), []byte("value")})
	}
	if _, ok := c.Since(); ok || c.Bytes() != 0 {
		t.Error("fifty rows are remembered where there is room for ten")
	}
	if got, _, ok := c.Next(since, 1<<20); ok || got != nil {
		t.Errorf("it gave up, and knows %s", names(got))
	}
}

// Nobody has to ask for it: what commits have said takes little memory.
func TestWhatWasHeardIsPutInOrderNowAndThen(t *testing.T) {
	s := mustOpen(t, tiny(vfs.NewMem()))
	defer mustClose(t, s)
	const many = 3 * heardBytes / 2 / maxHeardKey
	c := s.Follow(startsWithA, 1<<30)
	defer c.Close()
	since := s.Position()
	for i := range many {
		key := fmt.Appendf(nil, "a%d", i)
		mustCommit(t, s, write{append(key, make([]byte, maxHeardKey)...), nil})
		if n := len(c.heard.keys); n > heardBytes+2*maxHeardKey {
			t.Fatalf("%d bytes wait to be put in order", n)
		}
	}
	if next, _, ok := c.Next(since, 1<<30); !ok || len(next) != many {
		t.Errorf("%d of %d changes are known, %v", len(next), many, ok)
	}
}

// maxHeardKey is the length of keys that are long.
const maxHeardKey = 8 << 10

// Whoever has seen a place of the log finds all that has changed up to it, and sees the rows as
// they have been since.
func TestNoChangeIsMissedByWhoSawItsPlace(t *testing.T) {
	s := mustOpen(t, tiny(vfs.NewMem()))
	defer mustClose(t, s)
	const keys, writers, writes = 20, 4, 300
	var running sync.WaitGroup
	c := s.Follow(startsWithA, 1<<20)
	defer c.Close()
	for w := range writers {
		running.Go(func() {
			for i := range writes {
				if err := commit(s, write{fmt.Appendf(nil, "a%d", (i*(w+3))%keys), fmt.Appendf(nil, "%d-%d", w, i)}); err != nil {
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
		if now, _ := mustGet(t, s, []byte(k)); string(now) != v {
			t.Errorf("%s is %s, and %s in the copy", k, now, v)
		}
	}
	if len(copied) != keys {
		t.Errorf("%d of %d rows were seen", len(copied), keys)
	}
}
