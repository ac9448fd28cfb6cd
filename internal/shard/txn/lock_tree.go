package txn

import (
	"bytes"

	"github.com/zeebo/xxh3"

	"github.com/cleavekv/cleave/partition"
)

// lockTree orders locks by where they start, and knows for each of its branches how
// far the locks in it reach: so it finds one that overlaps in a logarithmic
// number of steps. It is a treap: the priorities are hashes of the locks, which
// makes its shape that of a random tree, and the same in every process.
type lockTree struct{ root *treeNode }

type treeNode struct {
	lock        *Lock
	priority    uint64
	left, right *treeNode
	// Of this node and all below, the lock that reaches farthest, and the one
	// for writing that does, nil if there is none.
	farthest, farthestWrite *Lock
}

// compareLocks orders locks. Those of one transaction never compare equal.
func compareLocks(a, b *Lock) int {
	if c := bytes.Compare(a.Start, b.Start); c != 0 {
		return c
	}
	if a.Range != b.Range {
		if a.Range {
			return 1
		}
		return -1
	}
	return bytes.Compare(a.Txn[:], b.Txn[:])
}

// findFartherLock returns the lock that reaches farther. The end of a key is behind it,
// that of a range before.
func findFartherLock(a, b *Lock) *Lock {
	switch {
	case a == nil:
		return b
	case b == nil || a.Range && len(a.End) == 0:
		return a
	case b.Range && len(b.End) == 0:
		return b
	}
	switch c := bytes.Compare(a.lastPosition(), b.lastPosition()); {
	case c > 0, c == 0 && !a.Range:
		return a
	}
	return b
}

// lastPosition is where the lock ends: with it, if it is about a key, before it, if it
// is about a range.
func (l *Lock) lastPosition() partition.Position {
	if l.Range {
		return l.End
	}
	return l.Start
}

// reachesTo reports whether some of the lock is at p or behind it.
func (l *Lock) reachesTo(p partition.Position) bool {
	switch {
	case l == nil:
		return false
	case !l.Range:
		return bytes.Compare(l.Start, p) >= 0
	}
	return len(l.End) == 0 || bytes.Compare(l.End, p) > 0
}

func (n *treeNode) updateReach() {
	n.farthest, n.farthestWrite = n.lock, nil
	if n.lock.Write {
		n.farthestWrite = n.lock
	}
	for _, child := range [2]*treeNode{n.left, n.right} {
		if child != nil {
			n.farthest, n.farthestWrite = findFartherLock(n.farthest, child.farthest), findFartherLock(n.farthestWrite, child.farthestWrite)
		}
	}
}

func (t *lockTree) insert(lock *Lock) {
	n := &treeNode{lock: lock, priority: xxh3.HashSeed(lock.Start, xxh3.Hash(lock.Txn[:]))}
	n.updateReach()
	t.root = insertNode(t.root, n)
}

// insertNode puts a node where its priority belongs. Above that nothing changes but how
// far branches reach.
func insertNode(n, x *treeNode) *treeNode {
	if n == nil || x.priority > n.priority {
		x.left, x.right = splitNodes(n, x.lock)
		x.updateReach()
		return x
	}
	n.farthest, n.farthestWrite = findFartherLock(n.farthest, x.farthest), findFartherLock(n.farthestWrite, x.farthestWrite)
	if compareLocks(x.lock, n.lock) < 0 {
		n.left = insertNode(n.left, x)
	} else {
		n.right = insertNode(n.right, x)
	}
	return n
}

func (t *lockTree) remove(lock *Lock) { t.root = removeNode(t.root, lock) }

// get returns the lock that compares equal, or nil.
func (t *lockTree) get(lock *Lock) *Lock {
	for n := t.root; n != nil; {
		switch c := compareLocks(lock, n.lock); {
		case c < 0:
			n = n.left
		case c > 0:
			n = n.right
		default:
			return n.lock
		}
	}
	return nil
}

// splitNodes returns the locks before lock, and the others.
func splitNodes(n *treeNode, lock *Lock) (left, right *treeNode) {
	if n == nil {
		return nil, nil
	}
	if compareLocks(n.lock, lock) < 0 {
		n.right, right = splitNodes(n.right, lock)
		left = n
	} else {
		left, n.left = splitNodes(n.left, lock)
		right = n
	}
	n.updateReach()
	return left, right
}

// mergeNodes puts two trees together, all of a before all of b.
func mergeNodes(a, b *treeNode) *treeNode {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.priority > b.priority:
		a.right = mergeNodes(a.right, b)
		a.updateReach()
		return a
	}
	b.left = mergeNodes(a, b.left)
	b.updateReach()
	return b
}

// removeNode removes a lock. Only branches that reach as far as they do because of it are
// checked again.
func removeNode(n *treeNode, lock *Lock) *treeNode {
	if n == nil {
		return nil
	}
	switch c := compareLocks(lock, n.lock); {
	case c < 0:
		n.left = removeNode(n.left, lock)
	case c > 0:
		n.right = removeNode(n.right, lock)
	default:
		return mergeNodes(n.left, n.right)
	}
	if n.farthest == lock || n.farthestWrite == lock {
		n.updateReach()
	}
	return n
}

// conflictQuery asks for a lock that overlaps.
type conflictQuery struct {
	exceptTxn    ID // whose locks do not count
	start, end   partition.Position
	pointOnly    bool // start alone
	includeReads bool // not only locks for writing
}

// isPast reports whether p is behind all that is asked for.
func (q *conflictQuery) isPast(p partition.Position) bool {
	if q.pointOnly {
		return bytes.Compare(p, q.start) > 0
	}
	return len(q.end) > 0 && bytes.Compare(p, q.end) >= 0
}

func (t *lockTree) find(q conflictQuery) *Lock { return q.findIn(t.root) }

// findIn passes over branches that do not reach the start. In any other there is
// an overlap, or all of it is behind: so it goes wrong at most once a level,
// but for locks of the asker's own.
func (q *conflictQuery) findIn(n *treeNode) *Lock {
	for n != nil {
		far := n.farthestWrite
		if q.includeReads {
			far = n.farthest
		}
		if !far.reachesTo(q.start) {
			return nil
		}
		if lock := q.findIn(n.left); lock != nil {
			return lock
		}
		if q.isPast(n.lock.Start) {
			return nil
		}
		if (q.includeReads || n.lock.Write) && n.lock.Txn != q.exceptTxn && n.lock.reachesTo(q.start) {
			return n.lock
		}
		n = n.right
	}
	return nil
}

// visitAt visits the locks on a key.
func (t *lockTree) visitAt(p partition.Position, visit func(*Lock)) {
	var down func(*treeNode)
	q := conflictQuery{start: p, pointOnly: true}
	down = func(n *treeNode) {
		if n == nil || !n.farthest.reachesTo(p) {
			return
		}
		down(n.left)
		if q.isPast(n.lock.Start) {
			return
		}
		if n.lock.reachesTo(p) {
			visit(n.lock)
		}
		down(n.right)
	}
	down(t.root)
}

// visitSpan visits the locks that start in a span, in their order. An empty end is the
// end of the space.
func (t *lockTree) visitSpan(start, end partition.Position, visit func(*Lock)) {
	var down func(*treeNode)
	down = func(n *treeNode) {
		if n == nil {
			return
		}
		from := bytes.Compare(n.lock.Start, start) >= 0
		to := len(end) == 0 || bytes.Compare(n.lock.Start, end) < 0
		if from {
			down(n.left)
		}
		if from && to {
			visit(n.lock)
		}
		if to {
			down(n.right)
		}
	}
	down(t.root)
}
