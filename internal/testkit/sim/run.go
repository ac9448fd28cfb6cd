package sim

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/testkit/check"
)

// Fault is a kind of thing that goes wrong.
type Fault uint

// The faults. A run has a set of them.
const (
	// Dropped messages never come.
	Dropped Fault = 1 << iota
	// Late ones come when no client waits for them any more, behind later ones.
	Late
	// Duplicated ones come twice.
	Duplicated
	// StoreCrash takes a store, with its groups, down and loses what is not synced.
	StoreCrash
	// ProcessCrash does so with all of them, and with all that was in memory.
	ProcessCrash
	// ClockJump moves the machine's clock, forward or back.
	ClockJump
	// DiskFull lets a disk take nothing for a while but what is urgent.
	DiskFull
	// SyncFailure lets the next write to a log fail: it may be there or not, and
	// the store is dead until it is opened again.
	SyncFailure

	lastFault = SyncFailure
)

// AllFaults are all of them.
const AllFaults = lastFault<<1 - 1

var faultNames = []string{
	"dropped", "late", "duplicated", "store crash", "process crash", "clock jump", "disk full", "sync failure",
}

// String names the faults of a set.
func (f Fault) String() string {
	var names []string
	for i, name := range faultNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// Config is all that a run depends on.
type Config struct {
	Seed uint64
	// Stores is how many stores there are, Groups how many live on each.
	Stores, Groups int
	// Clients is how many clients there are, Ops how much each of them does.
	Clients, Ops int
	// Faults are those that happen.
	Faults Fault
	// Jobs reports whether shards are split, merged and moved all the time.
	Jobs bool
	// Heat makes some keys hot and lets the heat loop relieve them: "zipf" is a letter that is asked more than others, another
	// one each time, and "edge" keys that come in the order of time. "" is neither.
	Heat string
	// Events ends the faults and the load after that many events; 0 is no limit.
	Events int
	// Contended worlds have transactions, on few keys, that take their time.
	Contended bool
	// Sagas makes clients work on sagas, and on nothing else.
	Sagas bool
	// SkipRecords worlds have drivers that do not store what they need not, see
	// mover.Passing.
	SkipRecords bool
	// Workload is what clients do: "" is all that is plain, and else it is a pattern on
	// the store, "counter", "queue" or "rounds".
	Workload string
	// Aim is a fault that is to happen in a phase.
	Aim Cell
}

// maxThinkTime is how long transactions take at most, at each step: where jobs are to overtake them, long.
func (c *Config) maxThinkTime() int64 {
	switch {
	case c.Workload == "rounds":
		return 20 * millisecond
	case c.Contended:
		return 6 * millisecond
	}
	return 0
}

// Cell is a fault in a phase of a transaction or a job.
type Cell struct {
	Fault Fault
	Phase string
}

// String is the cell in reports.
func (c Cell) String() string { return c.Fault.String() + " while " + c.Phase }

// Result is what became of a run.
type Result struct {
	// Err is what was found, nil for nothing.
	Err error
	// Hash is that of all that happened: the same for the same Config.
	Hash   uint64
	Events int
	// MaxTries is the most that a transaction took.
	MaxTries int
	// Counts is what happened, and Cells which fault in which phase.
	Counts map[string]int
	Cells  map[Cell]int
}

// Run plays a world to its end and says what became of it. The same Config gives
// the same Result.
func Run(cfg Config) (r Result) {
	w := newWorld(cfg)
	w.history.counts, w.history.leases, w.history.visitorRounds = map[string][]check.Count{}, map[string]*leaseHistory{}, map[int]int{}
	w.history.queue = queueHistory{map[string]*queueMessage{}, map[string][]*queueMessage{}}
	defer func() {
		if x := recover(); x != nil {
			f, ok := x.(failure)
			if !ok {
				f.err = fmt.Errorf("panic: %v\n%s", x, debug.Stack())
			}
			r.Err = f.err
		}
		w.closeStores()
		r.Hash, r.Events, r.Counts, r.Cells, r.MaxTries = w.trace.Sum64(), w.events, w.counts, w.cells, w.maxTries
	}()
	w.setUp()
	w.checkInvariants()
	w.scheduleBackground()
	w.runUntil(1<<62, w.isLoadDone)
	w.settleFaults()
	w.checkFinalState()
	return r
}

// isLoadDone reports whether the load is over.
func (w *world) isLoadDone() bool {
	if w.cfg.Events > 0 && w.events >= w.cfg.Events {
		return true
	}
	for _, c := range w.clients {
		if c.opsLeft > 0 {
			return false
		}
	}
	return true
}

// closeStores closes what is open.
func (w *world) closeStores() {
	for _, d := range w.disks {
		if d.store != nil {
			w.countEvictions(d.store)
			_ = d.store.Close()
			d.store = nil
		}
	}
}

// Shrink makes a failing run smaller as long as it fails: fewer clients, fewer
// operations, fewer kinds of faults, no jobs, and in the end fewer events. It
// plays at most that many runs, and returns the smallest that failed.
func Shrink(cfg Config, runs int) (Config, Result) {
	best := Run(cfg)
	for smaller := true; smaller && runs > 0; {
		smaller = false
		for _, try := range smallerConfigs(cfg, best.Events) {
			if runs--; runs < 0 {
				break
			}
			if r := Run(try); r.Err != nil {
				cfg, best, smaller = try, r, true
				break
			}
		}
	}
	return cfg, best
}

// smallerConfigs are runs to try, those that leave out most first.
func smallerConfigs(c Config, events int) (list []Config) {
	add := func(change func(*Config)) {
		next := c
		change(&next)
		list = append(list, next)
	}
	if c.Clients > 1 {
		add(func(n *Config) { n.Clients /= 2 })
		add(func(n *Config) { n.Clients-- })
	}
	if c.Ops > 4 {
		add(func(n *Config) { n.Ops /= 2 })
	}
	for f := Dropped; f <= lastFault; f <<= 1 {
		if c.Faults&f != 0 && f != c.Aim.Fault {
			add(func(n *Config) { n.Faults &^= f })
		}
	}
	if c.Jobs {
		add(func(n *Config) { n.Jobs = false })
	}
	if c.Heat != "" {
		add(func(n *Config) { n.Heat = "" })
	}
	for _, part := range []int{2, 4, 8} {
		limit := c.Events
		if limit == 0 || limit > events {
			limit = events
		}
		if cut := limit - limit/part; cut > 50 && cut < limit {
			add(func(n *Config) { n.Events = cut })
		}
	}
	return list
}

// Matrix returns each fault in each phase that a transaction in two phases, a move
// between stores, a change that moves no rows, and a job that is done by others go
// through; phases whose record need not be stored with that and without. A test that has not been in all of them has shown nothing about the
// others.
func Matrix() (cells []Cell) {
	var phases []string
	for s := txn.Preparing; s < txn.Done; s++ {
		phases = append(phases, "txn "+s.String())
	}
	for p := mover.Planned; p <= mover.Forgetting; p++ {
		if p <= mover.Dismissing || p >= mover.Releasing {
			phases = append(phases, "move "+p.String())
		}
	}
	for _, p := range []mover.Phase{mover.Planned, mover.Deciding, mover.Releasing, mover.Publishing} {
		phases = append(phases, "local "+p.String())
	}
	for _, p := range []string{"move finishing", "move comparing", "move deciding", "move activating", "local deciding", "local publishing"} {
		phases = append(phases, p+notStoredSuffix)
	}
	for p := mover.Marking; p <= mover.Unmarking; p++ {
		phases = append(phases, "job "+p.String())
	}
	for _, phase := range phases {
		for f := Dropped; f <= lastFault; f <<= 1 {
			cells = append(cells, Cell{f, phase})
		}
	}
	return cells
}
