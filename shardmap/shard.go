package shardmap

import (
	"hash/maphash"
	"math/bits"
	"reflect"
	"runtime"
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
	directoryPtr atomic.Pointer[segment] // see directory
	_            [cacheLine - unsafe.Sizeof(atomic.Pointer[segment]{})]byte

	shardState
	_ [cacheLine - unsafe.Sizeof(shardState{})%cacheLine]byte
}

// shardState is the part of a shard that writers write.
type shardState struct {
	count    atomic.Int64 // entries
	shrinkAt atomic.Int64 // a delete that leaves at most so many entries shrinks

	mu          sync.Mutex // serialises growth, shrinking and Clear; guards the rest
	mergeCursor uint32     // where shrinking looks next
	largestMove uint32     // most entries that were moved under one hold of mu
	growths     uint32
	shrinks     uint32
}

// table is what both layouts share.
type table struct {
	shards unsafe.Pointer // *[shardCount]shard
	mask   uint64         // of the shard's number, as an offset in bytes
	seeds  seeds

	layout bucketLayout
	geometry
	minBuckets int // buckets per shard below which shrinking stops
}

// init makes t an empty table with room for opts.Capacity entries.
func (t *table) init(layout bucketLayout, shape geometry, opts Options) {
	t.layout, t.geometry, t.seeds = layout, shape, newSeeds()
	t.mask = uint64(opts.Shards-1) << shardShift
	t.shards = newShards(opts.Shards)
	if opts.Capacity > 0 {
		t.reserveCapacity(opts.Capacity / opts.Shards)
	}
}

func (t *table) shardAt(i uint64) *shard {
	return (*shard)(unsafe.Add(t.shards, uintptr(i)*shardBytes))
}

// shardOf returns the shard of hash. Its bits are neither those of the segment
// (the highest) nor those of the bucket (the low 32).
func (t *table) shardOf(hash uint64) *shard {
	return (*shard)(unsafe.Add(t.shards, uintptr(hash>>(32-shardShift)&t.mask)))
}

func (t *table) shardCount() uint64 { return t.mask>>shardShift + 1 }

func (s *shard) loadDirectory() directory { return unsafe.Pointer(s.directoryPtr.Load()) }

func (s *shard) publishDirectory(d directory) { s.directoryPtr.Store((*segment)(d)) }

// chain is a locked chain of buckets.
type chain struct {
	shard  *shard
	seg    segment
	root   unsafe.Pointer
	header uint64 // of root, without flags; unlock publishes it
}

// lock finds and locks the chain of hash.
func (t *table) lock(hash uint64) chain {
	s := t.shardOf(hash)
	for {
		seg := findSegment(s.loadDirectory(), hash)
		root := seg.bucketAt(seg.rootIndex(hash), t.bucketBytes)
		if header, ok := lockChain(root, lockBit); ok {
			return chain{shard: s, seg: seg, root: root, header: header}
		}
		t.waitForMove(s, hash)
	}
}

func (c *chain) unlock() { unlockChain(c.root, c.header) }

// waitForMove returns when the move that froze a chain has been published.
func (t *table) waitForMove(s *shard, hash uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if findSegment(s.loadDirectory(), hash).isEmptySegment() {
		t.replaceSegment(s, emptySegment, t.layout.newSegment(t.sizes[0]))
	}
}

func (t *table) len() int {
	n := int64(0)
	for i := range t.shardCount() {
		n += t.shardAt(i).count.Load()
	}
	return int(max(n, 0))
}

// layoutKind is how a map stores its entries. It is chosen once, by the
// types of key and value.
type layoutKind uint8

const (
	layoutEntry layoutKind = iota // buckets of pointers to entries: any type
	layoutWord                    // keys and values of a word inside the buckets
)

// layoutOf chooses the layout for keys of type k and values of type v.
func layoutOf(k, v reflect.Type) layoutKind {
	if k.Size() <= wordBytes && v.Size() <= wordBytes && isBitwise(k) && isPointerFree(v) {
		return layoutWord
	}
	return layoutEntry
}

// isBitwise reports whether == on t is the equality of all its bytes. That is
// wrong for floats (-0 == 0, NaN != NaN), for padding and blank fields, which
// == does not look at, and for whatever points elsewhere.
func isBitwise(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.Uintptr,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	case reflect.Array:
		return t.Size() == 0 || isBitwise(t.Elem())
	case reflect.Struct:
		size := uintptr(0)
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Name == "_" || !isBitwise(f.Type) {
				return false
			}
			size += f.Type.Size()
		}
		return size == t.Size()
	default:
		return false
	}
}

