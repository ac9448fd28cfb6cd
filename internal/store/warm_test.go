package store

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/rows"
)

func TestWarmMakesRowsKnownAsTheyAre(t *testing.T) {
	o := tiny(vfs.NewMem())
	o.CacheBytes = 1 << 20
	s := mustOpen(t, o)
	const n = 200
	key := func(i int) []byte { return fmt.Appendf(nil, "key%03d", i) }
	for i := range n {
		mustCommit(t, s, write{key(i), fmt.Append(nil, i)})
	}
	mustCommit(t, s, write{key(7), nil})
	for _, together := range []int{1, 3, n + 10} { // few are read one by one
		mustClose(t, s)
		s = mustOpen(t, o)
		// What is committed while rows are read is newer than what was read.
		s.hooks.afterRead = func() {
			s.hooks.afterRead = nil
			mustCommit(t, s, write{key(0), []byte("newer")})
		}
		var keys [][]byte
		for i := range n + 10 {
			keys = append(keys, key(i))
		}
		for rest := keys; len(rest) > 0; rest = rest[min(together, len(rest)):] {
			s.Warm(rest[:min(together, len(rest))]...)
		}
		if m := s.Metrics().Cache.Misses; m != uint64(len(keys)) {
			t.Errorf("%d together: %d misses for %d rows that were not in memory", together, m, len(keys))
		}
		unknown := 0
		for i, k := range keys {
			want := fmt.Sprint(i)
			switch {
			case i == 0:
				want = "newer"
			case i == 7 || i >= n:
				want = ""
			}
			value, found, known := s.Look(k, nil)
			if known != knows(s, k) {
				t.Errorf("%d together: %s is known: %v and %v", together, k, known, !known)
			}
			if !known {
				unknown++ // the commit has voided its ticket too
				continue
			}
			if string(value) != want || found != (want != "") {
				t.Errorf("%d together: %s is %q, %v, %v; want %q", together, k, value, found, known, want)
			}
		}
		if unknown > n/4 {
			t.Errorf("%d together: %d of %d rows are not known", together, unknown, len(keys))
		}
	}
	mustClose(t, s)
	s.Warm(key(1)) // closed: nothing happens
}

func TestGetManyIsGetForEach(t *testing.T) {
	o := tiny(vfs.NewMem())
	o.CacheBytes = 1 << 20
	s := mustOpen(t, o)
	const n = 200
	key := func(i int) []byte { return fmt.Appendf(nil, "key%03d", i) }
	for i := range n {
		mustCommit(t, s, write{key(i), fmt.Append(nil, i)})
	}
	mustCommit(t, s, write{key(7), nil})
	for _, together := range []int{1, 3, 40, 500} {
		mustClose(t, s)
		s = mustOpen(t, o)
		// What is committed while rows are read is newer than what was read.
		s.hooks.afterRead = func() {
			s.hooks.afterRead = nil
			mustCommit(t, s, write{key(0), []byte("0")}, write{key(199), []byte("199")})
		}
		for round := range 2 { // some are in memory in the second
			for first := 0; first < n+10; first += together {
				var keys [][]byte
				for i := min(first+together, n+10) - 1; i >= first; i-- {
					keys = append(keys, key(i))
				}
				told := map[int]string{}
				var first rows.Ticket
				if err := s.GetMany(keys, func(i int, value []byte, ok bool, ticket rows.Ticket) bool {
					if round == 1 && !s.Unmoved(ticket) {
						t.Errorf("key %d has changed, but nobody has committed anything", i)
					}
					if i == 0 {
						first = ticket
					}
					if _, again := told[i]; again {
						t.Errorf("key %d is told twice", i)
					}
					told[i] = fmt.Sprint(string(value), ok)
					return true
				}); err != nil {
					t.Fatal(err)
				}
				value, ok, _ := s.Get(keys[0], nil)
				if ok {
					if mustCommit(t, s, write{keys[0], value}); s.Unmoved(first) {
						t.Errorf("%s was written, and seems to be as it was", keys[0])
					}
				}
				for i, k := range keys {
					value, ok, err := s.Get(k, nil)
					if want := fmt.Sprint(string(value), ok); err != nil || told[i] != want {
						t.Errorf("round %d, %d together: %s is %q, want %q", round, together, k, told[i], want)
					}
				}
			}
		}
	}
	mustClose(t, s)
	if err := s.GetMany([][]byte{key(1)}, func(int, []byte, bool, rows.Ticket) bool {
		t.Error("a closed store tells something")
		return true
	}); err == nil {
		t.Error("a closed store reads")
	}
}
