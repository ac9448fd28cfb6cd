package store

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// openLayeredStore is a store whose rows lie in Pebble and in several chunks, and what
// it should hold.
func openLayeredStore(t testing.TB, seed uint64) (*Store, model) {
	o := tinyOptions(vfs.NewMem())
	o.Chunks = 16
	rng := newRNG(t, seed)
	s := mustOpen(t, o)
	m := model{}
	for range 60 {
		ws := testWrites(rng, 80)
		mustCommit(t, s, ws...)
		m.apply(ws...)
	}
	return s, m
}

func TestSeekFindsTheFirstRowInTheDirection(t *testing.T) {
	s, m := openLayeredStore(t, 3)
	snap, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if len(snap.views) == 0 {
		t.Fatal("nothing is unapplied: this test wants both")
	}
	rapid.Check(t, func(t *rapid.T) {
		reverse := rapid.Bool().Draw(t, "reverse")
		start := rapid.SliceOfN(rapid.ByteRange('\x00', '4'), 0, 3).Draw(t, "start")
		end := rapid.SliceOfN(rapid.ByteRange('\x00', '9'), 0, 3).Draw(t, "end")
		if len(end) > 0 && bytes.Compare(start, end) > 0 {
			start, end = end, start
		}
		want := m.listRows(start, end, reverse)
		it, err := snap.Iter(start, end, reverse)
		if err != nil {
			t.Fatal(err)
		}
		defer it.Close()
		for range rapid.IntRange(1, 4).Draw(t, "seeks") {
			key := rapid.SliceOfN(rapid.ByteRange('\x00', '9'), 0, 4).Draw(t, "key")
			i := slices.IndexFunc(want, func(w rowWrite) bool {
				if reverse {
					return bytes.Compare(w.key, key) <= 0
				}
				return bytes.Compare(w.key, key) >= 0
			})
			ok := it.Seek(key)
			for step := 0; ; step++ {
				if ok != (i >= 0 && i < len(want)) {
					t.Fatalf("step %d behind %q: %v, want row %d of %d", step, key, ok, i, len(want))
				}
				if !ok && it.Next() {
					t.Fatalf("there is %q behind the end", it.Key())
				}
				if !ok || step == 5 {
					break
				}
				if !bytes.Equal(it.Key(), want[i].key) || !bytes.Equal(it.Value(), want[i].value) {
					t.Fatalf("step %d behind %q: %q, want %q", step, key, it.Key(), want[i].key)
				}
				ok = it.Next()
				i++
			}
		}
		if err := it.Err(); err != nil {
			t.Fatal(err)
		}
	})
	mustClose(t, snap)
	mustClose(t, s)
}

func TestDigestsTellRowsApart(t *testing.T) {
	digest := func(ws ...rowWrite) Digest {
		s := mustOpen(t, tinyOptions(vfs.NewMem()))
		mustCommit(t, s, ws...)
		d := digestOf(t, s)
		mustClose(t, s)
		return d
	}
	k, v := func(s string) []byte { return []byte(s) }, func(s string) []byte { return append([]byte{}, s...) }
	base := digest(rowWrite{k("a"), v("1")}, rowWrite{k("b"), v("2")})
	for name, other := range map[string]Digest{
		"value":    digest(rowWrite{k("a"), v("1")}, rowWrite{k("b"), v("3")}),
		"key":      digest(rowWrite{k("a"), v("1")}, rowWrite{k("c"), v("2")}),
		"less":     digest(rowWrite{k("a"), v("1")}),
		"boundary": digest(rowWrite{k("a"), v("1b")}, rowWrite{k("2"), v("")}),
		"swapped":  digest(rowWrite{k("a"), v("2")}, rowWrite{k("b"), v("1")}),
	} {
		if other == base {
			t.Errorf("%s: the digest is the same", name)
		}
	}
	if again := digest(rowWrite{k("b"), v("2")}, rowWrite{k("x"), v("1")}, rowWrite{k("x"), nil}, rowWrite{k("a"), v("1")}); again != base {
		t.Errorf("the same rows by another way: %+v, want %+v", again, base)
	}
	if base.Rows != 2 || base.Bytes != 4 {
		t.Errorf("%+v, want 2 rows and 4 bytes", base)
	}
}

