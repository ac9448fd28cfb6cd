package load

import (
	"maps"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/partition"
)

// Op is one operation on a key.
type Op struct {
	Write  bool
	Failed bool // the reply is an error
	// CrossShard reports whether it is part of a transaction over several shards.
	CrossShard bool
	// BytesIn and BytesOut are those of the request and the reply on the wire; of a call in a program those of values.
	BytesIn, BytesOut int
}

// Share is what one of n keys of a request has of it: an even share of the bytes. What is left of them, and an error,
// is with the first.
func (o Op) Share(key, n int) Op {
	if key > 0 {
		return Op{Write: o.Write, CrossShard: o.CrossShard, BytesIn: o.BytesIn / n, BytesOut: o.BytesOut / n}
	}
	o.BytesIn -= o.BytesIn / n * (n - 1)
	o.BytesOut -= o.BytesOut / n * (n - 1)
	return o
}

const (
	// The buckets of times, of those of [actor.Histogram], which are powers of two nanoseconds: from about a
	// microsecond, up to which nothing is distinguished, to about 8 seconds.
	firstBucket = 10
	buckets     = 24
)

// bucketOf is the bucket of a time.
func bucketOf(d time.Duration) int {
	return min(max(bits.Len64(uint64(max(d, 0)))-firstBucket, 0), buckets-1)
}

// cell is the counts of one shard in one set. Its first line is written by each flush, the others hold a line or two
// that are in use. Size: 512 bytes, a multiple of a cache line, so that two cells share none.
type cell struct {
	reads, writes, bytesIn, bytesOut, errors  atomic.Uint64
	busyNS, serviceNS, waitNS                 atomic.Int64
	scanReads, crossShard, conflicts, inGroup atomic.Uint64
	_                                         [4]uint64
	service, wait                             [buckets]atomic.Uint64
}

// add adds n times an operation, but for its time.
func (c *cell) add(o Op) {
	if o.Write {
		c.writes.Add(1)
	} else {
		c.reads.Add(1)
	}
	addNonZero(&c.bytesIn, uint64(o.BytesIn))
	addNonZero(&c.bytesOut, uint64(o.BytesOut))
	if o.Failed {
		c.errors.Add(1)
	}
	if o.CrossShard {
		c.crossShard.Add(1)
	}
}

// addGroupWrite counts a write whose time the group knows.
func (c *cell) addGroupWrite(o Op) {
	if o.Write {
		c.inGroup.Add(1)
	}
}

// addCall adds a call of a goroutine, or n that took as long. A write has waited for most of its time, for others that
// its group has executed with it: what it took of that is known to the group.
func (c *cell) addCall(n int, write bool, busy, service, wait time.Duration) {
	if write {
		busy = 0
	}
	c.addTimes(n, time.Duration(n)*busy, service, wait)
}

// addTimes adds the times of n operations: what they took together, how long each took, and how long each waited
// before.
func (c *cell) addTimes(n int, busy, service, wait time.Duration) {
	c.busyNS.Add(int64(busy))
	c.serviceNS.Add(int64(n) * int64(service))
	c.waitNS.Add(int64(n) * int64(wait))
	c.service[bucketOf(service)].Add(uint64(n))
	c.wait[bucketOf(wait)].Add(uint64(n))
}

func addNonZero(to *atomic.Uint64, n uint64) {
	if n != 0 {
		to.Add(n)
	}
}

func addNonZeroTime(to *atomic.Int64, d time.Duration) {
	if d != 0 {
		to.Add(int64(d))
	}
}

// addTo adds the counts to others, times by bucket only if they are asked for.
func (c *cell) addTo(l *ShardLoad, histograms bool) {
	l.Reads += c.reads.Load()
	l.Writes += c.writes.Load()
	l.BytesIn += c.bytesIn.Load()
	l.BytesOut += c.bytesOut.Load()
	l.Errors += c.errors.Load()
	l.ScanReads += c.scanReads.Load()
	l.CrossShard += c.crossShard.Load()
	l.Conflicts += c.conflicts.Load()
	l.Busy += time.Duration(c.busyNS.Load())
	l.InGroup += c.inGroup.Load()
	if !histograms {
		return
	}
	l.Service.SumNS += uint64(c.serviceNS.Load())
	l.Wait.SumNS += uint64(c.waitNS.Load())
	for i := range buckets {
		addBucket(&l.Service, i, c.service[i].Load())
		addBucket(&l.Wait, i, c.wait[i].Load())
	}
}

// set is the counts of those that count together: one loop, or goroutines that seldom meet.
type set struct {
	table atomic.Pointer[cellTable]

	mu   sync.Mutex
	byID map[partition.ShardID]*cell
	gone ShardLoad // counts of shards whose cells were given up

	// rounds are how many sockets were read in rounds that took so long, and roundNS the sum of these times.
	rounds  [buckets]atomic.Uint64
	roundNS atomic.Int64
}

// cellTable has the cells of the shards of a map by their index, nil for those of which nothing was counted.
type cellTable struct {
	m     *partition.Map
	cells []atomic.Pointer[cell]
}

// cellAt returns the cell of the shard at an index of a map.
func (s *set) cellAt(m *partition.Map, i int) *cell {
	if t := s.table.Load(); t != nil && t.m == m {
		if c := t.cells[i].Load(); c != nil {
			return c
		}
	}
	return s.makeCell(m, i)
}

// makeCell is cellAt for the first operation on a shard, by a newer map, or by an older one.
func (s *set) makeCell(m *partition.Map, i int) *cell {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.table.Load()
	if t == nil || t.m.Version() < m.Version() {
		t = &cellTable{m, make([]atomic.Pointer[cell], m.Len())}
		s.table.Store(t)
		s.foldGone(m)
	}
	id := m.OwnerAt(i).Shard
	c := s.byID[id]
	if c == nil {
		c = new(cell)
		if s.byID == nil {
			s.byID = map[partition.ShardID]*cell{}
		}
		s.byID[id] = c
	}
	if t.m == m {
		t.cells[i].Store(c)
	}
	return c
}

// maxGoneShards is of how many shards that a map has no more, the newest, the counts are kept apart: operations on them
// may be under way.
const maxGoneShards = 1024

// foldGone adds the counts of most shards that are gone to those of the others, and gives up their cells.
// REQUIRES: s.mu held.
func (s *set) foldGone(m *partition.Map) {
	if len(s.byID) <= m.Len()+maxGoneShards {
		return
	}
	has := make(map[partition.ShardID]bool, m.Len())
	for i := range m.Len() {
		has[m.OwnerAt(i).Shard] = true
	}
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(s.byID)), func(id partition.ShardID) bool { return has[id] })
	for _, id := range ids[:max(0, len(ids)-maxGoneShards)] {
		s.byID[id].addTo(&s.gone, true)
		delete(s.byID, id)
	}
}

// addTo adds the counts of all shards to those of a process.
func (s *set) addTo(l *Loads, histograms bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, c := range s.byID {
		of := l.byID[id]
		if of == nil {
			of = new(ShardLoad)
			l.byID[id] = of
		}
		c.addTo(of, histograms)
	}
	l.Gone.Merge(&s.gone)
	if !histograms {
		return
	}
	l.Rounds.SumNS += uint64(s.roundNS.Load())
	for i := range buckets {
		addBucket(&l.Rounds, i, s.rounds[i].Load())
	}
}
