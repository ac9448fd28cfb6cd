// Package watch answers one question: how is a program notified that something has
// changed, without asking again and again?
//
//	hub := watch.New(db)
//	w, err := hub.Watch(watch.Target{Keyspace: ks, Prefix: []byte("price/")}, watch.Options{})
//	if err != nil { … }
//	defer w.Close()
//	for e, err := range w.Events(ctx) { … }
//
// # Promises
//
//   - What is committed after [Hub.Watch] has returned is reported: each change with
//     Options.Every, otherwise at least the newest state of every key that has changed.
//   - Events of one key arrive in the order in which they happened, wherever the
//     key is moved meanwhile.
//   - A slow watcher holds up neither the store nor other watchers.
//     What waits for it is bounded. Beyond that it has to read again ([Lost]), or
//     with Options.Every goes on from the log by itself.
//   - Each event has the place to go on from: a watcher that comes back
//     with that [cleave.Cursor] misses nothing. It may receive again what it has received.
//   - [Hub.Follow] yields what there is and then what changes, with no gap between. What
//     it has yielded is, at any time, what the keys it has yielded were at one moment,
//     or are on the way to.
//   - [Hub.Until] waits for a key to meet a condition, and misses nothing in between.
//
// # Choices
//
// A hub has one reader of the feed for all of its watchers, which runs while there are
// any: one hub is enough for a DB. Finding the watchers of a key takes a look into a map and
// one into a tree of ranges. [Poll] is for sources that have no feed.
//
// # Limits
//
// An event is about one key or field. Those of one transaction come one after the other,
// and of its parts in different stores in any order: to see it whole read it in a View.
//
// A key that expires is reported as deleted when the store deletes it, not when its time has
// come. Housekeeping looks every 100 ms, and deletes all that is due; a transaction that
// holds the key keeps it until it ends. Item.Expires is the time.
//
// Dropping a keyspace ends its watchers with [cleave.ErrNoKeyspace]. A Cursor does
// not distinguish a keyspace from a later one of the same name: after a drop begin anew.
package watch

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/cleavekv/cleave"
)

// feedSource is what a hub needs of a store.
type feedSource interface {
	Head() cleave.Cursor
	Feed(ctx context.Context, o cleave.FeedOptions) iter.Seq2[cleave.Change, error]
}

// Hub reads the feed of a store for all its watchers. Its methods may be called by any
// goroutine. It needs no closing: it reads while there are watchers.
type Hub struct {
	db   *cleave.DB
	feed feedSource

	mu           sync.Mutex
	watchers     watcherIndex
	watcherCount int
	lastNumber   uint64             // the number of the next watcher
	cancelReader context.CancelFunc // ends the reader, nil if there is none
	readerEpoch  uint64             // of the reader: one that was stopped may not have noticed
	// deliveredTo is behind all that watchers were sent. It is set after they were, and a
	// reader of it looks at it first and at what it was sent second.
	deliveredTo atomic.Pointer[cleave.Cursor]
}

// New returns a hub for a store. One is enough for all of its watchers.
func New(db *cleave.DB) *Hub { return &Hub{db: db, feed: db, watchers: watcherIndex{}} }

// register adds a watcher.
func (h *Hub) register(w *Watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cancelReader == nil {
		now := h.feed.Head()
		h.deliveredTo.Store(&now)
		h.readerEpoch++
		ctx, stop := context.WithCancel(context.Background())
		h.cancelReader = stop
		go h.runReader(ctx, h.readerEpoch, now)
	}
	h.lastNumber++
	w.number = h.lastNumber
	h.watchers.add(w)
	h.watcherCount++
	w.joinHub(h)
}

func (h *Hub) unregister(w *Watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers.remove(w)
	if h.watcherCount--; h.watcherCount == 0 && h.cancelReader != nil {
		h.cancelReader()
		h.cancelReader = nil
	}
}

// runReader sends watchers what the feed has, until ctx ends or there is no more.
func (h *Hub) runReader(ctx context.Context, life uint64, from cleave.Cursor) {
	for {
		err := h.readFeed(ctx, life, from)
		if !errors.Is(err, cleave.ErrGone) || ctx.Err() != nil { // there are no watchers, or another goroutine reads
			return
		}
		// The log was written faster than it was read, and is gone: all have lost
		// something. It begins anew at the end.
		h.mu.Lock()
		if h.readerEpoch == life && h.cancelReader != nil {
			from = h.feed.Head()
			h.visitWatchers(func(w *Watcher) { w.markLost(*h.deliveredTo.Load()) })
			h.deliveredTo.Store(&from)
		}
		h.mu.Unlock()
	}
}

