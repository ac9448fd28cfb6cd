package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/partition"
)

// Node is a running node. Its methods may be called by any goroutine.
type Node struct {
	opts  Options
	hosts []*Host
	// parts are the groups by their ids; nil where there is none.
	parts     atomic.Pointer[[]*Part]
	published partition.Published
	// remapped rings when there is a newer map.
	remapped bell
	// dismissed are groups that the map does not have any more, until they are closed.
	// Invariant: jobs.mu is held, or no job is driven.
	dismissed []*Part
	jobs      jobs
	spaces
	feeds   bell
	handing handing
	pins    pins
	// Count counts what transactions do.
	Count Counters

	// ctx ends when the node is closed.
	ctx  context.Context
	stop context.CancelFunc
	done sync.WaitGroup
	// tasks is held by whoever adds to done, or ends ctx.
	tasks sync.Mutex
}

// Open opens what is in the directory, or makes it.
func Open(opts Options) (*Node, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	dirs, ids, err := storeDirs(&opts)
	if err != nil {
		return nil, err
	}
	n := &Node{opts: opts}
	n.parts.Store(new([]*Part))
	ctx, cancel := context.WithCancel(context.Background())
	n.ctx, n.stop = ctx, cancel
	if err := n.open(ctx, dirs, ids); err != nil {
		return nil, errors.Join(err, n.Close(context.Background()))
	}
	for _, p := range n.Parts() {
		n.attend(p)
	}
	if n.opts.TendEvery > 0 {
		n.background(n.tendDropped)
	}
	if err := n.resumeJobs(ctx); err != nil {
		return nil, errors.Join(err, n.Close(context.Background()))
	}
	return n, nil
}

// open opens the stores, and their groups. If it is not known which stores there are the
// catalog, which is in the first, tells whether all the others were made.
func (n *Node) open(ctx context.Context, dirs []string, ids []store.ID) error {
	for i, dir := range dirs {
		if err := n.openHost(i, dir); err != nil {
			return err
		}
		if i > 0 || ids != nil {
			continue
		}
		if err := n.checkDirs(dirs); err != nil {
			return err
		}
	}
	if err := n.checkStores(dirs, ids); err != nil {
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
	if err := n.loadSpaces(ctx); err != nil {
		return err
	}
	return n.recover(ctx)
}

// Parts returns the groups, store by store.
func (n *Node) Parts() (parts []*Part) {
	for _, h := range n.hosts {
		parts = append(parts, h.Parts()...)
	}
	return parts
}

// WallMS is what the machine's clock says, in Unix milliseconds.
func (n *Node) WallMS() int64 { return n.opts.Wall() }

// Close ends everything and waits for it. What was acknowledged stays. If ctx
// ends first, commands that still run are not waited for.
func (n *Node) Close(ctx context.Context) error {
	n.tasks.Lock()
	n.stop()
	n.tasks.Unlock()
	n.done.Wait()
	var errs []error
	for _, p := range append(n.Parts(), n.dismissed...) {
		errs = append(errs, p.Group.Close(ctx))
	}
	for _, h := range n.hosts {
		errs = append(errs, h.Store.Close())
	}
	n.feeds.ring() // whoever waits for a commit finds the stores closed
	return errors.Join(errs...)
}
