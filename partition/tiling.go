package partition

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

// tiling is where shards start, and how to find the one of a position. Maps that
// cut the space alike share it.
//
// Invariant: the first start is empty and starts grow. A shard ends where the
// next one starts, so a gap or an overlap cannot be written down.
type tiling struct {
	// bytes are all starts, one behind the other, and ends says where each of
	// them ends, after a 0. Together with nodes that have no pointers in their
	// arrays, ten thousand shards are a handful of objects to the collector, and
	// an edit copies memory in long runs.
	bytes []byte
	ends  []uint32
	root  *indexNode // see find; nil for one shard
}

// newTiling returns the tiling without boundaries.
func newTiling() *tiling { return &tiling{ends: []uint32{0, 0}} }

// shardCount returns how many shards there are.
func (t *tiling) shardCount() int { return len(t.ends) - 1 }

// startOf returns where shard i starts.
func (t *tiling) startOf(i int) Position {
	return t.bytes[t.ends[i]:t.ends[i+1]:t.ends[i+1]]
}

// spanOf returns the positions of shard i.
func (t *tiling) spanOf(i int) Span {
	s := Span{Start: t.startOf(i)}
	if i+1 < t.shardCount() {
		s.End = t.startOf(i + 1)
	}
	return s
}

// withStarts returns a tiling in which the starts of shards i up to j are others. It
// has no index yet.
func (t *tiling) withStarts(i, j int, starts ...Position) *tiling {
	added := 0
	for _, p := range starts {
		added += len(p)
	}
	from, to := t.ends[i], t.ends[j]
	made := &tiling{
		bytes: make([]byte, 0, len(t.bytes)-int(to-from)+added),
		ends:  make([]uint32, 0, len(t.ends)-(j-i)+len(starts)),
	}
	made.bytes = append(made.bytes, t.bytes[:from]...)
	made.ends = append(made.ends, t.ends[:i+1]...)
	for _, p := range starts {
		made.addStart(p)
	}
	made.bytes = append(made.bytes, t.bytes[to:]...)
	shift := uint32(len(made.bytes) - len(t.bytes)) // modulo 2^32, like the sum below
	for _, end := range t.ends[j+1:] {
		made.ends = append(made.ends, end+shift)
	}
	return made
}

// addStart appends the start of one more shard.
func (t *tiling) addStart(start Position) {
	t.bytes = append(t.bytes, start...)
	t.ends = append(t.ends, uint32(len(t.bytes)))
}

// checkTiling reports whether the shards are too many, or do not tile the space.
func (t *tiling) checkTiling() error {
	if err := t.checkBounds(); err != nil {
		return err
	}
	if t.shardCount() < 1 || len(t.startOf(0)) > 0 {
		return fmt.Errorf("the first of %d shards does not start with the space", t.shardCount())
	}
	for i := 1; i < t.shardCount(); i++ {
		if bytes.Compare(t.startOf(i-1), t.startOf(i)) >= 0 {
			return fmt.Errorf("a shard starts at %s, the one behind it at %s", formatPosition(t.startOf(i-1)), formatPosition(t.startOf(i)))
		}
	}
	return nil
}

// checkBounds reports whether the shards are too many.
func (t *tiling) checkBounds() error {
	switch {
	case t.shardCount() > MaxShards:
		return fmt.Errorf("%w: %d shards, at most %d", ErrLimit, t.shardCount(), MaxShards)
	case len(t.bytes) > MaxBoundariesBytes:
		return fmt.Errorf("%w: %d bytes of boundaries, at most %d", ErrLimit, len(t.bytes), MaxBoundariesBytes)
	}
	return nil
}

// indexNode finds the shard of a position among many.
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
type indexNode struct {
	prefix   []byte
	from, to int
	words    []uint64 // strictly growing
	// firsts is the boundary that each word begins with; nil if each word has
	// one boundary, so that word i begins with from+i.
	firsts []uint32
	// below is the place in nodes, from 1, of each word that several boundaries
	// share, and 0 for the others; nil like first.
	below []uint32
	nodes []*indexNode
	// directory cuts the search short: dir[j] words are less than low + j<<shift.
	// Evenly spread boundaries, as those of slots are, need one step or two
	// from there, others a binary search in a part of the words.
	directory []uint32
	low       uint64
	shift     uint8
}

const (
	wordBytes = 7
	// wordMore marks a word that does not hold all that is left.
	wordMore = wordBytes + 1
)

// firstWord returns the first word of p.
func firstWord(p []byte) uint64 {
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
		w := firstWord(rest)
		i := n.countLess(w)
		at := n.firstBoundary(i)
		if i == len(n.words) || n.words[i] != w {
			return at
		}
		if w&0xff != wordMore {
			return at + 1 // p is the boundary itself
		}
		rest = rest[wordBytes:]
		if n.below == nil || n.below[i] == 0 {
			start := t.startOf(at + 1)
			if bytes.Compare(rest, start[len(p)-len(rest):]) >= 0 {
				at++
			}
			return at
		}
		n = n.nodes[n.below[i]-1]
	}
	return 0
}

// firstBoundary returns the boundary that word i begins with.
func (n *indexNode) firstBoundary(i int) int {
	if n.firsts == nil {
		return n.from + i
	}
	return int(n.firsts[i])
}

