// Package node runs the stores and groups of one process.
//
// A [Node] opens stores, runs groups on them, knows the map and the keyspaces, and owns the
// goroutines of their housekeeping. It finds the group of a position, drives the jobs that
// change which one that is, leads transactions across stores, and shows several stores as of one
// moment. Everything else is done by the packages below it. DESIGN.md has the files, the
// catalog, how a keyspace is made and dropped, and how jobs, transactions and snapshots hold.
//
// The limit: the catalog stays with the first group, and the number of stores is
// decided when the directory is made.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/shard/admission"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/partition"
)

// Node is a running node. Its methods may be called by any goroutine.
type Node struct {
	opts       Options
	storeHosts []*StoreHost
	// groupHosts are the groups by their ids; nil where there is none.
	groupHosts atomic.Pointer[[]*GroupHost]
	published  partition.Published
	// mapChanged rings when there is a newer map.
	mapChanged notifier
	// retiring are groups that the map does not have any more, until they are closed.
	// Invariant: jobs.mu is held, or no job is driven.
	retiring []*GroupHost
	jobs     jobRegistry
	keyspaceCatalog
	committed notifier
	handovers handovers
	pins      pinTable
	events    eventLog
	// eventListeners is how many want the events of keys.
	eventListeners atomic.Int32
	// Counters counts what transactions do.
	Counters Counters
	loads    shardLoads
	// writeLimits are what writers are held up by.
	writeLimits *admission.WriteLimits
	caps        capTable
	heat        *nodeHeat // nil if it is off

	// ctx ends when the node is closed.
	ctx       context.Context
	stop      context.CancelFunc
	taskGroup sync.WaitGroup
	// tasksMu is held while done is added to, or ctx is ended.
	tasksMu sync.Mutex
}

// Open opens what is in the directory, or makes it.
func Open(opts Options) (*Node, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	dirs, ids, err := loadStoreDirs(&opts)
	if err != nil {
		return nil, err
	}
	n := &Node{opts: opts, events: newEventLog(opts.Log), loads: newShardLoads()}
	n.groupHosts.Store(new([]*GroupHost))
	n.writeLimits = n.newWriteLimits()
	if !opts.HeatOff {
		if n.heat, err = newNodeHeat(n.WallMS()); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.ctx, n.stop = ctx, cancel
	if err := n.openAll(ctx, dirs, ids); err != nil {
		return nil, errors.Join(err, n.Close(context.Background()))
	}
	n.loadHeatMap()
	for _, p := range n.GroupHosts() {
		n.startHousekeeping(p)
	}
	if n.opts.HousekeepInterval > 0 {
		n.runBackground(n.housekeepDropped)
		n.runBackground(n.sampleLoads)
	}
	if n.opts.Log != nil {
		n.runBackground(n.watchStores)
	}
	if err := n.resumeJobs(ctx); err != nil {
		return nil, errors.Join(err, n.Close(context.Background()))
	}
	return n, nil
}

// openAll opens the stores, and their groups. If it is not known which stores there are the
// catalog, which is in the first, reports whether all the others were made.
func (n *Node) openAll(ctx context.Context, dirs []string, ids []store.ID) error {
	for i, dir := range dirs {
		if err := n.openStore(i, dir); err != nil {
			return err
		}
		if i > 0 || ids != nil {
			continue
		}
		if err := n.checkStoresMade(dirs); err != nil {
			return err
		}
	}
	if err := n.checkStoreIDs(dirs, ids); err != nil {
		return err
	}
	if err := n.checkPeerLogs(dirs); err != nil {
		return err
	}
	if err := n.openGroups(ctx); err != nil {
		return err
	}
	if err := n.resumePlacing(ctx); err != nil {
		return err
	}
	if err := n.separateCatalog(ctx); err != nil {
		return err
	}
	if err := n.loadKeyspaces(ctx); err != nil {
		return err
	}
	if err := n.loadCaps(ctx); err != nil {
		return err
	}
	return n.recoverTransactions(ctx)
}

// GroupHosts returns the groups, store by store.
func (n *Node) GroupHosts() (parts []*GroupHost) {
	for _, h := range n.storeHosts {
		parts = append(parts, h.GroupHosts()...)
	}
	return parts
}

// WallMS is the time of the machine's clock, in Unix milliseconds.
func (n *Node) WallMS() int64 { return n.opts.Wall() }

// Close ends everything and waits for it. What was acknowledged stays. If ctx
// ends first, commands that still run are not waited for.
func (n *Node) Close(ctx context.Context) error {
	n.tasksMu.Lock()
	n.stop()
	n.tasksMu.Unlock()
	n.taskGroup.Wait()
	n.saveHeatMap()
	var errs []error
	for _, p := range append(n.GroupHosts(), n.retiring...) {
		errs = append(errs, p.Group.Close(ctx))
	}
	for _, h := range n.storeHosts {
		errs = append(errs, h.Store.Close())
	}
	n.committed.notify() // callers that wait for a commit find the stores closed
	n.events.close()
	return errors.Join(errs...)
}

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
	// Groups is how many groups execute commands in a new directory. One that has
	// groups keeps them. Default one for each store. At least as many as there are
	// stores, at most 1024.
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
	// waitForClock is set if Wall goes on by itself: see [group.Options].
	waitForClock bool
	// HousekeepInterval is how often a group does its housekeeping, and how often the node looks
	// for dropped keyspaces to clear. Default 100 milliseconds: about how long an expired key
	// may take space. Negative means never by itself, for tests that do the housekeeping
	// themselves.
	HousekeepInterval time.Duration
	// HeatOff leaves out which keys and ranges are hot: see [Node.Heat].
	HeatOff bool
	// Log gets what an operator should know. Default none.
	Log *slog.Logger
	// OnJob, if set, is called with each record of a job, before that goes on: for
	// tests that crash or cancel it there.
	OnJob func(mover.Job)
}

const (
	maxStores = 64
	maxGroups = 1024
)

// ErrOptions means that an option is out of its range, or does not go with what
// is in the directory: the text has what to use.
var ErrOptions = errors.New("node: bad options")

// OptionError is an option that does not go with what is in the directory. It matches
// ErrOptions.
type OptionError struct {
	Option      string
	Value, Have int
	Found       string // what there is, as a sentence
}

// Error names what there is and what to use.
func (e *OptionError) Error() string {
	return fmt.Sprintf("%v: %s: open it with %s 0 or %d", ErrOptions, e.Found, e.Option, e.Have)
}

// Is makes it match ErrOptions.
func (e *OptionError) Is(target error) bool { return target == ErrOptions }

func (o Options) withDefaults() (Options, error) {
	if o.HousekeepInterval == 0 {
		o.HousekeepInterval = 100 * time.Millisecond
	}
	if o.Wall == nil {
		o.Wall = func() int64 { return time.Now().UnixMilli() }
		o.waitForClock = true
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

// NextCommit returns a channel that is closed when something is committed after
// the call.
func (n *Node) NextCommit() <-chan struct{} { return n.committed.subscribe() }

// KeyspaceByID returns the keyspace of an id, nil if there is none or if it is
// the system's own.
func (n *Node) KeyspaceByID(id partition.KeyspaceID) *Keyspace {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.byID[id]
}

// RecordEvents makes all groups record the events of keys, see [command.Env.RecordEvents],
// from their next batches on, until each caller has called its stop.
func (n *Node) RecordEvents() (stop func()) {
	n.eventListeners.Add(1)
	return func() { n.eventListeners.Add(-1) }
}

// RecordsEvents reports whether groups record the events of keys.
func (n *Node) RecordsEvents() bool { return n.eventListeners.Load() > 0 }
