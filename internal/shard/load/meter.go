package load

import (
	"iter"
	"maps"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/partition"
)

// OpCounts is how many operations there were, and what they carried and took.
type OpCounts struct {
	Reads, Writes uint64
	// ScanReads are those of Reads that are rows of scans.
	ScanReads uint64
	// CrossShard is operations of transactions over several shards, and Conflicts how often a transaction was repeated, or
	// waited, because of another one on a key of this shard.
	CrossShard, Conflicts uint64
	// BytesIn and BytesOut are those of requests and replies: see [Op].
	BytesIn, BytesOut uint64
	// Errors are operations whose reply is an error.
	Errors uint64
	// Busy is the time that was spent on the operations: the share of each in what it was executed with.
	Busy time.Duration
	// InGroup are those of the writes whose time is not in Busy, as the group alone knows it.
	InGroup uint64
}

// Ops is how many operations there were.
func (c *OpCounts) Ops() uint64 { return c.Reads + c.Writes }

// Add adds others.
func (c *OpCounts) Add(o OpCounts) {
	c.Reads, c.Writes, c.ScanReads = c.Reads+o.Reads, c.Writes+o.Writes, c.ScanReads+o.ScanReads
	c.CrossShard, c.Conflicts = c.CrossShard+o.CrossShard, c.Conflicts+o.Conflicts
	c.BytesIn, c.BytesOut = c.BytesIn+o.BytesIn, c.BytesOut+o.BytesOut
	c.Errors, c.Busy, c.InGroup = c.Errors+o.Errors, c.Busy+o.Busy, c.InGroup+o.InGroup
}

// ShardLoad is what was asked of a shard.
type ShardLoad struct {
	OpCounts
	// Service is how long operations took from the begin of their execution to their reply: that of the batch, for
	// those that were executed in one. Wait is how long they waited for it to begin.
	Service, Wait actor.Histogram
}

// Merge adds the counts of others.
func (l *ShardLoad) Merge(o *ShardLoad) {
	l.Add(o.OpCounts)
	l.Service.Add(o.Service)
	l.Wait.Add(o.Wait)
}

// addBucket adds operations to a bucket of times.
func addBucket(h *actor.Histogram, bucket int, n uint64) {
	if n == 0 {
		return
	}
	h.Counts[firstBucket+bucket] += n
	// The longest is not known, but what its bucket ends with.
	h.MaxNS = max(h.MaxNS, uint64(1)<<(firstBucket+bucket)-1)
}

// Loads are the counts of a process at one moment.
type Loads struct {
	byID map[partition.ShardID]*ShardLoad
	// Gone is of shards that are no more, and were long ago.
	Gone ShardLoad
	// Rounds has, for each time that a loop of the server has read a socket, how long its round took: so long a request waits
	// at most before it is read, and the next of the same client behind it.
	Rounds actor.Histogram
}

// Of returns what was asked of a shard, nothing if it never was.
func (l *Loads) Of(id partition.ShardID) ShardLoad {
	if of := l.byID[id]; of != nil {
		return *of
	}
	return ShardLoad{}
}

// AddBusy adds time that was spent on a shard.
func (l *Loads) AddBusy(id partition.ShardID, d time.Duration) {
	if s := l.byID[id]; s != nil {
		s.Busy += d
	}
}

// All yields the counts of each shard of which there are any, in no order.
func (l *Loads) All() iter.Seq2[partition.ShardID, *ShardLoad] { return maps.All(l.byID) }

// Total is what was asked of all shards, those that are gone included.
func (l *Loads) Total() ShardLoad {
	sum := l.Gone
	for _, of := range l.byID {
		sum.Merge(of)
	}
	return sum
}

// Meter is the counts of a process. Its methods may be called by any goroutine.
type Meter struct {
	shared []set // for goroutines that have no recorder: a power of two
	shift  uint

	mu        sync.Mutex
	own       []*set // of recorders
	recorders sync.Pool
}

// sharedSetsPerProcessor is how many shared sets there are for each processor. With four, two goroutines that run on
// different ones meet with a probability of less than a quarter.
const sharedSetsPerProcessor = 4

