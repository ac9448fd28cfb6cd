package partition

import (
	"math/bits"
	"slices"
)

// dirMin is how many words a node has at least if it has a directory: below,
// the search takes as few steps without.
const dirMin = 16

// makeIndex makes find work.
func (t *tiling) makeIndex() {
	if t.count() > 1 {
		t.root = t.newNode(0, t.count()-1, 0)
	}
}

// newNode makes the node of boundaries that agree in their first depth bytes.
func (t *tiling) newNode(from, to, depth int) *node {
	// They are sorted: what the outermost share, all share.
	n := &node{from: from, to: to, prefix: sharedPrefix(t.start(from + 1)[depth:], t.start(to)[depth:])}
	depth += len(n.prefix)
	n.words = make([]uint64, 0, to-from)
	w := word(t.start(from + 1)[depth:])
	for i, end := from, from+1; i < to; i, end = end, end+1 {
		var next uint64
		for ; end < to; end++ {
			if next = word(t.start(end + 1)[depth:]); next != w {
				break
			}
		}
		n.add(w, i)
		if end-i > 1 {
			n.share(t.newNode(i, end, depth+wordBytes))
		}
		w = next
	}
	if n.first != nil {
		n.first = append(n.first, uint32(to)) // where the words end
	}
	if len(n.words) < cap(n.words)/2 {
		n.words = slices.Clone(n.words) // most boundaries share a word
	}
	n.direct()
	return n
}

// add appends a word that begins with a boundary.
func (n *node) add(w uint64, boundary int) {
	n.words = append(n.words, w)
	if n.first != nil {
		n.first, n.below = append(n.first, uint32(boundary)), append(n.below, 0)
	}
}

// share says that the boundaries of the last word are the node below. From the
// first such word on, where a word begins does not follow from its place.
func (n *node) share(below *node) {
	if n.first == nil {
		n.first, n.below = make([]uint32, len(n.words)), make([]uint32, len(n.words))
		for i := range n.first {
			n.first[i] = uint32(n.from + i)
		}
	}
	n.nodes = append(n.nodes, below)
	n.below[len(n.below)-1] = uint32(len(n.nodes))
}

// direct makes the directory, of one to two entries for each word.
func (n *node) direct() {
	if len(n.words) < dirMin {
		return
	}
	n.low = n.words[0]
	reach := n.words[len(n.words)-1] - n.low
	n.shift = uint8(max(0, bits.Len64(reach)-bits.Len(uint(len(n.words)))))
	n.dir = make([]uint32, reach>>n.shift+2)
	entry := uint64(0)
	for i, w := range n.words {
		// All entries up to the one of w have the words before w below them.
		for j := (w - n.low) >> n.shift; entry <= j; entry++ {
			n.dir[entry] = uint32(i)
		}
	}
	n.dir[entry] = uint32(len(n.words))
}

// sharedPrefix returns the bytes that a and b begin with.
func sharedPrefix(a, b []byte) []byte {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return a[:n]
}
