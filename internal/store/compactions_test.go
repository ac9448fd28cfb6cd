package store

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// engine stands in for Pebble: it wants a number of compactions, asks for them as
// Pebble does, and waits when it is refused until it is called.
type engine struct {
	*compactor
	tb      testing.TB
	allowed atomic.Int32
	first   pebble.WaitingCompaction // what it would begin

	lock    sync.Mutex // Pebble's own
	wants   int
	refused bool
	begun   int
	gone    bool // Unregister has returned
	// run, if set, does a compaction in a goroutine of its own; under are those.
	run   func(pebble.CompactionGrantHandle)
	under sync.WaitGroup
	// asked, if set, is called when it is asked what it waits for.
	asked func()
}

func newEngine(tb testing.TB, a *Compactions) *engine {
	e := &engine{compactor: a.join(func() bool { return false }), tb: tb}
	e.allowed.Store(1)
	e.Register(2, e)
	e.begin()
	return e
}

// want asks for so many more compactions.
func (e *engine) want(n int) {
	e.lock.Lock()
	defer e.lock.Unlock()
	e.wants += n
	for !e.refused && e.wants > 0 {
		ok, granted := e.TrySchedule()
		if !ok {
			e.refused = true
			return
		}
		e.start(granted)
	}
}

func (e *engine) start(granted pebble.CompactionGrantHandle) {
	e.wants--
	e.begun++
	if e.run != nil {
		e.under.Go(func() { e.run(granted) })
	}
}

func (e *engine) GetAllowedWithoutPermission() int { return int(e.allowed.Load()) }

func (e *engine) waits() bool {
	if e.gone {
		e.tb.Error("a store is called after it has left")
	}
	e.refused = e.refused && e.wants > 0
	return e.refused
}

func (e *engine) GetWaitingCompaction() (bool, pebble.WaitingCompaction) {
	if e.asked != nil {
		e.asked()
	}
	e.lock.Lock()
	defer e.lock.Unlock()
	return e.waits(), e.first
}

func (e *engine) Schedule(granted pebble.CompactionGrantHandle) bool {
	runtime.Gosched() // somebody may close it now
	e.lock.Lock()
	defer e.lock.Unlock()
	if !e.waits() {
		return false
	}
	e.start(granted)
	return true
}

// leave closes it.
func (e *engine) leave() {
	e.Unregister()
	e.lock.Lock()
	defer e.lock.Unlock()
	e.gone = true
}

func one() int { return 1 }

func TestCompactionsOfAllStoresStayBelowOneLimitAndNoneIsForgotten(t *testing.T) {
	const limit, stores, each = 2, 5, 400
	a := newCompactions(func() int { return limit })
	var running atomic.Int32
	var wg sync.WaitGroup
	engines := make([]*engine, stores)
	for i := range engines {
		e := newEngine(t, a)
		e.run = func(granted pebble.CompactionGrantHandle) {
			if n := running.Add(1); n > limit {
				t.Errorf("%d compactions run, more than %d", n, limit)
			}
			runtime.Gosched()
			running.Add(-1)
			granted.Done()
			e.want(0)
			wg.Done()
		}
		engines[i] = e
		wg.Add(each)
	}
	for _, e := range engines {
		go func() {
			for range each {
				e.want(1)
				e.lock.Lock()
				e.UpdateGetAllowedWithoutPermission()
				e.lock.Unlock()
			}
		}()
	}
	wg.Wait() // for ever, if one is forgotten
	if a.running != 0 {
		t.Errorf("%d places are taken, and nothing runs", a.running)
	}
}

func TestAStoreThatWaitsIsPreferredByUrgencyButNotPassedOverForEver(t *testing.T) {
	a := newCompactions(one)
	hot, cold, idle := newEngine(t, a), newEngine(t, a), newEngine(t, a)
	hot.first = pebble.WaitingCompaction{Priority: 100, Score: 50}
	cold.first = pebble.WaitingCompaction{Priority: 100, Score: 2}
	idle.first = pebble.WaitingCompaction{Optional: true, Priority: 200, Score: 90}
	const rounds = 100
	for _, e := range []*engine{hot, cold, idle} {
		e.want(rounds)
	}
	hot.Done() // the first one began at once
	if hot.begun != 2 {
		t.Errorf("the most urgent one has begun %d, want 2", hot.begun)
	}
	last := map[*engine]int{}
	for i := 2; i < rounds; i++ {
		for _, e := range []*engine{hot, cold, idle} {
			if e.compactor.running == 0 {
				continue
			}
			last[e] = i
			e.Done()
			break
		}
		for _, e := range []*engine{hot, cold, idle} {
			if i-last[e] > 2*(patience+2) {
				t.Fatalf("after %d compactions: hot has begun %d, cold %d, idle %d", i, hot.begun, cold.begun, idle.begun)
			}
		}
	}
	if hot.begun <= cold.begun || cold.begun < idle.begun {
		t.Errorf("hot has begun %d, cold %d, idle %d: want the most urgent most often", hot.begun, cold.begun, idle.begun)
	}
}