// isPointerFree reports whether values of t may live in memory that the garbage
// collector does not scan.
func isPointerFree(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return true
	case reflect.Array:
		return t.Len() == 0 || isPointerFree(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !isPointerFree(t.Field(i).Type) {
				return false
			}
		}
		return true
	default:
		return isBitwise(t)
	}
}

// seeds are the secrets of one map. Without them one cannot choose
// keys that land in one bucket; two maps never agree on where a key lives.
type seeds struct {
	before, first, between, second uint64 // of hashWord
	general                        maphash.Seed
}

func newSeeds() seeds {
	s := seeds{general: maphash.MakeSeed()}
	for i, p := range []*uint64{&s.before, &s.first, &s.between, &s.second} {
		*p = maphash.Comparable(s.general, i) | 1 // odd: a factor that loses no bit
	}
	return s
}

// hashWord hashes a key of one word with two folded multiplications by secret
// factors, the construction of wyhash and of the runtime's own fallback. One
// would be enough to hide the seeds but not to spread consecutive integers
// evenly for every factor.
func (s *seeds) hashWord(key uint64) uint64 {
	return foldMultiply(foldMultiply(key^s.before, s.first)^s.between, s.second)
}

// foldMultiply multiplies to 128 bits and xors the halves.
func foldMultiply(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// operationCounts counts operations by shard. Each processor counts in memory of its own: a
// counter that all of them write to would cost a lookup more than the lookup itself takes.
// BenchmarkCountOperations has the price.
type operationCounts struct {
	stripes [][]shardCounts // by processor, then by shard
	// local hands a processor the stripe that it had last. It may forget at any time: then two
	// processors may share one, which is only slower.
	local sync.Pool
}

// shardCounts is what one processor has counted of a shard.
type shardCounts struct{ loads, stores atomic.Uint64 }

// maxStripes bounds the memory of the counts on a machine of many processors.
const maxStripes = 64

// countsPerLine is how many fit into two cache lines, which processors fetch in pairs.
const countsPerLine = 2 * cacheLine / 16

func newOperationCounts(shards int) *operationCounts {
	c := &operationCounts{stripes: make([][]shardCounts, min(runtime.GOMAXPROCS(0), maxStripes))}
	for i := range c.stripes {
		// Whole lines, so that no two stripes have one in common.
		c.stripes[i] = make([]shardCounts, (shards+countsPerLine-1)/countsPerLine*countsPerLine)
	}
	var next atomic.Uint64
	c.local.New = func() any { return &c.stripes[next.Add(1)%uint64(len(c.stripes))] }
	return c
}

func (c *operationCounts) addLoad(shard uint64) {
	s := c.local.Get().(*[]shardCounts)
	(*s)[shard].loads.Add(1)
	c.local.Put(s)
}

func (c *operationCounts) addStore(shard uint64) {
	s := c.local.Get().(*[]shardCounts)
	(*s)[shard].stores.Add(1)
	c.local.Put(s)
}

// sumShard returns what has been counted of a shard.
func (c *operationCounts) sumShard(shard uint64) (loads, stores uint64) {
	if c == nil {
		return 0, 0
	}
	for _, s := range c.stripes {
		loads += s[shard].loads.Load()
		stores += s[shard].stores.Load()
	}
	return loads, stores
}

// shardNumber returns the number of the shard of a key.
func (s *mapState[K, V]) shardNumber(key K) uint64 {
	if s.layout == layoutEntry {
		return s.entries.shardNumberOf(s.entries.hashKey(key))
	}
	return s.words.shardNumberOf(s.words.seeds.hashWord(toWord(&key)))
}

// shardNumberOf returns the number of the shard that shardOf returns.
func (t *table) shardNumberOf(hash uint64) uint64 {
	return hash >> (32 - shardShift) & t.mask >> shardShift
}

// loadCounted is Load where operations are counted. It stands apart, as storeCounted does, so
// that Load and Store stay as short as they are for maps that count none.
//
//go:noinline
func (s *mapState[K, V]) loadCounted(key K) (value V, ok bool) {
	s.counts.addLoad(s.shardNumber(key))
	if s.layout != layoutEntry {
		w, ok := s.words.loadWordSlow(toWord(&key))
		return decodeWord[V](w), ok
	}
	if p := s.entries.findEntry(key, s.entries.hashKey(key)); p != nil {
		return s.entries.loadBox(p), true
	}
	return value, false
}

//go:noinline
func (s *mapState[K, V]) storeCounted(key K, value V) {
	s.countStore(key)
	if s.layout == layoutEntry {
		s.entries.storeEntry(key, value)
	} else {
		s.words.storeWord(toWord(&key), toWord(&value))
	}
}

// countStore counts an operation that locks a bucket, if operations are counted.
func (s *mapState[K, V]) countStore(key K) {
	if s.counts != nil {
		s.counts.addStore(s.shardNumber(key))
	}
}
