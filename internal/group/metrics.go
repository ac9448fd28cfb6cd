package group

import "github.com/cleavekv/cleave/actor"

// Metrics are figures of a group. Counters count since Open.
type Metrics struct {
	QueueDepth int
	Commands   uint64 // handled, those of housekeeping included
	Refused    uint64 // turned away before they were executed
	Batches    uint64 // times that waiting commands were taken together
	QueueWait  actor.Histogram
	Service    actor.Histogram // of a batch, the sync included
	ClockMS    int64
	Expired    uint64 // keys that were deleted because their time was over
}

// Metrics returns the figures of now. It waits for nobody.
func (g *Group) Metrics() Metrics {
	s := g.actor.Stats()
	return Metrics{
		QueueDepth: s.Depth, Commands: s.Handled + g.joined.Load(), Refused: s.Refused, Batches: s.Batches + g.joinedBatches.Load(),
		QueueWait: s.QueueWait, Service: s.Service, ClockMS: g.clock.now(), Expired: g.expired.Load(),
	}
}
