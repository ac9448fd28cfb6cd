package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/tally"
	"github.com/cleavekv/cleave/internal/wal"
)

const testDir = "/store"

// tiny are options under which chunks are sealed, applied and recycled all the
// time.
func tiny(fsys vfs.FS) Options {
	return Options{
		Dir: testDir, FS: fsys, SegmentBytes: 64 << 10, CacheBytes: 64 << 10,
		BlockCacheBytes: 64 << 10, RetainBytes: -1, FlushBytes: 128 << 10,
	}
}

// anyhow is tiny, with one or the other way in which chunks are applied and memory is filled.
func anyhow(fsys vfs.FS, rng *rand.Rand) Options {
	o := tiny(fsys)
	o.Linger = []time.Duration{0, time.Millisecond, time.Hour}[rng.IntN(3)]
	o.Preload = rng.IntN(2) == 0
	o.CacheBytes = []int64{64 << 10, 256 << 10, 4 << 20}[rng.IntN(3)]
	return o
}

func mustOpen(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustClose(t testing.TB, s interface{ Close() error }) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// write is one operation of a test; a nil value deletes.
type write struct{ key, value []byte }

func entry(p []byte) wal.Entry { return wal.Entry{Group: 1, Payload: p} }

// payload is that of one commit.
func payload(ws ...write) []byte {
	var b effect.Builder
	b.Reset(effect.Header{})
	for _, w := range ws {
		if w.value == nil {
			b.Delete(w.key)
		} else {
			b.Put(w.key, w.value)
		}
	}
	return b.Bytes()
}

func commit(s *Store, ws ...write) error {
	_, err := s.Commit(false, entry(payload(ws...)))
	return err
}

func mustCommit(t testing.TB, s *Store, ws ...write) {
	t.Helper()
	if err := commit(s, ws...); err != nil {
		t.Fatal(err)
	}
}

func mustGet(t testing.TB, s *Store, key []byte) ([]byte, bool) {
	t.Helper()
	v, ok, err := s.Get(key, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v, ok
}

// model is what a store should hold.
type model map[string]string

func (m model) apply(ws ...write) {
	for _, w := range ws {
		if w.value == nil {
			delete(m, string(w.key))
		} else {
			m[string(w.key)] = string(w.value)
		}
	}
}

// rows lists the model's rows of a range in order.
func (m model) rows(start, end []byte, reverse bool) []write {
	var ws []write
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if k >= string(start) && (len(end) == 0 || k < string(end)) {
			ws = append(ws, write{[]byte(k), []byte(m[k])})
		}
	}
	if reverse {
		slices.Reverse(ws)
	}
	return ws
}

// scanner is a store or a snapshot.
type scanner interface {
	Get(key, dst []byte) ([]byte, bool, error)
	Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error
}

// compare returns how s differs from what the model has in a range.
func (m model) compare(s scanner, start, end []byte, reverse bool) error {
	want := m.rows(start, end, reverse)
	i := 0
	var differs error
	err := s.Scan(start, end, reverse, func(key, value []byte) bool {
		if i >= len(want) {
			differs = fmt.Errorf("row %d: %q is too many", i, key)
		} else if !bytes.Equal(key, want[i].key) || !bytes.Equal(value, want[i].value) {
			differs = fmt.Errorf("row %d: %q=%.20q, want %q=%.20q", i, key, value, want[i].key, want[i].value)
		}
		i++
		return differs == nil
	})
	if differs == nil && err == nil && i < len(want) {
		differs = fmt.Errorf("%d rows, want %d: %q is missing", i, len(want), want[i].key)
	}
	return errors.Join(err, differs)
}

// testKey is one of a few keys, some of them prefixes of others.
func testKey(rng *rand.Rand, n int) []byte {
	i := rng.IntN(n)
	return effect.Rows.AppendKey(nil, fmt.Appendf(nil, "%0*d", 1+i%4, i))
}

func testValue(rng *rand.Rand, most int) []byte {
	v := make([]byte, rng.IntN(most))
	for i := range v {
		v[i] = byte(rng.Uint32())
	}
	return v
}

// testWrites makes a commit: a few puts and deletes.
func testWrites(rng *rand.Rand, keys int) []write {
	ws := make([]write, 1+rng.IntN(6))
	for i := range ws {
		ws[i].key = testKey(rng, keys)
		if rng.IntN(4) > 0 {
			ws[i].value = testValue(rng, 3000)
		}
	}
	return ws
}

// counts tells how much a test really did.
type counts struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counts) add(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[what] += n
}

func (c *counts) log(t testing.TB) {
	for _, what := range slices.Sorted(maps.Keys(c.n)) {
		tally.Add(t, what, c.n[what])
	}
}

// newRNG returns a generator that the test can be repeated with.
func newRNG(t testing.TB, seed uint64) *rand.Rand {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d: run again with CLEAVE_SEED=%d go test -run '%s'", seed, seed, t.Name())
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}