// countLess returns how many words are less than w. It does not branch on what it
// reads: random positions would have every second branch predicted wrong.
func (n *indexNode) countLess(w uint64) int {
	base, size := 0, len(n.words)
	if n.directory != nil {
		if w <= n.low {
			return 0
		}
		j := (w - n.low) >> n.shift
		if j >= uint64(len(n.directory)-1) {
			return size
		}
		base = int(n.directory[j])
		size = int(n.directory[j+1]) - base
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

// minDirectoryWords is how many words a node has at least if it has a directory: below,
// the search takes as few steps without.
const minDirectoryWords = 16

// makeIndex makes find work.
func (t *tiling) makeIndex() {
	if t.shardCount() > 1 {
		t.root = t.newNode(0, t.shardCount()-1, 0)
	}
}

// newNode makes the node of boundaries that agree in their first depth bytes.
func (t *tiling) newNode(from, to, depth int) *indexNode {
	// They are sorted: what the outermost share, all share.
	n := &indexNode{from: from, to: to, prefix: sharedPrefix(t.startOf(from + 1)[depth:], t.startOf(to)[depth:])}
	depth += len(n.prefix)
	n.words = make([]uint64, 0, to-from)
	w := firstWord(t.startOf(from + 1)[depth:])
	for i, end := from, from+1; i < to; i, end = end, end+1 {
		var next uint64
		for ; end < to; end++ {
			if next = firstWord(t.startOf(end + 1)[depth:]); next != w {
				break
			}
		}
		n.addWord(w, i)
		if end-i > 1 {
			n.addChild(t.newNode(i, end, depth+wordBytes))
		}
		w = next
	}
	if n.firsts != nil {
		n.firsts = append(n.firsts, uint32(to)) // where the words end
	}
	if len(n.words) < cap(n.words)/2 {
		n.words = slices.Clone(n.words) // most boundaries share a word
	}
	n.makeDirectory()
	return n
}

// addWord appends a word that begins with a boundary.
func (n *indexNode) addWord(w uint64, boundary int) {
	n.words = append(n.words, w)
	if n.firsts != nil {
		n.firsts, n.below = append(n.firsts, uint32(boundary)), append(n.below, 0)
	}
}

// addChild records that the boundaries of the last word are the node below. From the
// first such word on, where a word begins does not follow from its place.
func (n *indexNode) addChild(below *indexNode) {
	if n.firsts == nil {
		n.firsts, n.below = make([]uint32, len(n.words)), make([]uint32, len(n.words))
		for i := range n.firsts {
			n.firsts[i] = uint32(n.from + i)
		}
	}
	n.nodes = append(n.nodes, below)
	n.below[len(n.below)-1] = uint32(len(n.nodes))
}

// makeDirectory makes the directory, of one to two entries for each word.
func (n *indexNode) makeDirectory() {
	if len(n.words) < minDirectoryWords {
		return
	}
	n.low = n.words[0]
	reach := n.words[len(n.words)-1] - n.low
	n.shift = uint8(max(0, bits.Len64(reach)-bits.Len(uint(len(n.words)))))
	n.directory = make([]uint32, reach>>n.shift+2)
	entry := uint64(0)
	for i, w := range n.words {
		// All entries up to the one of w have the words before w below them.
		for j := (w - n.low) >> n.shift; entry <= j; entry++ {
			n.directory[entry] = uint32(i)
		}
	}
	n.directory[entry] = uint32(len(n.words))
}

// sharedPrefix returns the bytes that a and b begin with.
func sharedPrefix(a, b []byte) []byte {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return a[:n]
}

// Owner is what a router must know of a shard.
type Owner struct {
	Shard ShardID
	Group GroupID
	// Changed is as in [Shard].
	Changed Version
}

// Owner returns the owner of a position.
func (m *Map) Owner(p Position) Owner { return m.shards[m.tiling.find(p)].Owner }

// Index returns the place of the shard of a position among all shards in the order of their spans, from 0:
// for tables with an entry for each shard of one map.
func (m *Map) Index(p Position) int { return m.tiling.find(p) }

// OwnerAt returns the owner of the shard at a place: see [Map.Index].
func (m *Map) OwnerAt(i int) Owner { return m.shards[i].Owner }

// SlotOwner returns the owner of the first position of a slot of a hash keyspace,
// and whether that is the owner of the whole slot. If not, the slot is split
// inside itself, and the position of the key decides: ask [Map.Owner].
func (m *Map) SlotOwner(k KeyspaceID, slot uint16) (owner Owner, whole bool) {
	i, whole := m.tiling.findSlot(k, slot)
	return m.shards[i].Owner, whole
}

// findSlot returns the shard that holds the first position of a slot, and
// whether the next one starts behind the slot.
func (t *tiling) findSlot(k KeyspaceID, slot uint16) (i int, whole bool) {
	n := t.root
	if n == nil {
		return 0, true
	}
	// The bytes of a slot and of an id below 252 fit into a word with room to
	// spare, so the first node answers, and memory is not written.
	w, size := uint64(k)<<56|uint64(slot)<<40, 3
	switch {
	case k >= idOneByte || len(n.prefix) > 1:
		return t.findSlotBytes(k, slot)
	case len(n.prefix) == 1:
		if KeyspaceID(n.prefix[0]) != k {
			return t.findSlotBytes(k, slot)
		}
		w, size = w<<8, 2
	}
	w |= uint64(size)
	i = n.countLess(w)
	next, at := i, n.firstBoundary(i)
	if i < len(n.words) && n.words[i] == w {
		next, at = i+1, at+1 // the slot starts a shard
	}
	whole = next == len(n.words) || (n.words[next]^w)>>(64-8*size) != 0
	return at, whole
}

// findSlotBytes is findSlot for all others.
func (t *tiling) findSlotBytes(k KeyspaceID, slot uint16) (i int, whole bool) {
	var buf [8]byte
	p := binary.BigEndian.AppendUint16(k.appendTo(buf[:0]), slot)
	i = t.find(p)
	return i, i+1 == t.shardCount() || !bytes.HasPrefix(t.startOf(i+1), p)
}
