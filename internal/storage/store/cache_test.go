package store

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/testkit/eventually"
	"github.com/cleavekv/cleave/internal/testkit/tally"
)

func TestWhatIsPreloadedIsWhatThereIs(t *testing.T) {
	o := tinyOptions(vfs.NewMem())
	o.CacheBytes, o.Preload = 4<<20, true
	s := mustOpen(t, o)
	want := map[string]string{}
	keys := tally.Size(6000, 1500)
	put := func() {
		k, v := fmt.Sprintf("key%05d", rand.IntN(keys)), fmt.Sprint(rand.Int())
		w := rowWrite{[]byte(k), []byte(v)}
		if want[k] = v; rand.IntN(3) == 0 {
			w.value = nil
			delete(want, k)
		}
		mustCommit(t, s, w)
	}
	for range keys {
		put()
	}
	for round := range 3 {
		mustClose(t, s)
		s = mustOpen(t, o)
		// It goes on while rows are brought into memory.
		for end := time.Now().Add(eventually.Limit()); !isCached(s, []byte("nobody")); put() {
			if time.Now().After(end) {
				t.Fatalf("round %d: it does not know what is absent", round)
			}
		}
		for i := range keys {
			k := fmt.Sprintf("key%05d", i)
			value, found, known := s.Lookup([]byte(k), nil)
			if w, ok := want[k]; !known || found != ok || string(value) != w {
				t.Errorf("round %d: %s is %q, %v, known %v; want %q, %v", round, k, value, found, known, w, ok)
			}
		}
	}
	mustClose(t, s)
}

func TestWhatDoesNotFitIsNotPreloaded(t *testing.T) {
	o := tinyOptions(vfs.NewMem())
	o.Preload = true
	s := mustOpen(t, o)
	for i := range 2000 {
		v := make([]byte, 200)
		for j := range v {
			v[j] = byte(rand.IntN(256)) // it is not compressed
		}
		mustCommit(t, s, rowWrite{fmt.Appendf(nil, "key%d", i), v})
	}
	mustClose(t, s)
	s = mustOpen(t, o)
	time.Sleep(50 * time.Millisecond)
	if m := s.Metrics(); m.Cache.Rows > 0 || isCached(s, []byte("nobody")) {
		t.Errorf("%d rows are in memory", m.Cache.Rows)
	}
	mustClose(t, s)
}
