package watch

import (
	"bytes"
	"math/rand/v2"
)

// intervals finds the ranges that a key is in, however many there are: a treap in the
// order of starts, in which every node knows the farthest end below it.
type intervals struct {
	root *interval
	rng  *rand.PCG // for the shape alone
}

// interval is a range of a watcher, and a node of the tree.
type interval struct {
	start, end  []byte // end is nil if there is none
	w           *Watcher
	left, right *interval
	weight      uint64
	far         []byte // the farthest end from here down, nil for none
}

func newIntervals() *intervals { return &intervals{rng: rand.NewPCG(1, 2)} }

// less orders the nodes: by start, and those of one start by the watcher's number.
func (a *interval) less(b *interval) bool {
	if c := bytes.Compare(a.start, b.start); c != 0 {
		return c < 0
	}
	return a.w.number < b.w.number
}

// refresh sets what the node knows of those below it.
func (a *interval) refresh() *interval {
	a.far = a.end
	for _, child := range [...]*interval{a.left, a.right} {
		if child != nil && a.far != nil && (child.far == nil || bytes.Compare(child.far, a.far) > 0) {
			a.far = child.far
		}
	}
	return a
}

func (t *intervals) add(w *Watcher) {
	n := &interval{start: w.target.Start, end: w.target.End, w: w, weight: t.rng.Uint64()}
	left, right := cut(t.root, n)
	t.root = join(join(left, n.refresh()), right)
}

func (t *intervals) remove(w *Watcher) {
	n := &interval{start: w.target.Start, w: w}
	left, rest := cut(t.root, n)
	t.root = join(left, withoutFirst(rest))
}

// cut divides a tree into what is before a node and the rest.
func cut(at, n *interval) (left, right *interval) {
	if at == nil {
		return nil, nil
	}
	if at.less(n) {
		at.right, right = cut(at.right, n)
		return at.refresh(), right
	}
	left, at.left = cut(at.left, n)
	return left, at.refresh()
}

// join makes one tree of two, of which the first comes before the second.
func join(a, b *interval) *interval {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.weight > b.weight:
		a.right = join(a.right, b)
		return a.refresh()
	}
	b.left = join(a, b.left)
	return b.refresh()
}

func withoutFirst(at *interval) *interval {
	if at.left == nil {
		return at.right
	}
	at.left = withoutFirst(at.left)
	return at.refresh()
}

// visit calls f with the watchers of all ranges that have a key.
func (t *intervals) visit(key []byte, f func(*Watcher)) { t.root.visit(key, f) }

func (a *interval) visit(key []byte, f func(*Watcher)) {
	if a == nil || a.far != nil && bytes.Compare(key, a.far) >= 0 {
		return // all below end before it
	}
	a.left.visit(key, f)
	if bytes.Compare(key, a.start) < 0 {
		return // and all to the right begin behind it
	}
	if a.end == nil || bytes.Compare(key, a.end) < 0 {
		f(a.w)
	}
	a.right.visit(key, f)
}

// each calls f with the watchers of all ranges.
func (t *intervals) each(f func(*Watcher)) { t.root.each(f) }

func (a *interval) each(f func(*Watcher)) {
	if a != nil {
		a.left.each(f)
		f(a.w)
		a.right.each(f)
	}
}
