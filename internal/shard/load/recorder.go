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
	used    []*ShardRecorder
	untimed int // operations that have no time yet
}

// ShardRecorder is what a recorder has counted of one shard. It stays good when the map changes.
type ShardRecorder struct {
	recorder      *Recorder
	cell          *cell
	isUsed        bool
	reads, writes uint64
	bytesIn       uint64
	bytesOut      uint64
	errors        uint64
	untimed       int // operations that have no time yet
	delayed       int // those of them whose wait is noted

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

// Record counts an operation. It has waited for so long before it came to the batch that [Recorder.SetTimes] gives the
// time of.
func (s *ShardRecorder) Record(o Op, waited time.Duration) {
	if !s.isUsed {
		s.isUsed = true
		s.recorder.used = append(s.recorder.used, s)
	}
	if o.Write {
		s.writes++
	} else {
		s.reads++
	}
	s.bytesIn += uint64(o.BytesIn)
	s.bytesOut += uint64(o.BytesOut)
	if o.Failed {
		s.errors++
	}
	s.untimed++
	s.recorder.untimed++
	if waited > 0 {
		s.addWaits(1, waited)
		s.delayed++
	}
}

// addTimes notes how much time was spent on n operations, and how long each took.
func (s *ShardRecorder) addTimes(n int, busy, service time.Duration) {
	s.busy += busy
	s.service += time.Duration(n) * service
	i := bucketOf(service)
	s.serviceBuckets[i] += uint32(n)
	s.serviceUsed |= 1 << i
}

// addWaits notes how long each of n operations has waited.
func (s *ShardRecorder) addWaits(n int, wait time.Duration) {
	s.wait += time.Duration(n) * wait
	i := bucketOf(wait)
	s.waitBuckets[i] += uint32(n)
	s.waitUsed |= 1 << i
}

// SetTimes gives all operations that have no time yet one: how much was spent on all of them, which is shared out
// evenly, how long each took, and how long those waited that have not waited before.
func (r *Recorder) SetTimes(together, service, wait time.Duration) {
	if r.untimed == 0 {
		return
	}
	busy := together / time.Duration(r.untimed)
	for _, s := range r.used {
		if s.untimed > 0 {
			s.addTimes(s.untimed, time.Duration(s.untimed)*busy, service)
		}
		if n := s.untimed - s.delayed; n > 0 {
			s.addWaits(n, wait)
		}
		s.untimed, s.delayed = 0, 0
	}
	r.untimed = 0
}

// Flush adds what was counted to the counts that others read.
func (r *Recorder) Flush() {
	for _, s := range r.used {
		s.flush()
	}
	r.used = r.used[:0]
}

func (s *ShardRecorder) flush() {
	c := s.cell
	addNonZero(&c.reads, s.reads)
	addNonZero(&c.writes, s.writes)
	addNonZero(&c.bytesIn, s.bytesIn)
	addNonZero(&c.bytesOut, s.bytesOut)
	addNonZero(&c.errors, s.errors)
	addNonZeroTime(&c.busyNS, s.busy)
	addNonZeroTime(&c.serviceNS, s.service)
	addNonZeroTime(&c.waitNS, s.wait)
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
	s.isUsed, s.reads, s.writes, s.bytesIn, s.bytesOut, s.errors = false, 0, 0, 0, 0, 0
	s.busy, s.service, s.wait = 0, 0, 0
}
