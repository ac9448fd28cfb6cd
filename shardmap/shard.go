package shardmap

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// cacheLine is the unit of sharing between cores on the machines we care
// for; shardBytes is two of them because the adjacent-line prefetcher of
// amd64 and the 128-byte lines of some arm64 cores pull pairs.
const (
	cacheLine  = 64
	shardShift = 7
	shardBytes = 1 << shardShift
)

// shard is the unit of growth and of counting. Its first line is read by
// every operation and written only by growth; what inserts and deletes write
// is on the second, so that they do not take the first from the readers.
type shard struct {
	dir atomic.Pointer[segment] // see directory
	_   [cacheLine - unsafe.Sizeof(atomic.Pointer[segment]{})]byte

	shardState
	_ [cacheLine - unsafe.Sizeof(shardState{})%cacheLine]byte
}

// shardState is the part of a shard that writers write.
type shardState struct {
	count    atomic.Int64 // entries
	shrinkAt atomic.Int64 // a delete that leaves at most so many entries shrinks

	mu     sync.Mutex // serialises growth, shrinking and Clear; guards the rest
	cursor uint32     // where shrinking looks next
	moved  uint32     // most entries that were moved under one hold of mu
	grown  uint32
	shrunk uint32
}

// table is what both layouts share.
type table struct {
	shards unsafe.Pointer // *[shardCount]shard
	mask   uint64         // of the shard's number, as an offset in bytes
	seeds  seeds

	layout bucketLayout
	geometry
	floor int // buckets per shard below which shrinking stops
}

// init makes t an empty table with room for opts.Capacity entries.
func (t *table) init(layout bucketLayout, shape geometry, opts Options) {
	t.layout, t.geometry, t.seeds = layout, shape, newSeeds()
	t.mask = uint64(opts.Shards-1) << shardShift
	t.shards = newShards(opts.Shards)
	if opts.Capacity > 0 {
		t.reserve(opts.Capacity / opts.Shards)
	}
}

func (t *table) shardAt(i uint64) *shard {
	return (*shard)(unsafe.Add(t.shards, uintptr(i)*shardBytes))
}

// shard returns the shard of hash. Its bits are neither those of the segment
// (the highest) nor those of the bucket (the low 32).
func (t *table) shard(hash uint64) *shard {
	return (*shard)(unsafe.Add(t.shards, uintptr(hash>>(32-shardShift)&t.mask)))
}

func (t *table) shardCount() uint64 { return t.mask>>shardShift + 1 }

func (s *shard) directory() directory { return unsafe.Pointer(s.dir.Load()) }

func (s *shard) publish(d directory) { s.dir.Store((*segment)(d)) }

// chain is a locked chain of buckets.
type chain struct {
	shard  *shard
	seg    segment
	root   unsafe.Pointer
	header uint64 // of root, without flags; unlock publishes it
}

// lock finds and locks the chain of hash.
func (t *table) lock(hash uint64) chain {
	s := t.shard(hash)
	for {
		seg := lookup(s.directory(), hash)
		root := seg.at(seg.root(hash), t.bucketBytes)
		if header, ok := lockChain(root, lockBit); ok {
			return chain{shard: s, seg: seg, root: root, header: header}
		}
		t.awaitMove(s, hash)
	}
}

func (c *chain) unlock() { unlockChain(c.root, c.header) }

// awaitMove returns when the move that froze a chain has been published.
func (t *table) awaitMove(s *shard, hash uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lookup(s.directory(), hash).isEmptySegment() {
		t.replace(s, emptySegment, t.layout.newSegment(t.sizes[0]))
	}
}

func (t *table) len() int {
	n := int64(0)
	for i := range t.shardCount() {
		n += t.shardAt(i).count.Load()
	}
	return int(max(n, 0))
}
