package load

import (
	"math/bits"
	"time"

	"github.com/cleavekv/cleave/partition"
)

// Recorder counts for one goroutine, which adds its counts to those of its set now and then. Readers of the counts see
// what was flushed.
type Recorder struct {
	set    *set
	m      *partition.Map
	shards []*ShardRecorder // by their index in m; nil for those of which nothing was counted
	byID   map[partition.ShardID]*ShardRecorder
	// used are those that have counted something.
	used  []*ShardRecorder
	quick int // operations whose time is recorded by the next flush
}

// ShardRecorder is what a recorder has counted of one shard. It stays good when the map changes.
type ShardRecorder struct {
	recorder *Recorder
	cell     *cell
	isUsed   bool
	op       [2]uint64 // reads and writes
	bytesIn  uint64
	bytesOut uint64
	errors   uint64
	quick    int

	busy, service, wait         time.Duration
	serviceUsed, waitUsed       uint32 // bits of the buckets that are not 0
	serviceBuckets, waitBuckets [buckets]uint32
}

// At returns what is counted of the shard at an index of a map.
func (r *Recorder) At(m *partition.Map, i int) *ShardRecorder {
	if r.m != m {
		r.setMap(m)
	}
	if s := r.shards[i]; s != nil {
		return s
	}
	return r.makeShard(i)
}

// setMap begins to use a map. What was counted by the one before waits for the next flush.
func (r *Recorder) setMap(m *partition.Map) {
	r.m, r.shards = m, make([]*ShardRecorder, m.Len())
	was := r.byID
	r.byID = make(map[partition.ShardID]*ShardRecorder, len(was))
	for i := range r.shards {
		id := m.OwnerAt(i).Shard
		if s := was[id]; s != nil {
			r.shards[i], r.byID[id] = s, s
		}
	}
}

func (r *Recorder) makeShard(i int) *ShardRecorder {
	id := r.m.OwnerAt(i).Shard
	s := &ShardRecorder{recorder: r, cell: r.set.cellAt(r.m, i)}
	r.shards[i], r.byID[id] = s, s
	return s
}

// RecordQuick counts an operation that was answered at once, and whose time is not known: see [Recorder.Flush].
func (s *ShardRecorder) RecordQuick(o Op) {
	s.Record(o)
	s.quick++
	s.recorder.quick++
}

// Record counts an operation, but for its time.
func (s *ShardRecorder) Record(o Op) {
	if !s.isUsed {
		s.markUsed()
	}
	if o.Write {
		s.op[1]++
	} else {
		s.op[0]++
	}
	s.bytesIn += uint64(o.BytesIn)
	s.bytesOut += uint64(o.BytesOut)
	if o.Failed {
		s.errors++
	}
}

func (s *ShardRecorder) markUsed() {
	s.isUsed = true
	s.recorder.used = append(s.recorder.used, s)
}

// RecordTimes notes the times of n operations: what they took together, how long each took, and how long each waited
// before.
func (s *ShardRecorder) RecordTimes(n int, busy, service, wait time.Duration) {
	if !s.isUsed {
		s.markUsed()
	}
	s.busy += busy
	s.service += time.Duration(n) * service
	s.wait += time.Duration(n) * wait
	i, j := bucketOf(service), bucketOf(wait)
	s.serviceBuckets[i] += uint32(n)
	s.waitBuckets[j] += uint32(n)
	s.serviceUsed |= 1 << i
	s.waitUsed |= 1 << j
}

// Flush adds what was counted to the counts that others read. Each operation that was answered at once has taken so
// long.
func (r *Recorder) Flush(quick time.Duration) {
	for _, s := range r.used {
		if s.quick > 0 {
			s.RecordTimes(s.quick, time.Duration(s.quick)*quick, quick, 0)
		}
		s.flush()
	}
	r.used, r.quick = r.used[:0], 0
}

// QuickOps is how many operations the next flush gives a time.
func (r *Recorder) QuickOps() int { return r.quick }

func (s *ShardRecorder) flush() {
	c := s.cell
	addNonZero(&c.reads, s.op[0])
	addNonZero(&c.writes, s.op[1])
	addNonZero(&c.bytesIn, s.bytesIn)
	addNonZero(&c.bytesOut, s.bytesOut)
	addNonZero(&c.errors, s.errors)
	if s.busy != 0 {
		c.busyNS.Add(int64(s.busy))
	}
	if s.service != 0 {
		c.serviceNS.Add(int64(s.service))
	}
	if s.wait != 0 {
		c.waitNS.Add(int64(s.wait))
	}
	for ; s.serviceUsed != 0; s.serviceUsed &= s.serviceUsed - 1 {
		i := bits.TrailingZeros32(s.serviceUsed)
		c.service[i].Add(uint64(s.serviceBuckets[i]))
		s.serviceBuckets[i] = 0
	}
	for ; s.waitUsed != 0; s.waitUsed &= s.waitUsed - 1 {
		i := bits.TrailingZeros32(s.waitUsed)
		c.wait[i].Add(uint64(s.waitBuckets[i]))
		s.waitBuckets[i] = 0
	}
	s.isUsed, s.op, s.bytesIn, s.bytesOut, s.errors, s.quick = false, [2]uint64{}, 0, 0, 0, 0
	s.busy, s.service, s.wait = 0, 0, 0
}
