package store

import (
	"cmp"
	"runtime"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cleavekv/cleave/internal/plant"
)

// Compactions is one limit on how many compactions run at a time, for several stores
// of a process. A compaction keeps a processor busy, and often a second one, so two
// stores that compact as they like leave those who write nothing on a small machine.
//
// A store that is behind does not wait for others: it may always have one compaction.
// Flushes and deletions of whole tables are not counted and never wait.
type Compactions struct {
	limit func() int

	mu sync.Mutex
	// called is signalled when a call of somebody's Pebble has ended.
	called sync.Cond
	// running is how many compactions run, and one more while a place is being given
	// away.
	running int
	members []*compactor
	// granting tells that somebody gives places away, and again that they should look
	// once more before they stop.
	granting, again bool
	// calling is whose Pebble is being called, without mu.
	calling *compactor
}

// NewCompactions returns a limit of half of the processors, but one at least.
func NewCompactions() *Compactions {
	return newCompactions(func() int { return max(1, runtime.GOMAXPROCS(0)/2) })
}

func newCompactions(limit func() int) *Compactions {
	a := &Compactions{limit: limit}
	a.called.L = &a.mu
	return a
}

// patience is how often others with a more urgent compaction are preferred to a store
// that waits, at most.
const patience = 3

// compactor is what a store has to do with the limit. Pebble calls it as its scheduler,
// and each compaction as what it was granted.
//
// Locks: Pebble calls it with its own lock held, so mu comes after that, and nobody who
// holds mu calls Pebble, but for the one method that takes no lock.
type compactor struct {
	all  *Compactions
	dead func() bool

	// The rest is under all.mu.
	db      pebble.DBForCompaction // nil until Pebble has registered
	open    bool                   // between begin and Unregister
	running int
	// waiting tells that Pebble was refused, and has not said since that it wants
	// nothing. Then it does not ask again by itself.
	waiting bool
	passed  int // how often others were preferred since it waits
}

// join returns what a store that is being opened has to do with the limit. A store
// that is dead would try the same compaction for ever, so it is given none.
func (a *Compactions) join(dead func() bool) *compactor {
	return &compactor{all: a, dead: dead}
}

// begin lets a store compact. Before it is open it must not: if Open fails, Pebble
// takes the files from under what is running.
func (c *compactor) begin() {
	a := c.all
	a.mu.Lock()
	c.open = true
	a.members = append(a.members, c)
	a.mu.Unlock()
	a.grant()
}

// Register implements [pebble.CompactionScheduler].
func (c *compactor) Register(_ int, db pebble.DBForCompaction) {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	c.db = db
}

// Unregister implements [pebble.CompactionScheduler]: after it Pebble is not called any
// more. Compactions that run give back their places when they end.
func (c *compactor) Unregister() {
	a := c.all
	a.mu.Lock()
	defer a.mu.Unlock()
	c.open = false
	a.members = slices.DeleteFunc(a.members, func(m *compactor) bool { return m == c })
	for a.calling == c && !plant.Bug("store-compaction-after-close") {
		a.called.Wait()
	}
}

// TrySchedule implements [pebble.CompactionScheduler].
func (c *compactor) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	a := c.all
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.may(c) {
		c.running++
		a.running++
		return true, c
	}
	c.waiting = true
	// Somebody may be giving the last place to whom he finds, and finds nobody.
	a.again = !plant.Bug("store-compaction-forgotten")
	return false, nil
}

// UpdateGetAllowedWithoutPermission implements [pebble.CompactionScheduler]: a flush
// has ended, after which the store may be behind. Pebble holds its lock.
func (c *compactor) UpdateGetAllowedWithoutPermission() {
	a := c.all
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.waiting && a.may(c) {
		go a.grant()
	}
}

// may tells whether a store may begin a compaction now.
func (a *Compactions) may(c *compactor) bool {
	if !c.open || c.dead() {
		return false
	}
	limit, wants := a.limit(), c.db.GetAllowedWithoutPermission()
	behind := wants > 1
	return behind && c.running == 0 || a.running < limit && c.running < min(wants, limit)
}

// Started implements [pebble.CompactionGrantHandle].
func (c *compactor) Started() {}

// MeasureCPU implements [pebble.CompactionGrantHandle].
func (c *compactor) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats implements [pebble.CompactionGrantHandle].
func (c *compactor) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// Done implements [pebble.CompactionGrantHandle]: a compaction has ended, maybe after
// its store was closed.
func (c *compactor) Done() {
	a := c.all
	a.mu.Lock()
	if c.open || !plant.Bug("store-closed-keeps-its-place") {
		c.running--
		a.running--
	}
	a.mu.Unlock()
	a.grant()
}

// grant gives places to those who wait. One goroutine does it at a time; others leave
// word and need not wait for it.
func (a *Compactions) grant() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.again = true
	if a.granting {
		return
	}
	a.granting = true
	for a.again {
		a.again = false
		for a.grantOne() {
		}
	}
	a.granting = false
}

// candidate is a store that waits, with the compaction that it would begin.
type candidate struct {
	*compactor
	pebble.WaitingCompaction
}

// grantOne gives a place to the most urgent of those who wait. It is taken meanwhile,
// so that nobody else gets it.
func (a *Compactions) grantOne() bool {
	var ask []*compactor
	for _, c := range a.members {
		if c.waiting && a.may(c) {
			ask = append(ask, c)
		}
	}
	if len(ask) == 0 {
		return false
	}
	a.running++
	var all []candidate
	for _, c := range ask {
		if w, ok := a.wanted(c); ok {
			all = append(all, candidate{c, w})
		}
	}
	slices.SortStableFunc(all, urgentFirst)
	for i, x := range all {
		if a.begun(x.compactor) {
			x.passed = 0
			for _, y := range all[i+1:] {
				y.passed++
			}
			return true
		}
	}
	a.running--
	return false
}

// urgentFirst is the order of Pebble, but for those who were passed over too often.
func urgentFirst(x, y candidate) int {
	order := func(x candidate) (late, needed int) {
		if x.passed >= patience {
			late = x.passed
		}
		if !x.Optional {
			needed = 1
		}
		return late, needed
	}
	xLate, xNeeded := order(x)
	yLate, yNeeded := order(y)
	return cmp.Or(
		cmp.Compare(yLate, xLate), cmp.Compare(yNeeded, xNeeded),
		cmp.Compare(y.Priority, x.Priority), cmp.Compare(y.Score, x.Score))
}

// wanted asks a store which compaction it would begin.
func (a *Compactions) wanted(c *compactor) (w pebble.WaitingCompaction, ok bool) {
	c.waiting = false // unless it is refused again from now on
	a.call(c, func() { ok, w = c.db.GetWaitingCompaction() })
	c.waiting = c.waiting || ok
	return w, ok
}

// begun gives a place to a store, and tells whether it has a use for it.
func (a *Compactions) begun(c *compactor) (ok bool) {
	c.waiting = false
	c.running++ // it may end at once
	a.call(c, func() { ok = c.db.Schedule(c) })
	if !ok {
		c.running--
	}
	c.waiting = c.waiting || ok // there may be more
	return ok
}

// call calls the Pebble of a store without mu, unless the store is closed.
func (a *Compactions) call(c *compactor, f func()) {
	if !c.open {
		return
	}
	a.calling = c
	a.mu.Unlock()
	f()
	a.mu.Lock()
	a.calling = nil
	a.called.Broadcast()
}
