package node

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/internal/shard/load"
	"github.com/cleavekv/cleave/partition"
)

const (
	// TrafficEvery is of how many operations one is shown: each has the same chance, whatever its cost.
	TrafficEvery = load.SampleEvery
	// maxTraffic is how many operations wait for a reader at most. A reader that asks four times a second sees all of
	// four million operations a second; with positions of the greatest length they take 5 MiB.
	maxTraffic = 8192
	// maxTrafficKey is how long the position of an operation may be that is shown. A longer one is counted.
	maxTrafficKey = 512
	// trafficLease is how long operations are kept after a reader has asked last.
	trafficLease = 10 * time.Second
)

// TrafficOp is an operation of the sample.
type TrafficOp struct {
	Key     partition.Position
	Write   bool
	Bytes   int // of request and reply
	Command string
}

// TrafficPage is what a reader of traffic gets.
type TrafficPage struct {
	Ops []TrafficOp
	// Next is where to go on.
	Next uint64
	// Lost is how many were overwritten since the reader's place, TooLong how many have positions that are too long
	// since the first reader came.
	Lost, TooLong uint64
}

// trafficLog keeps the newest operations of the sample while readers ask for them: nothing is kept, and no lock is
// taken, if none has for a while. An operation of the sample stands for more the cheaper it is; it is thinned, so that
// all have the same chance.
type trafficLog struct {
	reading atomic.Bool

	mu      sync.Mutex
	ops     []TrafficOp // a ring, nil without readers
	next    uint64      // of the operation that comes next; never goes back
	tooLong uint64
	askedAt time.Duration
}

// offer takes an operation that stands for so many.
func (t *trafficLog) offer(a *heat.Access, weight float64) {
	if !t.reading.Load() || a.Conflict || rand.Float64()*TrafficEvery >= weight {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ops == nil:
	case len(a.Key) > maxTrafficKey:
		t.tooLong++
	default:
		o := &t.ops[t.next%maxTraffic]
		o.Key = append(o.Key[:0], a.Key...)
		o.Write, o.Bytes, o.Command = a.Write, max(a.BytesIn, 0)+max(a.BytesOut, 0), a.Command
		t.next++
	}
}

// read returns what has come since a reader's place, and keeps what comes from now on.
func (t *trafficLog) read(after uint64, now time.Duration) (p TrafficPage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.askedAt = now
	if t.ops == nil {
		t.ops, t.tooLong = make([]TrafficOp, maxTraffic), 0
		t.next += maxTraffic // those of before are gone
		t.reading.Store(true)
		return TrafficPage{Next: t.next}
	}
	p.Next, p.TooLong = t.next, t.tooLong
	after = min(after, t.next)
	if first := max(t.next, maxTraffic) - maxTraffic; after < first {
		p.Lost = first - after
		after = first
	}
	for ; after < t.next; after++ {
		o := t.ops[after%maxTraffic]
		o.Key = append(partition.Position(nil), o.Key...)
		p.Ops = append(p.Ops, o)
	}
	return p
}

// expire drops all if no reader has asked for a while.
func (t *trafficLog) expire(now time.Duration) {
	if !t.reading.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if now-t.askedAt > trafficLease {
		t.ops = nil
		t.reading.Store(false)
	}
}

// Traffic returns the operations of a sample that have come since a place, which is 0 for a new reader: one of
// [TrafficEvery]. They are kept from the first call on, until no reader has asked for ten seconds. There are none with
// [Options.HeatOff].
func (n *Node) Traffic(after uint64) TrafficPage {
	if n.heat == nil {
		return TrafficPage{}
	}
	if after == 0 {
		p := n.heat.traffic.read(0, n.heat.now())
		return TrafficPage{Next: p.Next, TooLong: p.TooLong}
	}
	return n.heat.traffic.read(after, n.heat.now())
}
