package store

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/wal"
)

// ledger is a load of writers, each of which counts up in two rows that are
// always written together, and what is known about each count.
type ledger struct {
	writers []ledgerWriter
}

type ledgerWriter struct {
	issued, acknowledged, read atomic.Uint64
}

func newLedger(writers int) *ledger { return &ledger{writers: make([]ledgerWriter, writers)} }

func ledgerKey(writer int, second bool) []byte {
	half := byte('a')
	if second {
		half = 'z'
	}
	// The two halves lie far apart, so that they are in different tables.
	return effect.Rows.AppendKey(nil, fmt.Appendf(nil, "%c%03d", half, writer))
}

// commit counts writer up once.
func (l *ledger) commit(s *Store, writer int, rng *rand.Rand) error {
	w := &l.writers[writer]
	n := w.issued.Add(1)
	value := binary.BigEndian.AppendUint64(nil, n)
	value = append(value, make([]byte, rng.IntN(2000))...)
	var b effect.Builder
	b.Reset(effect.Header{Seq: n})
	b.Put(ledgerKey(writer, false), value)
	b.Put(ledgerKey(writer, true), value)
	// A row that comes and goes must not come back.
	ghost := append(ledgerKey(writer, false), 'g')
	if n%2 == 0 {
		b.Delete(ghost)
	} else {
		b.Put(ghost, value[:8])
	}
	// Others come in between, so that the cache forgets.
	for range 4 {
		b.Put(effect.Rows.AppendKey(nil, fmt.Appendf(nil, "m%03d", rng.IntN(1000))), value[:min(len(value), 300)])
	}
	if _, err := s.Commit(false, wal.Entry{Group: uint64(writer), Payload: b.Bytes()}); err != nil {
		return err
	}
	w.acknowledged.Store(n)
	return nil
}

// look reads a writer's first row.
func (l *ledger) look(s *Store, writer int) error {
	w := &l.writers[writer]
	before := max(w.read.Load(), w.acknowledged.Load())
	v, ok, err := s.Get(ledgerKey(writer, false), nil)
	if err != nil {
		return err
	}
	n := countOf(v, ok)
	if n < before {
		return fmt.Errorf("writer %d: read %d after %d was read or acknowledged", writer, n, before)
	}
	for old := w.read.Load(); n > old && !w.read.CompareAndSwap(old, n); {
		old = w.read.Load()
	}
	return nil
}

func countOf(v []byte, ok bool) uint64 {
	if !ok {
		return 0
	}
	return binary.BigEndian.Uint64(v)
}

// known is what must be in a store from here on.
func (l *ledger) known() []uint64 {
	known := make([]uint64, len(l.writers))
	for i := range known {
		known[i] = max(l.writers[i].acknowledged.Load(), l.writers[i].read.Load())
	}
	return known
}

// check compares what a reader shows with what must be there.
func (l *ledger) check(s scanner, known []uint64) error {
	for i := range l.writers {
		a, okA, errA := s.Get(ledgerKey(i, false), nil)
		b, okB, errB := s.Get(ledgerKey(i, true), nil)
		_, ghost, errG := s.Get(append(ledgerKey(i, false), 'g'), nil)
		if errA != nil || errB != nil || errG != nil {
			return fmt.Errorf("writer %d: %v, %v, %v", i, errA, errB, errG)
		}
		n := countOf(a, okA)
		switch {
		case okA != okB || string(a) != string(b):
			return fmt.Errorf("writer %d: %d in one row and %d in the other, which are always written together", i, n, countOf(b, okB))
		case n < known[i]:
			return fmt.Errorf("writer %d: %d, but %d was acknowledged or read", i, n, known[i])
		case n > l.writers[i].issued.Load():
			return fmt.Errorf("writer %d: %d was never written", i, n)
		case ghost != (n%2 == 1):
			return fmt.Errorf("writer %d: at %d the row that comes and goes is there: %v", i, n, ghost)
		}
	}
	return nil
}