func TestSnapshotsUnderLoadAreOneMomentAndHoldNobodyUp(t *testing.T) {
	var did testCounts
	rng := newRNG(t, testSeeds(t, 1)[0])
	s := mustOpen(t, tinyOptions(vfs.NewMem()))
	l := newCounterLoad(4)
	stop := make(chan struct{})
	wait := l.run(s, rng.Uint64(), stop, &did)
	var held []frozenDigest
	for range 64 / slowdown {
		known := l.knownCounts()
		snap, err := s.Snapshot()
		for ; errors.Is(err, ErrTooManySnapshots) && len(held) > 0; snap, err = s.Snapshot() {
			held[0].checkDigest(t) // the writers are much faster than this
			held = held[1:]
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := l.checkCounts(snap, known); err != nil {
			t.Fatalf("snapshot at %v: %v", snap.Position(), err)
		}
		d, err := snap.Digest(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		did.add("snapshots", 1)
		did.add("chunks held", len(snap.chunks))
		held = append(held, frozenDigest{snap, d})
		// More snapshots than there are chunks: commits go on all the same.
		for len(held) > 20 {
			held[0].checkDigest(t)
			held = held[1:]
		}
		for target := l.sumAcknowledged() + uint64(rng.IntN(20)); l.sumAcknowledged() < target; {
			runtime.Gosched()
		}
	}
	close(stop)
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	for _, f := range held {
		f.checkDigest(t)
	}
	mustClose(t, s)
	did.logAll(t)
}

// frozenDigest is a snapshot that must have the same digest for ever.
type frozenDigest struct {
	*Snapshot
	want Digest
}

func (f frozenDigest) checkDigest(t *testing.T) {
	if got, err := f.Digest(nil, nil); err != nil || got != f.want {
		t.Errorf("snapshot at %v changed: %+v %v, want %+v", f.Position(), got, err, f.want)
	}
	mustClose(t, f.Snapshot)
}

func TestOpenReplaysMoreThanItsChunksHold(t *testing.T) {
	disk := vfs.NewCrashableMem()
	o := tinyOptions(disk)
	o.FlushBytes = 1 << 30 // nothing is flushed, so all of it is replayed
	s := mustOpen(t, o)
	m := model{}
	for i := range 1500 / slowdown {
		w := rowWrite{fmt.Appendf(nil, "k%d", i%3), fmt.Appendf(nil, "%d", i)}
		mustCommit(t, s, w)
		m.apply(w)
	}
	crashed := disk.CrashClone(vfs.CrashCloneCfg{})
	mustClose(t, s)
	s = mustOpen(t, tinyOptions(crashed))
	got := s.Metrics()
	t.Logf("%d entries replayed, %d chunks of at most %d still in memory", got.Log.Replayed, got.UnappliedChunks, s.opts.Chunks)
	if got.Log.Replayed < 1000/slowdown || got.UnappliedChunks > s.opts.Chunks {
		t.Error("the replay did not wait for the applier")
	}
	if err := m.compareRows(s, nil, nil, false); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
}

func TestCloseLeavesNothingRunning(t *testing.T) {
	stacks := func() string {
		buf := make([]byte, 1<<20)
		return string(buf[:runtime.Stack(buf, true)])
	}
	before := runtime.NumGoroutine()
	for _, o := range []Options{tinyOptions(vfs.NewMem()), {Dir: t.TempDir(), SegmentBytes: 64 << 10}} {
		s := mustOpen(t, o)
		for i := range 200 {
			mustCommit(t, s, rowWrite{fmt.Appendf(nil, "%d", i), make([]byte, 2000)})
		}
		snap, err := s.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		// Close waits for the snapshot, and lets nothing new begin.
		var wg sync.WaitGroup
		wg.Go(func() { mustClose(t, s) })
		for !s.closing.Load() {
			runtime.Gosched()
		}
		for commitWrites(s, rowWrite{[]byte("late"), nil}) == nil {
			runtime.Gosched()
		}
		if _, _, err := snap.Get([]byte("1"), nil); err != nil {
			t.Errorf("a snapshot from before Close: %v", err)
		}
		mustClose(t, snap)
		wg.Wait()
	}
	// And an Open that fails.
	if _, err := Open(Options{Dir: "/dev/null/x"}); err == nil {
		t.Error("a directory below a file was opened")
	}
	damaged := vfs.NewMem()
	mustClose(t, mustOpen(t, tinyOptions(damaged)))
	if err := damaged.RemoveAll(testDir + "/" + logDir); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(tinyOptions(damaged)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%v, want ErrCorrupt", err)
	}
	for range 1000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		runtime.GC() // gives those that are ending time to end
	}
	t.Errorf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks())
}

func TestLargeRowsAreRowsLikeOthers(t *testing.T) {
	disk := vfs.NewMem()
	s := mustOpen(t, tinyOptions(disk))
	m := model{}
	for i := range 6 {
		ws := []rowWrite{
			{fmt.Appendf(nil, "large%d", i%2), bytes.Repeat([]byte{byte(i)}, 200<<10+i)},
			{fmt.Appendf(nil, "small%d", i), []byte("v")},
			{bytes.Repeat([]byte("k"), 40<<10), []byte{byte(i)}},
		}
		mustCommit(t, s, ws...)
		m.apply(ws...)
	}
	for range 2 {
		if err := m.compareRows(s, nil, nil, true); err != nil {
			t.Fatal(err)
		}
		for k, want := range m {
			if v, ok := mustGetRow(t, s, []byte(k)); !ok || string(v) != want {
				t.Errorf("%.10s: %d bytes %v, want %d", k, len(v), ok, len(want))
			}
		}
		mustClose(t, s)
		s = mustOpen(t, tinyOptions(disk))
	}
	mustClose(t, s)
}

// One client counts in the first store and then in the last, so at no moment is the
// last one ahead. The more stores are between the two, the longer the look takes.
func TestSnapshotsOfSeveralStoresAreOfOneMoment(t *testing.T) {
	stores := make([]*Store, 6)
	for i := range stores {
		stores[i] = mustOpen(t, tinyOptions(vfs.NewMem()))
		mustCommit(t, stores[i], rowWrite{[]byte("k"), []byte("0")})
	}
	stop := make(chan struct{})
	var client sync.WaitGroup
	client.Go(func() {
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			mustCommit(t, stores[0], rowWrite{[]byte("k"), []byte(strconv.Itoa(n))})
			mustCommit(t, stores[len(stores)-1], rowWrite{[]byte("k"), []byte(strconv.Itoa(n))})
		}
	})
	for range 4000 / slowdown {
		snaps, err := SnapshotAll(stores...)
		if err != nil {
			t.Fatal(err)
		}
		first, last := readNumber(t, snaps[0]), readNumber(t, snaps[len(snaps)-1])
		for _, snap := range snaps {
			mustClose(t, snap)
		}
		if last > first || last < first-1 {
			t.Errorf("the first counts %d, the last %d", first, last)
			break
		}
	}
	close(stop)
	client.Wait()
}

func readNumber(t *testing.T, s *Snapshot) int {
	t.Helper()
	text, _, err := s.Get([]byte("k"), nil)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
