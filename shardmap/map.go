package shardmap

import (
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"math/bits"
	"reflect"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Map is a concurrent map. The zero value is an empty map with the default
// [Options], ready to use. A Map must not be copied after first use.
//
// All methods may be called by any number of goroutines. Operations on one
// key are linearizable: each takes effect at one instant between its call and
// its return. Like the built-in map, a key of an interface type whose dynamic
// type cannot be hashed makes every method panic; the map is not affected.
type Map[K comparable, V any] struct {
	state atomic.Pointer[mapState[K, V]]
}

// mapState is the map proper; it is immutable but for the tables' contents.
type mapState[K comparable, V any] struct {
	layout  layoutKind
	counts  *operationCounts // nil unless Options.CountOperations
	words   wordMap[K, V]    // layoutWord
	entries entryTable[K, V] // layoutEntry
}

// New returns an empty map, or an error that matches [ErrOptions].
func New[K comparable, V any](opts Options) (*Map[K, V], error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	m := new(Map[K, V])
	m.state.Store(newMapState[K, V](opts))
	return m, nil
}

func newMapState[K comparable, V any](opts Options) *mapState[K, V] {
	key, value := reflect.TypeFor[K](), reflect.TypeFor[V]()
	s := &mapState[K, V]{layout: layoutOf(key, value)}
	if s.layout == layoutEntry {
		s.entries.init(opts)
	} else {
		s.words.init(opts)
	}
	if opts.CountOperations {
		s.counts = newOperationCounts(opts.Shards)
	}
	return s
}

// ensureState returns the state and makes it first if this is a fresh zero value.
func (m *Map[K, V]) ensureState() *mapState[K, V] {
	if s := m.state.Load(); s != nil {
		return s
	}
	return m.makeState()
}

func (m *Map[K, V]) makeState() *mapState[K, V] {
	opts, err := Options{}.withDefaults()
	checkInvariant(err == nil, "the zero Options are valid")
	m.state.CompareAndSwap(nil, newMapState[K, V](opts))
	return m.state.Load()
}

// Store sets the value of key.
func (m *Map[K, V]) Store(key K, value V) {
	s := m.ensureState()
	if s.counts != nil {
		s.storeCounted(key, value)
		return
	}
	if s.layout == layoutEntry {
		s.entries.storeEntry(key, value)
	} else {
		s.words.storeWord(toWord(&key), toWord(&value))
	}
}

// Swap sets the value of key and returns the one it had, if any.
func (m *Map[K, V]) Swap(key K, value V) (previous V, loaded bool) {
	s := m.ensureState()
	s.countStore(key)
	if s.layout == layoutEntry {
		return s.entries.swapValue(key, value)
	}
	return s.words.swapValue(key, value)
}

// LoadOrStore returns the value of key if it has one, with loaded true.
// Otherwise it stores value and returns it.
func (m *Map[K, V]) LoadOrStore(key K, value V) (actual V, loaded bool) {
	s := m.ensureState()
	if actual, loaded = m.Load(key); loaded {
		return actual, true
	}
	s.countStore(key)
	if s.layout == layoutEntry {
		return s.entries.loadOrStore(key, value)
	}
	return s.words.loadOrStore(key, value)
}

// LoadAndDelete deletes key and returns the value it had, if any.
func (m *Map[K, V]) LoadAndDelete(key K) (value V, loaded bool) {
	s := m.state.Load()
	if s == nil {
		return value, false
	}
	if _, loaded = m.Load(key); !loaded {
		return value, false // absent keys need no lock
	}
	s.countStore(key)
	if s.layout == layoutEntry {
		return s.entries.loadAndDelete(key)
	}
	return s.words.loadAndDelete(key)
}

// Delete deletes key. To delete an absent key takes no lock.
func (m *Map[K, V]) Delete(key K) { m.LoadAndDelete(key) }

// Len returns the number of entries. It is exact while no other goroutine
// writes; else an entry that comes or goes meanwhile may count or not.
func (m *Map[K, V]) Len() int {
	s := m.state.Load()
	if s == nil {
		return 0
	}
	return s.loadTable().len()
}

// Clear deletes all entries that are there when it is called. It is atomic
// for each key, not for the map: an entry stored meanwhile may stay or go.
func (m *Map[K, V]) Clear() {
	if s := m.state.Load(); s != nil {
		s.loadTable().clearShards()
	}
}

// Range calls yield for the entries of the map until it returns false.
//
// Every key is yielded at most once. A key that is there from beginning to
// end is yielded, with a value it had at some time in between; one that comes
// or goes meanwhile may be yielded or not. No lock is held during yield, so
// it may use the map as it likes.
func (m *Map[K, V]) Range(yield func(key K, value V) bool) {
	s := m.state.Load()
	if s == nil {
		return
	}
	if s.layout == layoutEntry {
		s.entries.rangeEntries(yield)
	} else {
		s.words.rangeEntries(yield)
	}
}

// All returns an iterator over the entries, as [Map.Range] visits them.
func (m *Map[K, V]) All() iter.Seq2[K, V] { return m.Range }

// loadTable returns the table that is in use.
func (s *mapState[K, V]) loadTable() *table {
	if s.layout == layoutEntry {
		return &s.entries.table
	}
	return &s.words.table
}

// Load returns the value of key and whether there is one. It takes no lock.
func (m *Map[K, V]) Load(key K) (value V, ok bool) {
	s := m.state.Load()
	if s == nil {
		return value, false
	}
	if s.counts != nil {
		return s.loadCounted(key)
	}
	if s.layout != layoutEntry {
		w, found := s.words.readRoot(toWord(&key))
		if found == resultUnclear {
			w, ok = s.words.loadWordSlow(toWord(&key))
			return decodeWord[V](w), ok
		}
		return decodeWord[V](w), found == resultPresent
	}
	// The entry layout's part is written out, hash included: the fewer
	// instructions a lookup takes, the more lookups the processor overlaps.
	t := &s.entries
	var hash uint64
	if unsafe.Sizeof(key) <= wordBytes && t.hashesWord {
		hash = t.seeds.hashWord(toWord(&key))
	} else {
		hash = maphash.Comparable(t.seeds.general, key)
	}
	seg := findSegment(t.shardOf(hash).loadDirectory(), hash)
	b := seg.bucketAt(seg.rootIndex(hash), entryBucketBytes)
	marks := matchTag(atomic.LoadUint64(wordAt(b, headerWord)), computeTag(hash))
	if marks != 0 {
		// The first mark is nearly always it. Nothing but the hash is needed
		// after the comparison, which is a call for many types of key.
		p := atomic.LoadPointer(entrySlot(b, uint(bits.TrailingZeros64(marks))/8))
		if p != nil && *(*K)(p) == key {
			if t.box == boxValue {
				return (*valueBox[K, V])(p).value, true
			}
			return t.loadBox(p), true
		}
	} else if atomic.LoadUint64(wordAt(b, linkWord)) == 0 {
		return value, false
	}
	if p := t.findEntry(key, hash); p != nil {
		return t.loadBox(p), true
	}
	return value, false
}

// Op is what the callback of [Map.Compute] decides.
type Op uint8

const (
	Cancel Op = iota // leave the entry as it is
	Update           // store the returned value
	Delete           // delete the entry
)

// Compute calls update with the value of key, or the zero value and loaded
// false, and does what it decides. It returns the value that key has
// afterwards and whether it has one. update is called exactly once, and no
// other writer of key takes effect between its call and its decision.
//
// While update runs, writers of this key and of the few keys that share its
// bucket wait, and so does growth of their shard; readers do not. update may
// Load from the map. It must not write to the map, ask for its Stats, or wait
// for a goroutine that does: that deadlocks when the two meet in a bucket or a shard. If
// update panics, the map is left as it was and the panic goes on. An Op that is
// none of the three panics likewise.
func (m *Map[K, V]) Compute(key K, update func(old V, loaded bool) (V, Op)) (actual V, ok bool) {
	s := m.ensureState()
	s.countStore(key)
	if s.layout == layoutEntry {
		return s.entries.computeEntry(key, update)
	}
	return s.words.computeEntry(key, update)
}

// LoadOrCompute returns the value of key if it has one, with loaded true. Otherwise it stores
// what compute returns, and returns that; if compute fails nothing is stored, and its error is
// returned. However many callers miss a key at once, compute is called for one at a time, and
// for none once there is a value.
//
// compute runs under the lock of the key's bucket, as the callback of [Map.Compute] does, and
// under the same rules: it may Load from the map, and must not write to it. While it runs,
// writers of the few keys that share the bucket wait, and so does growth of their shard;
// readers do not. So it is for what is computed in memory. For what is loaded from elsewhere use
// package cache, which waits without a lock.
func (m *Map[K, V]) LoadOrCompute(key K, compute func() (V, error)) (actual V, loaded bool, err error) {
	if actual, loaded = m.Load(key); loaded {
		return actual, true, nil
	}
	actual, _ = m.Compute(key, func(old V, present bool) (V, Op) {
		if loaded = present; loaded {
			return old, Cancel
		}
		var value V
		if value, err = compute(); err != nil {
			return old, Cancel
		}
		return value, Update
	})
	return actual, loaded, err
}

// CompareAndSwap stores new if the value of key is old, and reports whether it
// did. It panics, like ==, if V is an interface type and the values are of a
// type that cannot be compared.
func CompareAndSwap[K, V comparable](m *Map[K, V], key K, old, new V) (swapped bool) {
	m.Compute(key, func(current V, loaded bool) (V, Op) {
		if swapped = loaded && current == old; swapped {
			return new, Update
		}
		return current, Cancel
	})
	return swapped
}

// CompareAndDelete deletes key if its value is old, and reports whether it did.
// It panics when [CompareAndSwap] does.
func CompareAndDelete[K, V comparable](m *Map[K, V], key K, old V) (deleted bool) {
	m.Compute(key, func(current V, loaded bool) (V, Op) {
		if deleted = loaded && current == old; deleted {
			return current, Delete
		}
		return current, Cancel
	})
	return deleted
}

func unknownOpText(op Op) string {
	return fmt.Sprintf("shardmap: Compute callback returned Op %d: return Cancel, Update or Delete", op)
}

// ErrOptions means that New was given options that make no sense; the text
// says which and what to do.
var ErrOptions = errors.New("shardmap: bad options")

// Options shapes a map. The zero value is right for most.
type Options struct {
	// Shards is the number of shards, a power of two from 1 to 4096. More
	// shards let more goroutines insert and grow at once; each costs 128
	// bytes. Default (0): 64 or 4 per processor that Go may use, whichever
	// is more, and enough that Capacity leaves about 32768 entries a shard.
	Shards int

	// Capacity is how many entries the map is built for: inserting that many
	// causes little growth, and deleting them does not give the room back.
	// Default 0: the map starts empty. At most 2^40.
	Capacity int

	// CountOperations counts loads and stores by shard, for [ShardStats]: to see whether some
	// shards have all the work. Each operation then hashes its key twice, and writes to memory
	// of its processor. Default false: it costs nothing.
	CountOperations bool
}

const (
	minDefaultShards   = 64
	maxShards          = 4096
	defaultShardSize   = 32768
	maxCapacity        = 1 << 40
	shardsPerProcessor = 4
)

// withDefaults validates o and fills in what it leaves open.
func (o Options) withDefaults() (Options, error) {
	var errs []error
	if o.Shards < 0 || o.Shards > maxShards || o.Shards&(o.Shards-1) != 0 {
		errs = append(errs, fmt.Errorf("option Shards is %d: use a power of two from 1 to %d, or 0 for the default", o.Shards, maxShards))
	}
	if o.Capacity < 0 || int64(o.Capacity) > maxCapacity {
		errs = append(errs, fmt.Errorf("option Capacity is %d: use 0 to 2^40 entries", o.Capacity))
	}
	if len(errs) > 0 {
		return o, fmt.Errorf("%w: %w", ErrOptions, errors.Join(errs...))
	}
	if o.Shards == 0 {
		want := max(minDefaultShards, shardsPerProcessor*runtime.GOMAXPROCS(0), o.Capacity/defaultShardSize)
		o.Shards = min(maxShards, 1<<bits.Len(uint(want-1)))
	}
	return o, nil
}

// ShardStats describes one shard. Counts are as of about one moment.
type ShardStats struct {
	Entries         int
	Segments        int // independently growing parts
	Buckets         int // that the hash addresses; OverflowBuckets come on top
	OverflowBuckets int // in use
	Bytes           int // of buckets, spare ones included; not of entries outside them
	Growths         int // segments that were enlarged, split or compacted
	Shrinks         int // segments that were halved or merged
	LargestMove     int // most entries copied by one growth or shrink

	// Loads are lookups, those included with which LoadOrStore, LoadOrCompute and deletes
	// begin. Stores are operations that have locked a bucket, whether or not they changed
	// it. Both are 0 without Options.CountOperations.
	Loads, Stores uint64
}

// Stats is a snapshot of a map's shards.
type Stats struct {
	Shards []ShardStats
	// SlotsPerBucket is how many entries a bucket holds.
	SlotsPerBucket int
	// EntriesInBuckets reports whether keys and values lie in the buckets
	// themselves, in memory that the garbage collector does not scan; else
	// each entry is an object of its own.
	EntriesInBuckets bool
}

// Total adds the shards up; LargestMove is the largest of them.
func (s Stats) Total() ShardStats {
	var sum ShardStats
	for _, sh := range s.Shards {
		sum.Entries += sh.Entries
		sum.Segments += sh.Segments
		sum.Buckets += sh.Buckets
		sum.OverflowBuckets += sh.OverflowBuckets
		sum.Bytes += sh.Bytes
		sum.Growths += sh.Growths
		sum.Shrinks += sh.Shrinks
		sum.Loads += sh.Loads
		sum.Stores += sh.Stores
		sum.LargestMove = max(sum.LargestMove, sh.LargestMove)
	}
	return sum
}

// Stats returns figures about the map's shards. It takes each shard's growth
// lock for a moment and reads no entries.
func (m *Map[K, V]) Stats() Stats {
	s := m.ensureState()
	t := s.loadTable()
	stats := Stats{SlotsPerBucket: t.slots, EntriesInBuckets: s.layout != layoutEntry}
	for i := range t.shardCount() {
		shard := t.shardStats(t.shardAt(i))
		shard.Loads, shard.Stores = s.counts.sumShard(i)
		stats.Shards = append(stats.Shards, shard)
	}
	return stats
}

func (t *table) shardStats(s *shard) ShardStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := ShardStats{
		Entries: int(max(0, s.count.Load())),
		Growths: int(s.growths), Shrinks: int(s.shrinks), LargestMove: int(s.largestMove),
	}
	for _, seg := range listSegments(s.loadDirectory()) {
		if seg.isEmptySegment() {
			continue
		}
		st.Segments++
		st.Buckets += int(seg.rootCount())
		st.OverflowBuckets += int(seg.sparesUsed(t.bucketBytes))
		st.Bytes += int(seg.rootCount()+1+seg.spareCount()) * int(t.bucketBytes)
	}
	return st
}
