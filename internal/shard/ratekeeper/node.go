package ratekeeper

import (
	"math"
	"time"
)

// LimitReason is what limits a node.
type LimitReason uint8

// The reasons, in the order in which they are named.
const (
	NoLimit LimitReason = iota
	WriteQueue
	DurabilityLag
	DiskSpace
)

// LimitReasons returns all of them.
func LimitReasons() []LimitReason {
	return []LimitReason{NoLimit, WriteQueue, DurabilityLag, DiskSpace}
}

// String is the name of it in metrics.
func (r LimitReason) String() string {
	return [...]string{"none", "write_queue", "durability_lag", "disk_space"}[r]
}

// Describe is the reason for those that are refused.
func (r LimitReason) Describe() string {
	return [...]string{"", "writes wait too long for their groups", "the tables are behind the log", "the disk is nearly full"}[r]
}

// StoreReading is what was measured of a store since the reading before, and of the moment.
type StoreReading struct {
	// Writes and InputBytes are what was committed in a second.
	Writes, InputBytes float64
	// QueueWait is how long writes waited for their group: the shortest of the groups that had any.
	QueueWait time.Duration
	// AppliedBytes is what was brought to the tables in a second, and UnappliedBytes what is committed and was not yet.
	AppliedBytes   float64
	UnappliedBytes int64
	// FreeBytes is what is left of the disk, above what is kept; negative if that is not known.
	FreeBytes int64
}

// LimiterKnobs tune a NodeLimiter. A zero is the default of each.
type LimiterKnobs struct {
	// QueueWait is the wait for a group at which writes come as fast as they are done. Default 250 ms, the time that a
	// client waits for a turn: a longer queue is one of clients that are refused.
	QueueWait time.Duration
	// UnappliedBytes is the same for what is not applied. Default 256 MiB.
	UnappliedBytes int64
	// DiskTime is in how long the disk would be full at the limit. Default 30 s. What is left becomes less and less, and so
	// does the limit.
	DiskTime time.Duration
	// WritesPerByte bounds the limit where almost nothing is written. Default 1.
	WritesPerByte float64
	// LeastWrites is the least limit: deletes, which make room, have to come through. Default 10 a second.
	LeastWrites float64
}

func (k LimiterKnobs) withDefaults() LimiterKnobs {
	if k.QueueWait == 0 {
		k.QueueWait = 250 * time.Millisecond
	}
	if k.UnappliedBytes == 0 {
		k.UnappliedBytes = 256 << 20
	}
	if k.DiskTime == 0 {
		k.DiskTime = 30 * time.Second
	}
	if k.WritesPerByte == 0 {
		k.WritesPerByte = 1
	}
	if k.LeastWrites == 0 {
		k.LeastWrites = 10
	}
	return k
}

const (
	// springShare is the part of a target over which a limit sets in: twice what a queue may grow in a step at most, or the limit
	// would swing.
	springShare = 0.8
	// maxPressure is how many times slower than they are done writes come at most.
	maxPressure = 2
	// lowDiskBytes is how much is left of a disk at most that limits writes. With the default of DiskTime the limit begins at 143 MB a
	// second, which is more than most stores take.
	lowDiskBytes = 4 << 30
	// rateHalfLife smooths rates: shorter than it takes to fill a queue, longer than a batch.
	rateHalfLife = 200 * time.Millisecond
	// tieShare is within which part of the lowest limit another is the same.
	tieShare = 0.01
)

// NodeLimit is how many writes a node should be asked for a second.
type NodeLimit struct {
	// PerSecond is infinite if there is no limit.
	PerSecond float64
	Reason    LimitReason
	// Store is the one that limits.
	Store int
}

// NodeLimiter decides the limit of a node. It remembers smoothed rates.
type NodeLimiter struct {
	knobs  LimiterKnobs
	stores []smoothedRates
}

type smoothedRates struct {
	writes, input, applied float64
	known                  bool
}

// NewNodeLimiter returns one that has seen nothing.
func NewNodeLimiter(k LimiterKnobs) *NodeLimiter { return &NodeLimiter{knobs: k.withDefaults()} }

// Step takes what was measured of each store in the time since the step before, and returns the limit.
func (l *NodeLimiter) Step(took time.Duration, stores []StoreReading) NodeLimit {
	for len(l.stores) < len(stores) {
		l.stores = append(l.stores, smoothedRates{})
	}
	total := 0.0
	for i := range stores {
		l.stores[i].add(took, &stores[i])
		total += l.stores[i].writes
	}
	lowest := NodeLimit{PerSecond: math.Inf(1)}
	for i := range stores {
		s := &l.stores[i]
		for _, c := range [...]struct {
			reason LimitReason
			maxBPS float64
		}{
			{WriteQueue, l.queueBPS(s, &stores[i])},
			{DurabilityLag, l.lagBPS(s, &stores[i])},
			{DiskSpace, l.diskBPS(&stores[i])},
		} {
			if math.IsInf(c.maxBPS, 1) {
				continue
			}
			limit := LimitWrites(s.writes, s.input, c.maxBPS, l.knobs.WritesPerByte)
			if s.writes > 0 { // of the node, if its stores get the same shares as now
				limit *= total / s.writes
			}
			limit = max(limit, l.knobs.LeastWrites)
			if limit < lowest.PerSecond*(1-tieShare) {
				lowest = NodeLimit{limit, c.reason, i}
			}
		}
	}
	return lowest
}

// LimitWrites returns how many writes a second make so many bytes a second, where so many writes make so many bytes.
func LimitWrites(actual, inputBPS, maxBPS, writesPerByte float64) float64 {
	return min(actual*maxBPS/max(1e-8, inputBPS), maxBPS*writesPerByte)
}

// add smooths the rates of a store.
func (s *smoothedRates) add(took time.Duration, r *StoreReading) {
	keep := math.Exp2(-float64(took) / float64(rateHalfLife))
	if !s.known {
		keep, s.known = 0, true
	}
	s.writes = keep*s.writes + (1-keep)*r.Writes
	s.input = keep*s.input + (1-keep)*r.InputBytes
	s.applied = keep*s.applied + (1-keep)*r.AppliedBytes
}

// pressure is how many times slower than it is done something should come, 0 if that does not matter.
func pressure(now, target float64) float64 {
	spring := springShare * target
	return min(max(0, (now-target+spring)/spring), maxPressure)
}

// queueBPS is the rate at which the queue of a store stays as it is, or gets to where it should be.
func (l *NodeLimiter) queueBPS(s *smoothedRates, r *StoreReading) float64 {
	return s.input / pressure(r.QueueWait.Seconds(), l.knobs.QueueWait.Seconds()) // infinite if there is none
}

// lagBPS is the same for what is not applied.
func (l *NodeLimiter) lagBPS(s *smoothedRates, r *StoreReading) float64 {
	p := pressure(float64(r.UnappliedBytes), float64(l.knobs.UnappliedBytes))
	if p == 0 {
		return math.Inf(1)
	}
	return s.applied / p
}

// diskBPS is the rate at which the disk would be full in DiskTime.
func (l *NodeLimiter) diskBPS(r *StoreReading) float64 {
	if r.FreeBytes < 0 || r.FreeBytes > lowDiskBytes {
		return math.Inf(1)
	}
	return float64(r.FreeBytes) / l.knobs.DiskTime.Seconds()
}