func (h *Hub) readFeed(ctx context.Context, life uint64, from cleave.Cursor) error {
	for change, err := range h.feed.Feed(ctx, cleave.FeedOptions{From: from, Progress: true}) {
		switch {
		case errors.Is(err, cleave.ErrGone):
			return err
		case err != nil:
			h.failReader(life, err)
			return err
		case !h.deliverChange(life, &change):
			return nil
		}
	}
	return nil
}

// deliverChange tells watchers of a change, and whether the reader is to go on.
func (h *Hub) deliverChange(life uint64, c *cleave.Change) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.readerEpoch != life || h.cancelReader == nil {
		return false
	}
	before := *h.deliveredTo.Load()
	for i := range c.Ops {
		op := &c.Ops[i]
		h.watchers.visitMatches(op, func(w *Watcher) { w.offerChange(c, op, before) })
	}
	h.deliveredTo.Store(&c.After)
	return true
}

// failReader ends the reader and all watchers.
func (h *Hub) failReader(life uint64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.readerEpoch != life || h.cancelReader == nil {
		return
	}
	h.cancelReader()
	h.cancelReader = nil
	h.visitWatchers(func(w *Watcher) { w.markEnded(err, *h.deliveredTo.Load()) })
}

// visitWatchers calls f with every watcher. Those of several keys may come several times.
func (h *Hub) visitWatchers(f func(*Watcher)) {
	for _, s := range h.watchers {
		for _, set := range s.keys {
			for w := range set {
				f(w)
			}
		}
		s.ranges.visitAll(f)
	}
}

// Until waits until a key is as wanted, and returns it as it was then. It asks wanted
// with the key as it is now, and again after each change: some of those that follow each
// other closely may be passed over, the last one never is. found reports whether there is
// such a key. A hash has no Value and no Version here: look at its fields in wanted.
func (h *Hub) Until(ctx context.Context, ks *cleave.Keyspace, key []byte, wanted func(item cleave.Item, found bool) bool) (item cleave.Item, found bool, err error) {
	w, err := h.Watch(Target{Keyspace: ks, Keys: [][]byte{key}}, Options{KeysOnly: true})
	if err != nil {
		return item, false, err
	}
	defer w.Close()
	// An event means that there is something to look at. Its content may be older than
	// what was read before, so the key is read again.
	for {
		if item, found, err = lookupKey(ctx, ks, key); err != nil || wanted(item, found) {
			return item, found, err
		}
		if _, err := w.Next(ctx); err != nil {
			return cleave.Item{}, false, err
		}
	}
}

// lookupKey returns a key, and whether it is there.
func lookupKey(ctx context.Context, ks *cleave.Keyspace, key []byte) (item cleave.Item, found bool, err error) {
	item, err = ks.Item(ctx, key)
	return toLookupResult(key, item, err)
}

// lookupKeyInTxn is look in a transaction.
func lookupKeyInTxn(tx *cleave.Txn, ks *cleave.Keyspace, key []byte) (item cleave.Item, found bool, err error) {
	item, err = tx.Item(ks, key)
	return toLookupResult(key, item, err)
}

// toLookupResult reports whether there is a key from what was read of it. A hash has no Value.
func toLookupResult(key []byte, item cleave.Item, err error) (cleave.Item, bool, error) {
	switch {
	case errors.Is(err, cleave.ErrNotFound):
		return cleave.Item{}, false, nil
	case errors.Is(err, cleave.ErrWrongType):
		return cleave.Item{Key: bytes.Clone(key)}, true, nil
	}
	return item, err == nil, err
}

// watcherIndex finds the watchers of a key.
type watcherIndex map[string]*keyspaceIndex // by the name of the keyspace

type keyspaceIndex struct {
	keys     map[string]map[*Watcher]struct{}
	ranges   *intervalTree
	watchers int
}

func (x watcherIndex) add(w *Watcher) {
	name := w.target.Keyspace.Name()
	s := x[name]
	if s == nil {
		s = &keyspaceIndex{keys: map[string]map[*Watcher]struct{}{}, ranges: newIntervalTree()}
		x[name] = s
	}
	s.watchers++
	if w.target.Keys == nil {
		s.ranges.add(w)
		return
	}
	for _, key := range w.target.Keys {
		set := s.keys[string(key)]
		if set == nil {
			set = map[*Watcher]struct{}{}
			s.keys[string(key)] = set
		}
		set[w] = struct{}{}
	}
}

