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
	used []*ShardRecorder
}

// ShardRecorder is what a recorder has counted of one shard. It stays good when the map changes.
type ShardRecorder struct {
	// What each operation changes is in one cache line. The untimed are those that have no time yet, and delayed those of
	// them whose wait is noted.
	untimedReads, untimedWrites int
	bytesIn, bytesOut, errors   uint64
	isUsed                      bool
	delayed                     int

	recorder      *Recorder
	cell          *cell
	reads, writes uint64
	crossShard    uint64

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

// RecordRead counts a read that has waited for nothing. [Recorder.SetTimes] gives it a time. BytesOut may be negative:
// then nothing was sent.
func (s *ShardRecorder) RecordRead(bytesIn, bytesOut int) {
	if s.untimedReads++; s.untimedReads == 1 {
		s.markUsed()
	}
	s.bytesIn += uint64(bytesIn)
	s.bytesOut += uint64(max(0, bytesOut))
}

// RecordError counts that the reply to a read is an error.
func (s *ShardRecorder) RecordError() { s.errors++ }

// Record counts an operation. It has waited for so long before it came to the batch that [Recorder.SetTimes] gives the
// time of.
func (s *ShardRecorder) Record(o Op, waited time.Duration) {
	s.markUsed()
	if o.Write {
		s.untimedWrites++
	} else {
		s.untimedReads++
	}
	s.bytesIn += uint64(o.BytesIn)
	s.bytesOut += uint64(o.BytesOut)
	if o.Failed {
		s.errors++
	}
	if o.CrossShard {
		s.crossShard++
	}
	if waited > 0 {
		s.addWaits(1, waited)
		s.delayed++
	}
}

// RecordRound notes that a round of a loop took so long, in which it has read so many sockets.
func (r *Recorder) RecordRound(reads int, took time.Duration) {
	if reads > 0 {
		r.set.rounds[bucketOf(took)].Add(uint64(reads))
		r.set.roundNS.Add(int64(reads) * int64(took))
	}
}

func (s *ShardRecorder) markUsed() {
	if !s.isUsed {
		s.isUsed = true
		s.recorder.used = append(s.recorder.used, s)
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
	untimed := 0
	for _, s := range r.used {
		untimed += s.untimed()
	}
	if untimed == 0 {
		return
	}
	busy := together / time.Duration(untimed)
	for _, s := range r.used {
		if n := s.untimed(); n > 0 {
			s.addTimes(n, time.Duration(n)*busy, service)
			if n > s.delayed {
				s.addWaits(n-s.delayed, wait)
			}
		}
		s.reads, s.writes = s.reads+uint64(s.untimedReads), s.writes+uint64(s.untimedWrites)
		s.untimedReads, s.untimedWrites, s.delayed = 0, 0, 0
	}
}

// untimed is how many operations have no time yet.
func (s *ShardRecorder) untimed() int { return s.untimedReads + s.untimedWrites }

// Flush adds what was counted to the counts that others read. All of it has a time.
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
	addNonZero(&c.crossShard, s.crossShard)
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
	s.crossShard, s.busy, s.service, s.wait = 0, 0, 0, 0
}
