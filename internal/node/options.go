package node

import (
	"errors"
	"fmt"
	"time"

	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/wal"
)

// Options configure a node. The zero value works, in memory.
type Options struct {
	// Dir is where the stores are. Empty means in memory, gone with the process.
	Dir string
	// FS, if set, returns the file system of each store, and Dir is where it
	// keeps its files there. For simulations and tests.
	FS func(store int) store.FS
	// Stores is how many stores there are, each with a log of its own. Default 1
	// for a new directory, else what the directory has. At most 64.
	Stores int
	// Groups is how many groups execute commands. Default one for each store in
	// a new directory, else what the directory has. At least as many as there
	// are stores, at most 1024.
	Groups int
	// Store has the options of each store. Dir and FS are set from here.
	Store store.Options
	// Durability is when a write counts as done. Default wal.Always.
	Durability wal.Durability
	// Queue bounds the commands that wait for each group. 0 means the default.
	Queue int
	// Refuse makes a full queue refuse instead of block.
	Refuse bool
	// Remember is for how long request ids are known. 0 means the default.
	Remember time.Duration
	// Wall is the machine's clock in Unix milliseconds. Default time.Now.
	Wall func() int64
	// TendEvery is how often a group does its housekeeping, and how often the node
	// looks for dropped keyspaces to clear. Default 100 milliseconds: how long an
	// expired key may take room, about. Negative means never by itself, for tests
	// that call Tend.
	TendEvery time.Duration
	// OnJob, if set, is called with each record of a job, before that goes on: for
	// tests that crash or cancel it there.
	OnJob func(mover.Job)
}

const (
	maxStores = 64
	maxGroups = 1024
)

// ErrOptions means that an option is out of its range, or does not go with what
// is in the directory: the text says what to use.
var ErrOptions = errors.New("node: bad options")

// OptionError is an option that does not go with what is in the directory. It matches
// ErrOptions.
type OptionError struct {
	Option      string
	Value, Have int
	Found       string // what there is, as a sentence
}

// Error says what there is and what to use.
func (e *OptionError) Error() string {
	return fmt.Sprintf("%v: %s: open it with %s 0 or %d", ErrOptions, e.Found, e.Option, e.Have)
}

// Is makes it match ErrOptions.
func (e *OptionError) Is(target error) bool { return target == ErrOptions }

func (o Options) withDefaults() (Options, error) {
	if o.TendEvery == 0 {
		o.TendEvery = 100 * time.Millisecond
	}
	if o.Wall == nil {
		o.Wall = func() int64 { return time.Now().UnixMilli() }
	}
	var errs []error
	if o.Stores < 0 || o.Stores > maxStores {
		errs = append(errs, fmt.Errorf("%w: Stores is %d: use 1 to %d, or 0 for the default", ErrOptions, o.Stores, maxStores))
	}
	if o.Groups != 0 && (o.Groups < max(o.Stores, 1) || o.Groups > maxGroups) {
		errs = append(errs, fmt.Errorf("%w: Groups is %d: use %d to %d, or 0 for the default", ErrOptions, o.Groups, max(o.Stores, 1), maxGroups))
	}
	return o, errors.Join(errs...)
}
