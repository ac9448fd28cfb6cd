package partition

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// node finds the shard of a position among many.
//
// Boundaries are cut into words: seven bytes, zeros behind the end, and a last
// byte that says how many of the seven are there, or that more follow. So words
// compare like the bytes that they stand for, equal words mean equal bytes, and
// a search runs over one array of numbers without touching the boundaries.
// Boundaries with the same word, such as those below a long common prefix, are
// a node of their own, one level down.
//
// A node orders the boundaries from up to to, numbered so that boundary i is the
// start of shard i+1. They agree in all bytes above the node and in prefix, and
// then differ: a node has at least two words unless it has one boundary, so
// there are no more nodes than boundaries.
type node struct {
	prefix   []byte
	from, to int
	words    []uint64 // strictly growing
	// first is the boundary that each word begins with; nil if each word has
	// one boundary, so that word i begins with from+i.
	first []uint32
	// below is the place in nodes, from 1, of each word that several boundaries
	// share, and 0 for the others; nil like first.
	below []uint32
	nodes []*node
	// dir cuts the search short: dir[j] words are less than low + j<<shift.
	// Evenly spread boundaries, as those of slots are, need one step or two
	// from there, others a binary search in a part of the words.
	dir   []uint32
	low   uint64
	shift uint8
}

const (
	wordBytes = 7
	// wordMore marks a word that does not hold all that is left.
	wordMore = wordBytes + 1
)

// word returns the first word of p.
func word(p []byte) uint64 {
	if len(p) > wordBytes {
		return binary.BigEndian.Uint64(p)&^0xff | wordMore
	}
	var b [8]byte
	copy(b[:wordBytes], p)
	return binary.BigEndian.Uint64(b[:]) | uint64(len(p))
}

// find returns the index of the shard that holds p.
func (t *tiling) find(p []byte) int {
	n, rest := t.root, p
	for n != nil {
		if len(n.prefix) > 0 {
			head := rest[:min(len(n.prefix), len(rest))]
			switch c := bytes.Compare(head, n.prefix); {
			case c < 0:
				return n.from
			case c > 0:
				return n.to
			}
			rest = rest[len(head):]
		}
		w := word(rest)
		i := n.less(w)
		at := n.begin(i)
		if i == len(n.words) || n.words[i] != w {
			return at
		}
		if w&0xff != wordMore {
			return at + 1 // p is the boundary itself
		}
		rest = rest[wordBytes:]
		if n.below == nil || n.below[i] == 0 {
			start := t.start(at + 1)
			if bytes.Compare(rest, start[len(p)-len(rest):]) >= 0 {
				at++
			}
			return at
		}
		n = n.nodes[n.below[i]-1]
	}
	return 0
}

// begin returns the boundary that word i begins with.
func (n *node) begin(i int) int {
	if n.first == nil {
		return n.from + i
	}
	return int(n.first[i])
}

// less returns how many words are less than w. It does not branch on what it
// reads: random positions would have every second branch predicted wrong.
func (n *node) less(w uint64) int {
	base, size := 0, len(n.words)
	if n.dir != nil {
		if w <= n.low {
			return 0
		}
		j := (w - n.low) >> n.shift
		if j >= uint64(len(n.dir)-1) {
			return size
		}
		base = int(n.dir[j])
		size = int(n.dir[j+1]) - base
	}
	if size == 0 {
		return base
	}
	for size > 1 {
		half := size / 2
		_, less := bits.Sub64(n.words[base+half-1], w, 0)
		base += half & -int(less)
		size -= half
	}
	_, less := bits.Sub64(n.words[base], w, 0)
	return base + int(less)
}
