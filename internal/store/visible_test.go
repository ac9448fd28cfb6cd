package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/rows"
)

// trap stops the first operation on the disk that it is set for, until it is let go.
type trap struct {
	match  func(errorfs.Op) bool
	set    atomic.Bool
	caught chan struct{}
	letGo  chan struct{}
}

func newTrap(match func(errorfs.Op) bool) *trap {
	return &trap{match: match, caught: make(chan struct{}), letGo: make(chan struct{})}
}

func (p *trap) String() string { return "trap" }

func (p *trap) MaybeError(op errorfs.Op) error {
	if p.match(op) && p.set.CompareAndSwap(true, false) {
		close(p.caught)
		<-p.letGo
	}
	return nil
}

func inLog(op errorfs.Op) bool { return strings.Contains(op.Path, "/"+logDir+"/") }

func isTable(op errorfs.Op) bool { return strings.HasSuffix(op.Path, ".sst") }

func TestNothingIsVisibleBeforeItIsDurable(t *testing.T) {
	p := newTrap(func(op errorfs.Op) bool { return inLog(op) && op.Kind == errorfs.OpFileSyncData })
	s := mustOpen(t, tiny(errorfs.Wrap(vfs.NewMem(), p)))
	a, b := []byte("a"), []byte("b")
	mustCommit(t, s, write{a, []byte("old")}, write{b, []byte("old")})
	p.set.Store(true)
	done := make(chan error)
	go func() { done <- commit(s, write{a, []byte("new")}, write{b, nil}) }()
	<-p.caught
	old := model{"a": "old", "b": "old"}
	for name, get := range map[string]func() (scanner, func()){
		"store": func() (scanner, func()) { return s, func() {} },
		"snapshot": func() (scanner, func()) {
			snap, err := s.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			return snap, func() { mustClose(t, snap) }
		},
	} {
		reader, end := get()
		if err := old.compare(reader, nil, nil, false); err != nil {
			t.Errorf("%s, scan: %v", name, err)
		}
		for k, want := range old {
			if v, ok, err := reader.Get([]byte(k), nil); err != nil || !ok || string(v) != want {
				t.Errorf("%s, Get %s: %q %v %v, want what is durable", name, k, v, ok, err)
			}
		}
		end()
	}
	close(p.letGo)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := (model{"a": "new"}).compare(s, nil, nil, false); err != nil {
		t.Error(err)
	}
	mustClose(t, s)
}