func (x watcherIndex) remove(w *Watcher) {
	name := w.target.Keyspace.Name()
	s := x[name]
	if s.watchers--; s.watchers == 0 {
		delete(x, name)
		return
	}
	if w.target.Keys == nil {
		s.ranges.remove(w)
		return
	}
	for _, key := range w.target.Keys {
		set := s.keys[string(key)]
		if delete(set, w); len(set) == 0 {
			delete(s.keys, string(key))
		}
	}
}

// visitMatches calls f with all watchers of the key of a change.
func (x watcherIndex) visitMatches(op *cleave.ChangeOp, f func(*Watcher)) {
	s := x[op.Keyspace]
	if s == nil {
		return
	}
	for w := range s.keys[string(op.Key)] {
		f(w)
	}
	s.ranges.visitContaining(op.Key, f)
}

// intervalTree finds the ranges that a key is in, however many there are: a treap in the
// order of starts, in which every node knows the farthest end below it.
type intervalTree struct {
	root *intervalNode
	rng  *rand.PCG // for the shape alone
}

// intervalNode is a range of a watcher, and a node of the tree.
type intervalNode struct {
	start, end  []byte // end is nil if there is none
	watcher     *Watcher
	left, right *intervalNode
	weight      uint64
	maxEnd      []byte // the farthest end from here down, nil for none
}

func newIntervalTree() *intervalTree { return &intervalTree{rng: rand.NewPCG(1, 2)} }

// less orders the nodes: by start, and those of one start by the watcher's number.
func (a *intervalNode) less(b *intervalNode) bool {
	if c := bytes.Compare(a.start, b.start); c != 0 {
		return c < 0
	}
	return a.watcher.number < b.watcher.number
}

// updateMaxEnd sets what the node knows of those below it.
func (a *intervalNode) updateMaxEnd() *intervalNode {
	a.maxEnd = a.end
	for _, child := range [...]*intervalNode{a.left, a.right} {
		if child != nil && a.maxEnd != nil && (child.maxEnd == nil || bytes.Compare(child.maxEnd, a.maxEnd) > 0) {
			a.maxEnd = child.maxEnd
		}
	}
	return a
}

func (t *intervalTree) add(w *Watcher) {
	n := &intervalNode{start: w.target.Start, end: w.target.End, watcher: w, weight: t.rng.Uint64()}
	left, right := splitTree(t.root, n)
	t.root = mergeTrees(mergeTrees(left, n.updateMaxEnd()), right)
}

func (t *intervalTree) remove(w *Watcher) {
	n := &intervalNode{start: w.target.Start, watcher: w}
	left, rest := splitTree(t.root, n)
	t.root = mergeTrees(left, removeFirst(rest))
}

// splitTree divides a tree into what is before a node and the rest.
func splitTree(at, n *intervalNode) (left, right *intervalNode) {
	if at == nil {
		return nil, nil
	}
	if at.less(n) {
		at.right, right = splitTree(at.right, n)
		return at.updateMaxEnd(), right
	}
	left, at.left = splitTree(at.left, n)
	return left, at.updateMaxEnd()
}

// mergeTrees makes one tree of two, of which the first comes before the second.
func mergeTrees(a, b *intervalNode) *intervalNode {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.weight > b.weight:
		a.right = mergeTrees(a.right, b)
		return a.updateMaxEnd()
	}
	b.left = mergeTrees(a, b.left)
	return b.updateMaxEnd()
}

func removeFirst(at *intervalNode) *intervalNode {
	if at.left == nil {
		return at.right
	}
	at.left = removeFirst(at.left)
	return at.updateMaxEnd()
}

// visitContaining calls f with the watchers of all ranges that have a key.
func (t *intervalTree) visitContaining(key []byte, f func(*Watcher)) { t.root.visitContaining(key, f) }

func (a *intervalNode) visitContaining(key []byte, f func(*Watcher)) {
	if a == nil || a.maxEnd != nil && bytes.Compare(key, a.maxEnd) >= 0 {
		return // all below end before it
	}
	a.left.visitContaining(key, f)
	if bytes.Compare(key, a.start) < 0 {
		return // and all to the right begin behind it
	}
	if a.end == nil || bytes.Compare(key, a.end) < 0 {
		f(a.watcher)
	}
	a.right.visitContaining(key, f)
}

// visitAll calls f with the watchers of all ranges.
func (t *intervalTree) visitAll(f func(*Watcher)) { t.root.visitAll(f) }

func (a *intervalNode) visitAll(f func(*Watcher)) {
	if a != nil {
		a.left.visitAll(f)
		f(a.watcher)
		a.right.visitAll(f)
	}
}
