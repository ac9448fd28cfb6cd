package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/storage/rowcache"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
	"github.com/cleavekv/cleave/internal/testkit/tally"
)

// opTrap stops the first operation on the disk that it is set for, until it is released.
type opTrap struct {
	match   func(errorfs.Op) bool
	armed   atomic.Bool
	caught  chan struct{}
	release chan struct{}
}

func newOpTrap(match func(errorfs.Op) bool) *opTrap {
	return &opTrap{match: match, caught: make(chan struct{}), release: make(chan struct{})}
}

func (p *opTrap) String() string { return "trap" }

func (p *opTrap) MaybeError(op errorfs.Op) error {
	if p.match(op) && p.armed.CompareAndSwap(true, false) {
		close(p.caught)
		<-p.release
	}
	return nil
}

func isLogOp(op errorfs.Op) bool { return strings.Contains(op.Path, "/"+logDir+"/") }

func isTableOp(op errorfs.Op) bool { return strings.HasSuffix(op.Path, ".sst") }

func TestNothingIsVisibleBeforeItIsDurable(t *testing.T) {
	p := newOpTrap(func(op errorfs.Op) bool { return isLogOp(op) && op.Kind == errorfs.OpFileSyncData })
	s := mustOpen(t, tinyOptions(errorfs.Wrap(vfs.NewMem(), p)))
	a, b := []byte("a"), []byte("b")
	mustCommit(t, s, rowWrite{a, []byte("old")}, rowWrite{b, []byte("old")})
	p.armed.Store(true)
	done := make(chan error)
	go func() { done <- commitWrites(s, rowWrite{a, []byte("new")}, rowWrite{b, nil}) }()
	<-p.caught
	old := model{"a": "old", "b": "old"}
	for name, get := range map[string]func() (rowReader, func()){
		"store": func() (rowReader, func()) { return s, func() {} },
		"snapshot": func() (rowReader, func()) {
			snap, err := s.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			return snap, func() { mustClose(t, snap) }
		},
	} {
		reader, end := get()
		if err := old.compareRows(reader, nil, nil, false); err != nil {
			t.Errorf("%s, scan: %v", name, err)
		}
		for k, want := range old {
			if v, ok, err := reader.Get([]byte(k), nil); err != nil || !ok || string(v) != want {
				t.Errorf("%s, Get %s: %q %v %v, want what is durable", name, k, v, ok, err)
			}
		}
		end()
	}
	close(p.release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := (model{"a": "new"}).compareRows(s, nil, nil, false); err != nil {
		t.Error(err)
	}
	mustClose(t, s)
}

// commitFillers commits other rows as long as there should be more. Many at a time:
// asking for a row keeps it in the cache.
func commitFillers(t *testing.T, s *Store, more func() bool) {
	t.Helper()
	for i := 0; more(); i++ {
		var ws []rowWrite
		for j := range 1000 {
			ws = append(ws, rowWrite{effect.Rows.AppendKey(nil, fmt.Appendf(nil, "filler%06d", 1000*i+j)), make([]byte, 100)})
			if len(ws) == 100 {
				mustCommit(t, s, ws...)
				ws = nil
			}
		}
		if i > 100 {
			t.Fatal("the store does not get there")
		}
	}
}

func TestASlowReadDoesNotBringBackAnOldRow(t *testing.T) {
	for range 12 { // the cache may turn a row away that is asked for once
		checkSlowRead(t)
	}
}

func checkSlowRead(t *testing.T) {
	s := mustOpen(t, tinyOptions(vfs.NewMem()))
	key := []byte("key")
	evict := func() {
		at := s.Metrics().Published
		commitFillers(t, s, func() bool { return s.Metrics().Applied < at })
		commitFillers(t, s, func() bool {
			_, state := s.table.Get(key, nil)
			return state != rowcache.Unknown
		})
	}
	mustCommit(t, s, rowWrite{key, []byte("old")})
	evict()
	// A reader asks Pebble and takes a rest. Meanwhile the row is overwritten,
	// applied, and forgotten by the cache.
	s.hooks.afterRead = func() {
		s.hooks.afterRead = nil
		mustCommit(t, s, rowWrite{key, []byte("new")})
		evict()
	}
	if v, _ := mustGetRow(t, s, key); string(v) != "old" {
		t.Fatalf("%q, want what was there when the read began", v)
	}
	if v, _ := mustGetRow(t, s, key); string(v) != "new" {
		t.Fatalf("%q: a slow reader brought back what was overwritten", v)
	}
	mustClose(t, s)
}

func TestTheLogIsKeptUntilPebbleHasItForSure(t *testing.T) {
	disk := vfs.NewCrashableMem()
	p := newOpTrap(func(op errorfs.Op) bool { return isTableOp(op) && op.Kind == errorfs.OpCreate })
	o := tinyOptions(errorfs.Wrap(disk, p))
	o.FlushBytes = 1 << 30 // few rows, overwritten: Pebble flushes only on request
	s := mustOpen(t, o)
	m := model{}
	overwrite := func() {
		for i := range 500 {
			w := rowWrite{fmt.Appendf(nil, "k%d", i%7), fmt.Appendf(nil, "%d %d", len(m), i)}
			mustCommit(t, s, w)
			m.apply(w)
		}
		for s.Metrics().UnappliedChunks > 1 {
			runtime.Gosched()
		}
	}
	overwrite()
	// A flush begins, more is applied, and the flush ends: only a part of what
	// is applied is durable.
	p.armed.Store(true)
	if _, err := s.db.AsyncFlush(); err != nil {
		t.Fatal(err)
	}
	<-p.caught
	overwrite()
	close(p.release)
	for s.Metrics().Log.Recycled == 0 {
		runtime.Gosched()
	}
	for m := s.Metrics().Log; m.Spare+m.Retained > 0; m = s.Metrics().Log {
		runtime.Gosched() // until what was given back is used for something else
	}
	crashed := disk.CrashClone(vfs.CrashCloneCfg{})
	mustClose(t, s)
	s = mustOpen(t, tinyOptions(crashed))
	if err := m.compareRows(s, nil, nil, false); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
}

func TestTheLogDoesNotGrowWithoutBoundIfPebbleHasNoReasonToFlush(t *testing.T) {
	o := tinyOptions(vfs.NewMem())
	s := mustOpen(t, o)
	most := int64(0)
	const frames = 3000 / slowdown
	for i := range frames {
		mustCommit(t, s, rowWrite{[]byte("k"), fmt.Appendf(nil, "%d", i)})
		most = max(most, s.Metrics().Log.LogBytes)
	}
	// What may be unflushed, what is applied with the last of it, what may be unapplied, and
	// what is being written.
	limit := 2*o.FlushBytes + (maxApplyChunks-1+4+2)*o.SegmentBytes
	t.Logf("%d frames of 4 KiB, at most %d KiB of log", frames, most>>10)
	if most > limit {
		t.Errorf("%d bytes of log, want at most %d", most, limit)
	}
	mustClose(t, s)
}

func TestAPayloadThatIsNoBatchIsRefusedBeforeItIsLogged(t *testing.T) {
	s := mustOpen(t, tinyOptions(vfs.NewMem()))
	before := s.Metrics().Log.Entries
	good := encodeWrites(rowWrite{[]byte("k"), []byte("v")})
	for _, bad := range [][]byte{nil, {0}, good[:len(good)-1], append(good[:len(good):len(good)], 0)} {
		_, err := s.Commit(false, newEntry(good), newEntry(bad))
		if !errors.Is(err, ErrPayload) {
			t.Errorf("%x: %v, want ErrPayload", bad, err)
		}
	}
	if n := s.Metrics().Log.Entries; n != before {
		t.Errorf("%d entries were logged", n-before)
	}
	if _, ok := mustGetRow(t, s, []byte("k")); ok {
		t.Error("a part of a refused commit is visible")
	}
	mustClose(t, s)
}

// Chunks that are applied together leave what a run of single ones leaves: of each key the
// newest.
func TestChunksThatLingerAreAppliedTogether(t *testing.T) {
	for _, linger := range []time.Duration{0, time.Hour} {
		o := tinyOptions(vfs.NewMem())
		o.Linger = linger
		s := mustOpen(t, o)
		var applies atomic.Int64
		s.hooks.beforeApply = func() { applies.Add(1) }
		want := map[string]string{}
		for i := range tally.Size(6000, 2000) {
			k, v := fmt.Sprintf("key%03d", rand.IntN(500)), fmt.Sprint(i)
			w := rowWrite{[]byte(k), []byte(v)}
			if want[k] = v; rand.IntN(5) == 0 {
				w.value = nil
				delete(want, k)
			}
			mustCommit(t, s, w)
		}
		segments := int64(s.Position() >> 32)
		if n := applies.Load(); linger > 0 && (n == 0 || n > segments/2) {
			t.Errorf("%d segments were applied in %d batches: they should be two at least", segments, n)
		}
		check := func(when string) {
			for i := range 500 {
				k := fmt.Sprintf("key%03d", i)
				value, ok, err := s.Get([]byte(k), nil)
				if w, found := want[k]; err != nil || ok != found || string(value) != w {
					t.Errorf("linger %v, %s: %s is %q, %v; want %q, %v", linger, when, k, value, ok, w, found)
				}
			}
		}
		check("open")
		mustClose(t, s)
		s = mustOpen(t, o)
		check("opened again")
		mustClose(t, s)
	}
}

// Where only one chunk may wait to be applied, it does not wait for the next: commits wait
// for it.
func TestAChunkDoesNotLingerWhileCommitsWaitForIt(t *testing.T) {
	o := tinyOptions(vfs.NewMem())
	o.Chunks, o.Linger = 2, time.Hour
	s := mustOpen(t, o)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 200 {
			if err := commitWrites(s, rowWrite{[]byte("key"), fmt.Appendf(nil, "%d %01000d", i, i)}); err != nil {
				t.Error(err)
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(eventually.Limit()):
		t.Fatal("commits wait for ever")
	}
	mustClose(t, s)
}

func TestASnapshotLooksAgainIfSomethingBecameVisibleMeanwhile(t *testing.T) {
	s := mustOpen(t, tinyOptions(vfs.NewMem()))
	looks, undone := 0, 0
	held, pos, _ := s.chunks.captureConsistent(false, func([]*chunk) {
		if looks++; looks <= 2 {
			mustCommit(t, s, rowWrite{[]byte("k"), fmt.Appendf(nil, "%d", looks)})
		}
	}, func() { undone++ })
	if looks != 3 || undone != 2 || pos != s.Position() {
		t.Errorf("%d looks, %d undone, at %v, want 3 and 2 at %v", looks, undone, pos, s.Position())
	}
	s.chunks.releaseChunks(held)
	// A reader that is always too late stops the publisher for the moment.
	looks = 0
	held, pos, _ = s.chunks.captureConsistent(false, func([]*chunk) {
		if looks++; looks <= maxOptimisticTries {
			mustCommit(t, s, rowWrite{[]byte("k"), nil})
		}
	}, func() {})
	if looks != maxOptimisticTries+1 || pos != s.Position() {
		t.Errorf("%d looks, at %v, want %d at %v", looks, pos, maxOptimisticTries+1, s.Position())
	}
	s.chunks.releaseChunks(held)
	mustClose(t, s)
}

func TestCommitsWaitForAnApplierThatIsBehind(t *testing.T) {
	p := newOpTrap(func(op errorfs.Op) bool { return isTableOp(op) && op.Kind == errorfs.OpCreate })
	s := mustOpen(t, tinyOptions(errorfs.Wrap(vfs.NewMem(), p)))
	p.armed.Store(true) // the first flush takes its time, and the applier waits for it
	const commits = 400
	began := time.Now()
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < commits && err == nil; i++ {
			err = commitWrites(s, rowWrite{fmt.Appendf(nil, "k%d", i), make([]byte, 3000)})
		}
		done <- err
	}()
	for m := s.Metrics(); m.CommitWaits == 0 || m.ApplierStalls == 0; m = s.Metrics() {
		select {
		case err := <-done:
			t.Fatalf("%d commits did not wait: %v", commits, err)
		default:
			runtime.Gosched()
		}
	}
	waiting := time.Now()
	m := s.Metrics()
	t.Logf("%d chunks unapplied, %d KiB unflushed, %d stalls", m.UnappliedChunks, m.UnflushedBytes>>10, m.ApplierStalls)
	if m.UnappliedChunks > s.opts.Chunks {
		t.Errorf("%d chunks are not applied, want at most %d", m.UnappliedChunks, s.opts.Chunks)
	}
	held := time.Since(waiting)
	close(p.release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if waited := s.Metrics().CommitWaited; waited < held || waited > time.Since(began) {
		t.Errorf("commits waited for %v, want %v, for which the applier was held, to %v in all", waited, held, time.Since(began))
	}
	mustClose(t, s)
}

func TestARowIsKeptInMemoryUntilPebbleHasIt(t *testing.T) {
	s := mustOpen(t, tinyOptions(vfs.NewMem()))
	key := []byte("key")
	var shown []string
	// As a chunk is about to be applied, the cache is flooded, and the row asked
	// for. The applier calls this, so no other goroutine reads shown.
	s.hooks.beforeApply = func() {
		for i := range 5000 {
			other := fmt.Appendf(nil, "other%d", i)
			s.table.Fill(s.table.NewTicket(other), other, make([]byte, 100), true)
		}
		if v, ok, err := s.Get(key, nil); err == nil { // not at Close
			shown = append(shown, fmt.Sprint(string(v), " ", ok))
		}
	}
	for i := 0; i < 10; i++ {
		mustCommit(t, s, rowWrite{key, fmt.Appendf(nil, "%d", i)})
		for at := s.Position(); s.applier.appliedPosition() < at; { // no more of key until it is applied
			mustCommit(t, s, rowWrite{[]byte("filler"), make([]byte, 3000)})
		}
	}
	mustClose(t, s)
	if !slices.IsSorted(shown) || shown[0] != "0 true" {
		t.Errorf("%q: a row went out of memory before Pebble had it, and an older one came back", shown)
	}
	if len(shown) < 10 {
		t.Errorf("%d chunks were applied, want at least 10", len(shown))
	}
}

func TestSnapshotsAreRefusedBeforeTheyStopCommits(t *testing.T) {
	s := mustOpen(t, tinyOptions(vfs.NewMem()))
	var open []*Snapshot
	// Chunks are small: every snapshot sees others than the one before. A commit
	// that had to wait for a snapshot would wait for ever.
	for i := 0; len(open) < 10*maxSnapshotChunks; i++ {
		for range 4 {
			mustCommit(t, s, rowWrite{fmt.Appendf(nil, "k%d", i%7), make([]byte, 9000)})
		}
		snap, err := s.Snapshot()
		if errors.Is(err, ErrTooManySnapshots) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, snap)
	}
	if len(open) < maxSnapshotChunks/4 || len(open) == 10*maxSnapshotChunks {
		t.Fatalf("%d snapshots were open", len(open))
	}
	if err := s.Scan(nil, nil, false, func(_, _ []byte) bool { return true }); !errors.Is(err, ErrTooManySnapshots) {
		t.Errorf("a scan: %v, want ErrSnapshots", err)
	}
	for i := range 200 {
		mustCommit(t, s, rowWrite{fmt.Appendf(nil, "late%d", i), make([]byte, 9000)})
	}
	for _, snap := range open {
		mustClose(t, snap)
	}
	snap, err := s.Snapshot()
	if err != nil {
		t.Fatalf("after the others were closed: %v", err)
	}
	mustClose(t, snap)
	if s.chunks.snapshotChunks != 0 {
		t.Errorf("%d chunks are still kept", s.chunks.snapshotChunks)
	}
	mustClose(t, s)
}

// Many large commits at once may put more chunks on the list than are let in one
// by one. They count with those that are kept.
func TestALongListLeavesRoomForFewerSnapshots(t *testing.T) {
	var u chunkList
	u.maxSealed, u.snapshotChunks = 1, maxSnapshotChunks-2
	for range 6 {
		u.list = append(u.list, &chunk{memory: new(wal.Chunk)})
	}
	if _, err := u.retainChunks(false); !errors.Is(err, ErrTooManySnapshots) {
		t.Errorf("%d kept, %d on the list: %v, want ErrSnapshots", u.snapshotChunks, len(u.list), err)
	}
	u.list = u.list[:3]
	if _, err := u.retainChunks(false); err != nil {
		t.Errorf("%d kept, %d on the list: %v", u.snapshotChunks, len(u.list), err)
	}
}

// waitApplied waits until everything that was committed is in Pebble.
func waitApplied(t *testing.T, s *Store) {
	t.Helper()
	if err := s.log.Rotate(); err != nil {
		t.Fatal(err)
	}
	s.applier.wake.notify()
	eventually.Holds(t, "what was committed is applied", func() bool { return s.applier.appliedPosition() >= s.Position() })
}

func TestStore_LargeValues_StayWithinCacheBytes(t *testing.T) {
	const cache, size = 4 << 20, 1 << 20
	values := tally.Size(20, 10)
	s, err := Open(Options{Dir: "s", FS: vfs.NewMem(), Durability: wal.Never, CacheBytes: cache, BlockCacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for i := range values {
		if err := commitWrites(s, rowWrite{fmt.Appendf(nil, "k%02d", i), make([]byte, size)}); err != nil {
			t.Fatal(err)
		}
		// A segment is as large as the value: two chunks wait at most, and one fills.
		if got := s.table.Metrics().Bytes; got > cache*5/4+3*size {
			t.Fatalf("after %d values the rows take %d bytes", i+1, got)
		}
	}
	waitApplied(t, s)
	if got := s.table.Metrics().Bytes; got > cache*5/4 {
		t.Errorf("rows that are applied take %d bytes, and %d is the limit", got, cache)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestStore_SmallValues_StayWithinCacheBytes(t *testing.T) {
	const size = 64
	cache := int64(tally.Size(8<<20, 2<<20))
	s, err := Open(Options{Dir: "s", FS: vfs.NewMem(), Durability: wal.Never, CacheBytes: cache, BlockCacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for i := range tally.Size(700, 175) {
		var ws []rowWrite
		for j := range 200 {
			ws = append(ws, rowWrite{fmt.Appendf(nil, "k%06d", i*200+j), make([]byte, size)})
		}
		if err := commitWrites(s, ws...); err != nil {
			t.Fatal(err)
		}
		if got := s.table.Metrics().Bytes; got > cache*3/2 {
			t.Fatalf("after %d values the rows take %d bytes, and %d is the limit", (i+1)*200, got, cache)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestStore_WritesLargerThanASegment_WaitForTheApplier(t *testing.T) {
	const size = 2 << 20
	s, err := Open(Options{Dir: "s", FS: vfs.NewMem(), Durability: wal.Never, CacheBytes: 1 << 20, BlockCacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for i := range tally.Size(20, 6) {
		if err := commitWrites(s, rowWrite{fmt.Appendf(nil, "k%02d", i), make([]byte, size)}); err != nil {
			t.Fatal(err)
		}
		if _, _, payload := s.chunks.measureBacklog(); payload > 3*size {
			t.Fatalf("after %d writes %d bytes of operations are in memory", i+1, payload)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