func TestAStoreThatIsRefusedWhileAPlaceIsGivenAwayGetsItIfNobodyElseDoes(t *testing.T) {
	a := newCompactions(one)
	busy, content, late := newEngine(t, a), newEngine(t, a), newEngine(t, a)
	busy.want(1)
	content.want(1)
	content.wants = 0 // something else has done it
	content.asked = func() { late.want(1) }
	if busy.Done(); late.begun != 1 {
		t.Errorf("nothing runs, and a store waits")
	}
}

func TestAStoreThatIsBehindDoesNotWaitForOthers(t *testing.T) {
	a := newCompactions(one)
	busy, late := newEngine(t, a), newEngine(t, a)
	busy.want(1)
	late.want(2)
	if late.begun != 0 {
		t.Fatal("two run, one is allowed")
	}
	began := make(chan struct{}, 2)
	late.run = func(pebble.CompactionGrantHandle) { began <- struct{}{} }
	late.allowed.Store(2)
	late.lock.Lock()
	late.UpdateGetAllowedWithoutPermission() // as Pebble does after a flush
	late.lock.Unlock()
	<-began
	if late.want(1); late.begun != 1 {
		t.Errorf("it has begun %d, want one beyond the limit", late.begun)
	}
}

func TestAClosedOrDeadStoreTakesNoPlace(t *testing.T) {
	a := newCompactions(one)
	closing, other := newEngine(t, a), newEngine(t, a)
	dead := &engine{compactor: a.join(func() bool { return true }), tb: t}
	dead.Register(2, dead)
	dead.begin()
	closing.want(2)
	dead.want(1)
	other.want(1)
	closing.leave() // with one under way, and one that waits
	if other.begun != 0 {
		t.Error("a place is free while a compaction of a closed store runs")
	}
	closing.Done()
	if other.begun != 1 || closing.begun != 1 || dead.begun != 0 {
		t.Errorf("the others have begun %d, the closed store %d, the dead one %d: want 1, 1, 0", other.begun, closing.begun, dead.begun)
	}
}

// Before it is open a store has no compactions, and then those that it asked for.
func TestAStoreCompactsWhenItIsOpen(t *testing.T) {
	a := newCompactions(one)
	e := &engine{compactor: a.join(func() bool { return false }), tb: t}
	e.allowed.Store(2)
	e.Register(2, e)
	e.want(1)
	if e.begun != 0 {
		t.Error("a store that is being opened compacts")
	}
	if e.begin(); e.begun != 1 {
		t.Error("a store that is open does not compact")
	}
}

func TestStoresComeAndGoWhileOthersCompact(t *testing.T) {
	a := newCompactions(one)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				e := newEngine(t, a)
				e.run = func(granted pebble.CompactionGrantHandle) {
					granted.Done()
					e.want(0)
				}
				e.want(3)
				runtime.Gosched()
				e.leave()
				wg.Go(e.under.Wait)
			}
		})
	}
	wg.Wait()
	e := newEngine(t, a)
	if e.want(1); e.begun != 1 {
		t.Errorf("all have left, and %d places are taken", a.running)
	}
}

// TestStoresWithOneLimitKeepUp is with Pebble itself. One of the stores dies.
func TestStoresWithOneLimitKeepUp(t *testing.T) {
	a := newCompactions(one)
	f := &faulty{match: func(op errorfs.Op) bool { return isTable(op) && isWrite(op) }, err: errDisk}
	disks := []vfs.FS{vfs.NewMem(), vfs.NewMem(), errorfs.Wrap(vfs.NewMem(), f)}
	open := func(d vfs.FS) *Store {
		o := tiny(d)
		o.Compactions = a
		return mustOpen(t, o)
	}
	var wg sync.WaitGroup
	for i, d := range disks {
		wg.Go(func() {
			rng, m := rand.New(rand.NewPCG(uint64(i), 1)), model{}
			s := open(d)
			for n := range 1000 {
				w := write{fmt.Appendf(nil, "k%04d", rng.IntN(500)), make([]byte, 500+n%100)}
				if err := commit(s, w); err != nil {
					break // the disk that fails
				}
				m.apply(w)
				if n == 500 {
					f.on.Store(true)
				}
			}
			if d == disks[2] {
				if s.Close() == nil {
					t.Error("a dead store closes without a word")
				}
				return
			}
			for s.Metrics().Level0Sublevels > 4 { // for ever, if nobody compacts
				runtime.Gosched()
			}
			if s.Metrics().Compactions == 0 {
				t.Error("nothing was compacted")
			}
			mustClose(t, s)
			s = open(d)
			if err := m.compare(s, nil, nil, false); err != nil {
				t.Error(err)
			}
			mustClose(t, s)
		})
	}
	wg.Wait()
	if len(a.members) > 0 {
		t.Errorf("%d stores are closed and still there", len(a.members))
	}
}
