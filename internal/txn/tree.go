package txn

import (
	"bytes"

	"github.com/zeebo/xxh3"

	"github.com/cleavekv/cleave/partition"
)

// tree orders locks by where they start, and knows for each of its branches how
// far the locks in it reach: so it finds one that overlaps in a logarithmic
// number of steps. It is a treap: the priorities are hashes of the locks, which
// makes its shape that of a random tree, and the same in every process.
type tree struct{ root *node }

type node struct {
	lock        *Lock
	priority    uint64
	left, right *node
	// Of this node and all below, the lock that reaches farthest, and the one
	// for writing that does, nil if there is none.
	far, farWrite *Lock
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

// farther returns the lock that reaches farther. The end of a key is behind it,
// that of a range before.
func farther(a, b *Lock) *Lock {
	switch {
	case a == nil:
		return b
	case b == nil || a.Range && len(a.End) == 0:
		return a
	case b.Range && len(b.End) == 0:
		return b
	}
	switch c := bytes.Compare(a.last(), b.last()); {
	case c > 0, c == 0 && !a.Range:
		return a
	}
	return b
}

// last is where the lock ends: with it, if it is about a key, before it, if it
// is about a range.
func (l *Lock) last() partition.Position {
	if l.Range {
		return l.End
	}
	return l.Start
}

// reaches tells whether some of the lock is at p or behind it.
func (l *Lock) reaches(p partition.Position) bool {
	switch {
	case l == nil:
		return false
	case !l.Range:
		return bytes.Compare(l.Start, p) >= 0
	}
	return len(l.End) == 0 || bytes.Compare(l.End, p) > 0
}

func (n *node) update() {
	n.far, n.farWrite = n.lock, nil
	if n.lock.Write {
		n.farWrite = n.lock
	}
	for _, child := range [2]*node{n.left, n.right} {
		if child != nil {
			n.far, n.farWrite = farther(n.far, child.far), farther(n.farWrite, child.farWrite)
		}
	}
}

func (t *tree) insert(lock *Lock) {
	n := &node{lock: lock, priority: xxh3.HashSeed(lock.Start, xxh3.Hash(lock.Txn[:]))}
	n.update()
	t.root = insert(t.root, n)
}

// insert puts a node where its priority belongs. Above that nothing changes but how
// far branches reach.
func insert(n, x *node) *node {
	if n == nil || x.priority > n.priority {
		x.left, x.right = split(n, x.lock)
		x.update()
		return x
	}
	n.far, n.farWrite = farther(n.far, x.far), farther(n.farWrite, x.farWrite)
	if compareLocks(x.lock, n.lock) < 0 {
		n.left = insert(n.left, x)
	} else {
		n.right = insert(n.right, x)
	}
	return n
}

func (t *tree) remove(lock *Lock) { t.root = cut(t.root, lock) }

// get returns the lock that compares equal, or nil.
func (t *tree) get(lock *Lock) *Lock {
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

// split returns the locks before lock, and the others.
func split(n *node, lock *Lock) (left, right *node) {
	if n == nil {
		return nil, nil
	}
	if compareLocks(n.lock, lock) < 0 {
		n.right, right = split(n.right, lock)
		left = n
	} else {
		left, n.left = split(n.left, lock)
		right = n
	}
	n.update()
	return left, right
}

// join puts two trees together, all of a before all of b.
func join(a, b *node) *node {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.priority > b.priority:
		a.right = join(a.right, b)
		a.update()
		return a
	}
	b.left = join(a, b.left)
	b.update()
	return b
}

// cut removes a lock. Only branches that reach as far as they do because of it are
// looked at again.
func cut(n *node, lock *Lock) *node {
	if n == nil {
		return nil
	}
	switch c := compareLocks(lock, n.lock); {
	case c < 0:
		n.left = cut(n.left, lock)
	case c > 0:
		n.right = cut(n.right, lock)
	default:
		return join(n.left, n.right)
	}
	if n.far == lock || n.farWrite == lock {
		n.update()
	}
	return n
}

// query asks for a lock that overlaps.
type query struct {
	id         ID // whose locks do not count
	start, end partition.Position
	key        bool // start alone
	all        bool // not only locks for writing
}

// behind tells whether p is behind all that is asked for.
func (q *query) behind(p partition.Position) bool {
	if q.key {
		return bytes.Compare(p, q.start) > 0
	}
	return len(q.end) > 0 && bytes.Compare(p, q.end) >= 0
}

func (t *tree) find(q query) *Lock { return q.find(t.root) }

// find passes over branches that do not reach the start. In any other there is
// an overlap, or all of it is behind: so it goes wrong at most once a level,
// but for locks of the asker's own.
func (q *query) find(n *node) *Lock {
	for n != nil {
		far := n.farWrite
		if q.all {
			far = n.far
		}
		if !far.reaches(q.start) {
			return nil
		}
		if lock := q.find(n.left); lock != nil {
			return lock
		}
		if q.behind(n.lock.Start) {
			return nil
		}
		if (q.all || n.lock.Write) && n.lock.Txn != q.id && n.lock.reaches(q.start) {
			return n.lock
		}
		n = n.right
	}
	return nil
}

// each visits the locks on a key.
func (t *tree) each(p partition.Position, visit func(*Lock)) {
	var down func(*node)
	q := query{start: p, key: true}
	down = func(n *node) {
		if n == nil || !n.far.reaches(p) {
			return
		}
		down(n.left)
		if q.behind(n.lock.Start) {
			return
		}
		if n.lock.reaches(p) {
			visit(n.lock)
		}
		down(n.right)
	}
	down(t.root)
}

// walk visits the locks that start in a span, in their order. An empty end is the
// end of the space.
func (t *tree) walk(start, end partition.Position, visit func(*Lock)) {
	var down func(*node)
	down = func(n *node) {
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