// NewMeter returns a meter that has counted nothing.
func NewMeter() *Meter {
	n := uint(bits.Len(uint(sharedSetsPerProcessor*min(runtime.GOMAXPROCS(0), 16) - 1)))
	m := &Meter{shared: make([]set, 1<<n), shift: 64 - n}
	m.recorders.New = func() any { return &Recorder{set: m.sharedSet()} }
	return m
}

// NewRecorder returns a recorder with a set of its own, for a goroutine that stays.
func (m *Meter) NewRecorder() *Recorder {
	s := new(set)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.own = append(m.own, s)
	return &Recorder{set: s}
}

// BorrowRecorder returns a recorder for a short time: see ReturnRecorder.
func (m *Meter) BorrowRecorder() *Recorder { return m.recorders.Get().(*Recorder) }

// ReturnRecorder takes a recorder back that was borrowed and flushed.
func (m *Meter) ReturnRecorder(b *Recorder) { m.recorders.Put(b) }

// sharedSet returns a set for the calling goroutine, mostly the same one: its stack stays where it is.
func (m *Meter) sharedSet() *set {
	var here byte
	h := uint64(uintptr(unsafe.Pointer(&here))>>11) * 0x9e3779b97f4a7c15
	return &m.shared[h>>m.shift]
}

// Record counts an operation of a goroutine on a key of the shard at an index of a map: how much time was spent on it,
// how long it took, and how long it waited before. The time that was spent on a write is left to the group.
func (m *Meter) Record(p *partition.Map, i int, o Op, busy, service, wait time.Duration) {
	c := m.sharedSet().cellAt(p, i)
	c.addGroupWrite(o)
	c.add(o)
	c.addCall(1, o.Write, busy, service, wait)
}

// RecordScan counts rows of a scan, which are reads, of so many bytes. They took so long together, 0 if that is not
// known. They have no Service of their own.
func (m *Meter) RecordScan(p *partition.Map, i, rows, bytesOut int, busy time.Duration) {
	c := m.sharedSet().cellAt(p, i)
	c.reads.Add(uint64(rows))
	c.scanReads.Add(uint64(rows))
	addNonZero(&c.bytesOut, uint64(bytesOut))
	addNonZeroTime(&c.busyNS, busy)
}

// RecordCrossShard counts that an operation, which is counted by itself, is part of a transaction over several shards.
func (m *Meter) RecordCrossShard(p *partition.Map, i int) {
	m.sharedSet().cellAt(p, i).crossShard.Add(1)
}

// RecordConflict counts a conflict of a transaction.
func (m *Meter) RecordConflict(p *partition.Map, i int) { m.sharedSet().cellAt(p, i).conflicts.Add(1) }

// SampleEvery is of how many calls one is timed, for all of them: to look at the clock twice takes a third of the time
// of a read from memory. Which one is left to chance, so that a program that asks in a pattern is sampled fairly.
const SampleEvery = 128

// Operation is a call of a program that is under way.
type Operation struct {
	cell  *cell
	began time.Time // zero if it is not timed
}

// Begin begins a call on a key of the shard at an index of a map.
func (m *Meter) Begin(p *partition.Map, i int) Operation {
	op := Operation{cell: m.sharedSet().cellAt(p, i)}
	if rand.Uint64()%SampleEvery == 0 {
		op.began = time.Now()
	}
	return op
}

// End counts the call, and returns how long it took, with what it waited for, if it is the one of [SampleEvery] that is
// timed, else 0.
func (op Operation) End(o Op) (took time.Duration) {
	op.cell.addGroupWrite(o)
	op.cell.add(o)
	if !op.began.IsZero() {
		took = max(time.Since(op.began), 1)
		op.cell.addCall(SampleEvery, o.Write, took, took, 0)
	}
	return took
}

// Read returns what was counted.
func (m *Meter) Read() *Loads { return m.read(true) }

// ReadCounts is Read without Service and Wait, for callers that come often.
func (m *Meter) ReadCounts() *Loads { return m.read(false) }

func (m *Meter) read(histograms bool) *Loads {
	l := &Loads{byID: map[partition.ShardID]*ShardLoad{}}
	for i := range m.shared {
		m.shared[i].addTo(l, histograms)
	}
	m.mu.Lock()
	own := m.own[:len(m.own):len(m.own)]
	m.mu.Unlock()
	for _, s := range own {
		s.addTo(l, histograms)
	}
	return l
}
