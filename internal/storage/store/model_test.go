package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/internal/testkit/tally"
)

const testDir = "/store"

// tinyOptions are options under which chunks are sealed, applied and recycled all the
// time.
func tinyOptions(fsys vfs.FS) Options {
	return Options{
		Dir: testDir, FS: fsys, SegmentBytes: 64 << 10, CacheBytes: 64 << 10,
		BlockCacheBytes: 64 << 10, RetainBytes: -1, FlushBytes: 128 << 10,
	}
}

// randomOptions is tiny, with one or the other way in which chunks are applied and memory is filled.
func randomOptions(fsys vfs.FS, rng *rand.Rand) Options {
	o := tinyOptions(fsys)
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

// rowWrite is one operation of a test; a nil value deletes.
type rowWrite struct{ key, value []byte }

func newEntry(p []byte) wal.Entry { return wal.Entry{Group: 1, Payload: p} }

// encodeWrites is that of one commit.
func encodeWrites(ws ...rowWrite) []byte {
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

func commitWrites(s *Store, ws ...rowWrite) error {
	_, err := s.Commit(false, newEntry(encodeWrites(ws...)))
	return err
}

func mustCommit(t testing.TB, s *Store, ws ...rowWrite) {
	t.Helper()
	if err := commitWrites(s, ws...); err != nil {
		t.Fatal(err)
	}
}

func mustGetRow(t testing.TB, s *Store, key []byte) ([]byte, bool) {
	t.Helper()
	v, ok, err := s.Get(key, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v, ok
}

// model is what a store should hold.
type model map[string]string

func (m model) apply(ws ...rowWrite) {
	for _, w := range ws {
		if w.value == nil {
			delete(m, string(w.key))
		} else {
			m[string(w.key)] = string(w.value)
		}
	}
}

// listRows lists the model's rows of a range in order.
func (m model) listRows(start, end []byte, reverse bool) []rowWrite {
	var ws []rowWrite
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if k >= string(start) && (len(end) == 0 || k < string(end)) {
			ws = append(ws, rowWrite{[]byte(k), []byte(m[k])})
		}
	}
	if reverse {
		slices.Reverse(ws)
	}
	return ws
}

// rowReader is a store or a snapshot.
type rowReader interface {
	Get(key, dst []byte) ([]byte, bool, error)
	Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error
}

// compareRows returns how s differs from what the model has in a range.
func (m model) compareRows(s rowReader, start, end []byte, reverse bool) error {
	want := m.listRows(start, end, reverse)
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
func testWrites(rng *rand.Rand, keys int) []rowWrite {
	ws := make([]rowWrite, 1+rng.IntN(6))
	for i := range ws {
		ws[i].key = testKey(rng, keys)
		if rng.IntN(4) > 0 {
			ws[i].value = testValue(rng, 3000)
		}
	}
	return ws
}

// testCounts counts what a test really did.
type testCounts struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *testCounts) add(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[what] += n
}

func (c *testCounts) logAll(t testing.TB) {
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

// testSeeds returns the seeds to run: one by CLEAVE_SEED, or n fresh ones, more in
// a soak.
func testSeeds(t testing.TB, n int) []uint64 {
	if s := os.Getenv("CLEAVE_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return []uint64{seed}
	}
	switch {
	case os.Getenv("CLEAVE_SOAK") != "":
		n *= 100
	case testing.Short():
		n = 1
	}
	list := make([]uint64, n)
	for i := range list {
		list[i] = rand.Uint64() >> 32
	}
	return list
}

// frozenSnapshot is a snapshot and what it must show for ever.
type frozenSnapshot struct {
	*Snapshot
	model model
}

func TestStoreIsAnOrderedMapAndSnapshotsNeverChange(t *testing.T) {
	var did testCounts
	for _, seed := range testSeeds(t, 3) {
		runModel(t, seed, &did)
	}
	did.logAll(t)
}

func runModel(t *testing.T, seed uint64, did *testCounts) {
	rng := newRNG(t, seed)
	fsys := vfs.NewMem()
	s := mustOpen(t, randomOptions(fsys, rng))
	m := model{}
	var open []frozenSnapshot
	closeAll := func() {
		for _, f := range open {
			if err := f.model.compareRows(f, nil, nil, false); err != nil {
				t.Fatalf("snapshot at %v: %v", f.Position(), err)
			}
			mustClose(t, f.Snapshot)
		}
		open = nil
	}
	for range 1200 / slowdown {
		did.add("steps", 1)
		switch n := rng.IntN(100); {
		case n < 60:
			ws := testWrites(rng, 300)
			mustCommit(t, s, ws...)
			m.apply(ws...)
			did.add("commits", 1)
		case n < 75:
			key := testKey(rng, 320)
			v, ok := mustGetRow(t, s, key)
			if want, wantOK := m[string(key)]; ok != wantOK || string(v) != want {
				t.Fatalf("Get %q: %.20q %v, want %.20q %v", key, v, ok, want, wantOK)
			}
		case n < 90:
			start, end := testKey(rng, 300), testKey(rng, 300)
			var from rowReader = s
			want := m
			if len(open) > 0 && rng.IntN(2) == 0 {
				f := open[rng.IntN(len(open))]
				from, want = f, f.model
			}
			if rng.IntN(8) == 0 {
				end = nil
			}
			if err := want.compareRows(from, start, end, rng.IntN(2) == 0); err != nil {
				t.Fatal(err)
			}
			did.add("scans", 1)
		case n < 95:
			snap, err := s.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			copied := model{}
			for k, v := range m {
				copied[k] = v
			}
			open = append(open, frozenSnapshot{snap, copied})
			did.add("snapshots", 1)
		case n < 98 && len(open) > 0:
			closeAll()
		case n == 99 && rng.IntN(3) == 0:
			closeAll()
			mustClose(t, s)
			s = mustOpen(t, randomOptions(fsys, rng))
			if got := s.Metrics().Log.Replayed; got != 0 {
				t.Fatalf("%d entries replayed after Close", got)
			}
			did.add("reopens", 1)
		}
	}
	closeAll()
	got := s.Metrics()
	did.add("chunks applied", int(got.Applied>>32))
	if got.Applied == 0 || got.Durable == 0 || got.Log.Recycled == 0 {
		t.Errorf("nothing was applied, durable or recycled: %+v", got)
	}
	mustClose(t, s)
}