// fillers commits other rows as long as there should be more. Many at a time:
// asking for a row keeps it in the cache.
func fillers(t *testing.T, s *Store, more func() bool) {
	t.Helper()
	for i := 0; more(); i++ {
		var ws []write
		for j := range 1000 {
			ws = append(ws, write{effect.Rows.AppendKey(nil, fmt.Appendf(nil, "filler%06d", 1000*i+j)), make([]byte, 100)})
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
		slowRead(t)
	}
}

func slowRead(t *testing.T) {
	s := mustOpen(t, tiny(vfs.NewMem()))
	key := []byte("key")
	evict := func() {
		at := s.Metrics().Published
		fillers(t, s, func() bool { return s.Metrics().Applied < at })
		fillers(t, s, func() bool {
			_, state := s.table.Get(key, nil)
			return state != rows.Unknown
		})
	}
	mustCommit(t, s, write{key, []byte("old")})
	evict()
	// A reader asks Pebble and takes a rest. Meanwhile the row is overwritten,
	// applied, and forgotten by the cache.
	s.hooks.afterRead = func() {
		s.hooks.afterRead = nil
		mustCommit(t, s, write{key, []byte("new")})
		evict()
	}
	if v, _ := mustGet(t, s, key); string(v) != "old" {
		t.Fatalf("%q, want what was there when the read began", v)
	}
	if v, _ := mustGet(t, s, key); string(v) != "new" {
		t.Fatalf("%q: a slow reader brought back what was overwritten", v)
	}
	mustClose(t, s)
}

func TestTheLogIsKeptUntilPebbleHasItForSure(t *testing.T) {
	disk := vfs.NewCrashableMem()
	p := newTrap(func(op errorfs.Op) bool { return isTable(op) && op.Kind == errorfs.OpCreate })
	o := tiny(errorfs.Wrap(disk, p))
	o.FlushBytes = 1 << 30 // few rows, overwritten: Pebble flushes only when told to
	s := mustOpen(t, o)
	m := model{}
	overwrite := func() {
		for i := range 500 {
			w := write{fmt.Appendf(nil, "k%d", i%7), fmt.Appendf(nil, "%d %d", len(m), i)}
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
	p.set.Store(true)
	if _, err := s.db.AsyncFlush(); err != nil {
		t.Fatal(err)
	}
	<-p.caught
	overwrite()
	close(p.letGo)
	for s.Metrics().Log.Recycled == 0 {
		runtime.Gosched()
	}
	for m := s.Metrics().Log; m.Spare+m.Retained > 0; m = s.Metrics().Log {
		runtime.Gosched() // until what was given back is used for something else
	}
	crashed := disk.CrashClone(vfs.CrashCloneCfg{})
	mustClose(t, s)
	s = mustOpen(t, tiny(crashed))
	if err := m.compare(s, nil, nil, false); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
}

func TestTheLogDoesNotGrowWithoutBoundIfPebbleHasNoReasonToFlush(t *testing.T) {
	o := tiny(vfs.NewMem())
	s := mustOpen(t, o)
	most := int64(0)
	const frames = 3000 / slow
	for i := range frames {
		mustCommit(t, s, write{[]byte("k"), fmt.Appendf(nil, "%d", i)})
		most = max(most, s.Metrics().Log.LogBytes)
	}
	// What may be unflushed, what is applied with the last of it, what may be unapplied, and
	// what is being written.
	limit := 2*o.FlushBytes + (applyMost-1+4+2)*o.SegmentBytes
	t.Logf("%d frames of 4 KiB, at most %d KiB of log", frames, most>>10)
	if most > limit {
		t.Errorf("%d bytes of log, want at most %d", most, limit)
	}
	mustClose(t, s)
}

func TestAPayloadThatIsNoBatchIsRefusedBeforeItIsLogged(t *testing.T) {
	s := mustOpen(t, tiny(vfs.NewMem()))
	before := s.Metrics().Log.Entries
	good := payload(write{[]byte("k"), []byte("v")})
	for _, bad := range [][]byte{nil, {0}, good[:len(good)-1], append(good[:len(good):len(good)], 0)} {
		_, err := s.Commit(false, entry(good), entry(bad))
		if !errors.Is(err, ErrPayload) {
			t.Errorf("%x: %v, want ErrPayload", bad, err)
		}
	}
	if n := s.Metrics().Log.Entries; n != before {
		t.Errorf("%d entries were logged", n-before)
	}
	if _, ok := mustGet(t, s, []byte("k")); ok {
		t.Error("a part of a refused commit is visible")
	}
	mustClose(t, s)
}

// Chunks that are applied together leave what a run of single ones leaves: of each key the
// newest.
func TestChunksThatLingerAreAppliedTogether(t *testing.T) {
	for _, linger := range []time.Duration{0, time.Hour} {
		o := tiny(vfs.NewMem())
		o.Linger = linger
		s := mustOpen(t, o)
		var applies atomic.Int64
		s.hooks.beforeApply = func() { applies.Add(1) }
		want := map[string]string{}
		for i := range 6000 {
			k, v := fmt.Sprintf("key%03d", rand.IntN(500)), fmt.Sprint(i)
			w := write{[]byte(k), []byte(v)}
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
	o := tiny(vfs.NewMem())
	o.Chunks, o.Linger = 2, time.Hour
	s := mustOpen(t, o)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 200 {
			if err := commit(s, write{[]byte("key"), fmt.Appendf(nil, "%d %01000d", i, i)}); err != nil {
				t.Error(err)
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("commits wait for ever")
	}
	mustClose(t, s)
}
