package memruns

import "slices"

// DrainedOps is the newest operation of each key, in the order of keys.
type DrainedOps []packedOp

// At returns an operation.
func (d DrainedOps) At(i int) Op { return d[i].toOp() }

// SizeBytes returns how long all keys and values are.
func (d DrainedOps) SizeBytes() (n int) {
	for i := range d {
		n += int(d[i].keyLen&maxKeyBytes) + int(d[i].valueLen)
	}
	return n
}

// Prefetch reads from each key and each value, so that what follows waits for none of them:
// the memory of many is waited for at once. It returns what it read, or a compiler might
// leave it out.
//
//go:noinline
func (d DrainedOps) Prefetch() (read byte) {
	for i := range d {
		if key := d[i].keyBytes(); len(key) > 0 {
			read ^= key[0]
		}
		if value := d[i].valueBytes(); len(value) > 0 {
			read ^= value[len(value)-1]
		}
	}
	return read
}

// DrainBatchOps is after how many operations Drain calls between, and as many as are worth to be
// touched together: the processor waits for no more than some of them at a time anyway.
const DrainBatchOps = 64

// Drain returns all visible operations of sets, which follow each other in time, in the
// order of their keys, of each key the newest. It goes on from what Views have put in
// order, and leaves the Sets as they are. It calls between now and then, if that is not nil.
func Drain(between func(), sets ...*Set) DrainedOps {
	heads, most := newDrainHeads(sets)
	out := make(DrainedOps, 0, most)
	var next [DrainBatchOps]*packedOp
	for len(heads) > 0 {
		if between != nil {
			between()
		}
		n := 0
		for ; n < len(next) && len(heads) > 0; n++ {
			next[n], heads = popNewest(heads)
		}
		// Their memory is waited for at once.
		for _, o := range next[:n] {
			out = append(out, *o)
		}
	}
	return out
}

// popNewest takes the newest operation of the first key off heads, and returns those that are left.
func popNewest(heads []drainHead) (*packedOp, []drainHead) {
	least, same := 0, uint64(1) // and which others have the same key
	for i := 1; i < len(heads); i++ {
		switch order := heads[i].compare(&heads[least]); {
		case order < 0:
			least, same = i, 1<<i
		case order == 0:
			least = i // the newer one
			same |= 1 << i
		}
	}
	first := heads[least].log.opAt(heads[least].run[0].op)
	ended := false
	for i := range heads {
		if same>>i&1 != 0 {
			heads[i].run = heads[i].run[1:]
			ended = ended || len(heads[i].run) == 0
		}
	}
	if ended {
		heads = slices.DeleteFunc(heads, func(h drainHead) bool { return len(h.run) == 0 })
	}
	return first, heads
}

// drainHead is what is left of a Set that is drained: one run, which is not empty.
type drainHead struct {
	log   opLog
	run   run
	depth int // at which all words were taken, of all heads
}

// newDrainHeads puts sets in order, and returns how many operations there are at most.
func newDrainHeads(sets []*Set) (heads []drainHead, most int) {
	depth := 0
	for _, s := range sets {
		v := s.View()
		if len(v.runs) == 0 {
			continue
		}
		h := drainHead{v.log, mergeAll(v.log, v.runs, v.depth), v.depth}
		if len(heads) == 0 {
			depth = h.depth
		}
		first := func(h drainHead) []byte { return h.log.opAt(0).keyBytes()[:h.depth] }
		heads = append(heads, h)
		depth = sharedPrefix(first(heads[0]), first(h), depth)
		most += len(h.run)
	}
	for i := range heads {
		if h := &heads[i]; h.depth != depth {
			h.run, h.depth = h.run.withDepth(h.log, depth), depth
		}
	}
	return heads, most
}

// compare orders two heads by the keys that they stand on.
func (h *drainHead) compare(with *drainHead) int {
	a, b := &h.run[0], &with.run[0]
	if a.keyWords != b.keyWords || a.hasKeyEnd() {
		return a.compare(b.keyWords)
	}
	return compareTails(h.log, a, with.log, b, h.depth)
}
