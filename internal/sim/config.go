package sim

import "strings"

// Fault is a kind of thing that goes wrong.
type Fault uint

// The faults. A run has a set of them.
const (
	// Dropped messages never come.
	Dropped Fault = 1 << iota
	// Late ones come when nobody waits for them any more, behind later ones.
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
	// Jobs tells whether shards are split, merged and moved all the time.
	Jobs bool
	// Events ends the faults and the load after that many events; 0 is no limit.
	Events int
	// Contended worlds have transactions, on few keys, that take their time.
	Contended bool
	// Sagas makes clients work on sagas, and on nothing else.
	Sagas bool
	// Passing worlds have drivers that do not store what they need not, see
	// mover.Passing.
	Passing bool
	// Load is what clients do: "" is all that is plain, and else it is a pattern on
	// the store, "counter", "queue" or "rounds".
	Load string
	// Aim is a fault that is to happen in a phase.
	Aim Cell
}

// thought is how long transactions take at most, at each step: where jobs are to overtake them, long.
func (c *Config) thought() int64 {
	switch {
	case c.Load == "rounds":
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
	// Tries is the most that a transaction took.
	Tries int
	// Counts says what happened, and Cells which fault in which phase.
	Counts map[string]int
	Cells  map[Cell]int
}