// resume makes the ledger go on from what survived a crash.
func (l *ledger) resume(s scanner) error {
	for i := range l.writers {
		v, ok, err := s.Get(ledgerKey(i, false), nil)
		if err != nil {
			return err
		}
		w := &l.writers[i]
		n := countOf(v, ok)
		w.issued.Store(n)
		w.acknowledged.Store(n)
		w.read.Store(n)
	}
	return nil
}

// run commits and reads until stop is closed.
func (l *ledger) run(s *Store, seed uint64, stop <-chan struct{}, did *counts) (wait func() error) {
	var wg sync.WaitGroup
	failure := make(chan error, 2*len(l.writers))
	loop := func(step func(*rand.Rand) error, what string, stream uint64) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, stream))
			n := 0
			defer func() { did.add(what, n) }()
			for ; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := step(rng); err != nil {
					failure <- err
					return
				}
			}
		})
	}
	for i := range l.writers {
		loop(func(rng *rand.Rand) error { return l.commit(s, i, rng) }, "commits", uint64(2*i))
	}
	loop(func(rng *rand.Rand) error { return l.look(s, rng.IntN(len(l.writers))) }, "reads", 1)
	return func() error {
		wg.Wait()
		close(failure)
		return <-failure
	}
}

func TestWhatWasAcknowledgedOrReadSurvivesCrashes(t *testing.T) {
	var did counts
	for _, seed := range seeds(t, 3) {
		rng := newRNG(t, seed)
		fsys := vfs.NewCrashableMem()
		l := newLedger(6)
		s := mustOpen(t, anyhow(fsys, rng))
		for range max(2, 8/slow) {
			stop := make(chan struct{})
			wait := l.run(s, rng.Uint64(), stop, &did)
			for target := l.total() + uint64(20+rng.IntN(600/slow)); l.total() < target; {
				if err := l.look(s, 0); err != nil {
					t.Fatal(err)
				}
			}
			known := l.known()
			keep := []int{0, 50, 100}[rng.IntN(3)]
			crashed := fsys.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: keep, RNG: rng})
			close(stop)
			if err := wait(); err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
			fsys = crashed
			s = mustOpen(t, anyhow(fsys, rng))
			if err := l.check(s, known); err != nil {
				t.Fatalf("after a crash that kept %d%% of what was not synced: %v", keep, err)
			}
			if err := l.resume(s); err != nil {
				t.Fatal(err)
			}
			did.add(fmt.Sprintf("crashes keeping %d%%", keep), 1)
		}
		mustClose(t, s)
	}
	did.log(t)
}

// total counts all acknowledged commits.
func (l *ledger) total() (n uint64) {
	for i := range l.writers {
		n += l.writers[i].acknowledged.Load()
	}
	return n
}

// A store that dies soon after it was opened, again and again, does not fill the disk with what each
// of its lives has written.
func TestCrashesDoNotPileUp(t *testing.T) {
	const crashes = 60
	fsys := vfs.NewCrashableMem()
	var most int
	for i := range crashes {
		s := mustOpen(t, tiny(fsys))
		m := s.log.Metrics()
		most = max(most, m.Needed+m.Retained)
		mustCommit(t, s, write{fmt.Appendf(nil, "k%d", i), []byte("1")})
		crashed := fsys.CrashClone(vfs.CrashCloneCfg{})
		mustClose(t, s)
		fsys = crashed
	}
	// What may be unflushed, what is applied with the last of it, and the one in use.
	if o := tiny(fsys); most > 2*int(o.FlushBytes/int64(o.SegmentBytes))+applyMost+1 {
		t.Errorf("after %d crashes up to %d segments were kept", crashes, most)
	}
	s := mustOpen(t, tiny(fsys))
	defer mustClose(t, s)
	for i := range crashes {
		if value, ok := mustGet(t, s, fmt.Appendf(nil, "k%d", i)); !ok || string(value) != "1" {
			t.Errorf("k%d is %q, %v", i, value, ok)
		}
	}
}
