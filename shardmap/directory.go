package shardmap

import "unsafe"

// directory maps the leading bits of a hash to the segment of a shard that
// holds it (extendible hashing). It is an array of segments whose element 0
// carries, in roots, how far to shift the hash; element 1+i is the segment for
// the prefix i. A directory never changes: growth publishes a new one, so
// readers need one atomic load and no lock.
type directory = unsafe.Pointer // *[1+2^depth]segment

const segmentBytes = unsafe.Sizeof(segment{})

// lookup returns the segment of hash. The hash is shifted in two steps so
// that a depth of zero, a shift by 64, needs no test.
func lookup(d directory, hash uint64) segment {
	i := hash >> 1 >> ((*segment)(d).roots & 63)
	return *(*segment)(unsafe.Add(d, segmentBytes+uintptr(i)*segmentBytes))
}

// directoryDepth returns how many bits of the hash the directory looks at.
func directoryDepth(d directory) uint { return 63 - uint((*segment)(d).roots) }

// newDirectory lays out segs, which are in order of their prefixes and cover
// all of them.
func newDirectory(segs []segment) directory {
	depth := uint(0)
	for _, s := range segs {
		depth = max(depth, s.depth())
	}
	d := make([]segment, 1, 1+1<<depth)
	d[0].roots = uint32(63 - depth)
	for _, s := range segs {
		for range 1 << (depth - s.depth()) {
			d = append(d, s)
		}
	}
	invariant(len(d) == 1+1<<depth, "segments cover the hash space once")
	return unsafe.Pointer(&d[0])
}

// segments lists the segments of the directory in order, each once.
func segments(d directory) []segment {
	depth := directoryDepth(d)
	all := unsafe.Slice((*segment)(d), 1+1<<depth)[1:]
	var segs []segment
	for i := 0; i < len(all); i += 1 << (depth - all[i].depth()) {
		segs = append(segs, all[i])
	}
	return segs
}
