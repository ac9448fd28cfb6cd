package node

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/partition"
)

// Node is a running node. Its methods may be called by any goroutine.
type Node struct {
	opts  Options
	parts []*Part
	spaces
	feeds bell
	// copying is held by backups. Whoever removes what one may still have to copy
	// holds it alone.
	copying sync.RWMutex

	stop context.CancelFunc
	done sync.WaitGroup
}

// Part is a store with its group.
type Part struct {
	Store *store.Store
	Group *group.Group
	log   *groupLog
}

// Open opens what is in the directory, or makes it.
func Open(opts Options) (*Node, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	dirs, err := storeDirs(&opts)
	if err != nil {
		return nil, err
	}
	n := &Node{opts: opts}
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	if err := n.open(ctx, dirs); err != nil {
		return nil, errors.Join(err, n.Close(context.Background()))
	}
	if opts.TendEvery > 0 {
		for i, p := range n.parts {
			n.done.Go(func() { n.tend(ctx, p, i == 0) })
		}
	}
	return n, nil
}

// open opens the parts, and the catalog as soon as it is there: it tells whether
// all the others were made.
func (n *Node) open(ctx context.Context, dirs []string) error {
	for i, dir := range dirs {
		if err := n.openPart(i, dir); err != nil {
			return err
		}
		if i > 0 {
			continue
		}
		if err := n.checkDirs(ctx, dirs); err != nil {
			return err
		}
	}
	return n.loadSpaces(ctx)
}

func (n *Node) openPart(i int, dir string) error {
	so := n.opts.Store
	so.Dir, so.Durability = dir, n.opts.Durability
	switch {
	case n.opts.FS != nil:
		so.FS = n.opts.FS(i)
	case n.opts.Dir == "":
		so.FS = store.Memory()
	}
	s, err := store.Open(so)
	if err != nil {
		return err
	}
	log := &groupLog{store: s, group: uint64(i), committed: &n.feeds}
	log.returned.Store(uint64(s.Position()))
	g, err := group.Open(log, s, group.Options{
		ID: partition.GroupID(i), Alone: true, Wall: n.opts.Wall, Queue: n.opts.Queue, Refuse: n.opts.Refuse, Remember: n.opts.Remember,
	})
	if err != nil {
		return errors.Join(fmt.Errorf("open %s: %w", dir, err), s.Close())
	}
	n.parts = append(n.parts, &Part{Store: s, Group: g, log: log})
	return nil
}

// Snapshot returns the state of the part at one moment, and the time then. Close
// it.
func (p *Part) Snapshot(ctx context.Context) (snap *store.Snapshot, nowMS int64, err error) {
	nowMS, err = p.Group.Moment(ctx, func() (err error) {
		snap, err = p.Store.Snapshot()
		return err
	}, func() {
		snap.Close()
	})
	return snap, nowMS, err
}

// WallMS is what the machine's clock says, in Unix milliseconds.
func (n *Node) WallMS() int64 { return n.opts.Wall() }

// Parts returns the stores with their groups, in order of positions for a hash
// keyspace.
func (n *Node) Parts() []*Part { return n.parts }

// PartOf returns the part that holds the key of a keyspace at a position.
func (n *Node) PartOf(k *partition.Keyspace, p partition.Position) *Part {
	return n.parts[n.partIndex(k, p)]
}

// partIndex spreads the slots of a hash keyspace evenly, in order, and gives
// each range keyspace to one part.
func (n *Node) partIndex(k *partition.Keyspace, p partition.Position) int {
	if len(n.parts) == 1 {
		return 0
	}
	if k.Kind == partition.Range {
		return int(k.ID) % len(n.parts)
	}
	return k.SlotAt(p) * len(n.parts) / k.SlotCount()
}

// PartsOf returns the parts that hold a keyspace, in order of its positions.
func (n *Node) PartsOf(k *partition.Keyspace) []*Part {
	if k.Kind == partition.Range {
		i := n.partIndex(k, nil)
		return n.parts[i : i+1]
	}
	return n.parts
}

// Close ends everything and waits for it. What was acknowledged stays. If ctx
// ends first, commands that still run are not waited for.
func (n *Node) Close(ctx context.Context) error {
	n.stop()
	n.done.Wait()
	var errs []error
	for _, p := range n.parts {
		errs = append(errs, p.Group.Close(ctx))
	}
	for _, p := range n.parts {
		errs = append(errs, p.Store.Close())
	}
	n.feeds.ring() // whoever waits for a commit finds the stores closed
	return errors.Join(errs...)
}
