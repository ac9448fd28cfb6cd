package shardmap

import (
	"runtime"
	"sync"
	"sync/atomic"
)

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
		return fromWord[V](w), ok
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
