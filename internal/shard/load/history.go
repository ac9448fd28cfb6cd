package load

import (
	"time"

	"github.com/cleavekv/cleave/partition"
)

const (
	// SampleInterval is how often a history is given what was counted.
	SampleInterval = time.Second
	// maxSamples is how many samples are kept: rates are over up to five intervals. Over one, a shard that is asked a
	// few times a second is hot now and cold then; over a minute, what begins is seen late.
	maxSamples = 6
)

// History is what was counted up to some moments. It is no clock: times are handed in. It belongs to one goroutine at a
// time.
type History struct {
	samples []historySample // the oldest first
}

type historySample struct {
	at     time.Duration
	counts map[partition.ShardID]OpCounts
}

// Record notes what was counted up to a time, which is later than those before.
func (h *History) Record(at time.Duration, l *Loads) {
	s := historySample{at: at, counts: make(map[partition.ShardID]OpCounts, len(l.byID))}
	for id, of := range l.byID {
		s.counts[id] = of.OpCounts
	}
	if h.samples = append(h.samples, s); len(h.samples) > maxSamples {
		copy(h.samples, h.samples[1:])
		h.samples = h.samples[:maxSamples]
	}
}

// ShardRate is what is asked of a shard in a second.
type ShardRate struct {
	Reads, Writes, BytesIn, BytesOut, Errors float64
	// Busy is the time that is spent on it: 1 is one processor's, or that of one wait for a disk after the other.
	Busy float64
}

// Ops is how many operations there are in a second.
func (r ShardRate) Ops() float64 { return r.Reads + r.Writes }

// Rates returns the rates of all shards of which something was counted, over the time since the oldest sample. That
// of a shard that is newer is over the time since the sample before it was first seen, when it had nothing. There are
// none before the second sample.
func (h *History) Rates() map[partition.ShardID]ShardRate {
	rates := map[partition.ShardID]ShardRate{}
	if len(h.samples) < 2 {
		return rates
	}
	last := h.samples[len(h.samples)-1]
	for id, now := range last.counts {
		from := h.samples[0]
		for _, s := range h.samples[1:] {
			if _, seen := from.counts[id]; seen {
				break
			}
			if _, seen := s.counts[id]; seen {
				break
			}
			from = s
		}
		rates[id] = rateBetween(from.counts[id], now, last.at-from.at)
	}
	return rates
}

func rateBetween(before, now OpCounts, took time.Duration) ShardRate {
	seconds := took.Seconds()
	if seconds <= 0 {
		return ShardRate{}
	}
	// Of a shard that is gone some sets may have given up their counts.
	per := func(before, now uint64) float64 { return float64(now-min(before, now)) / seconds }
	return ShardRate{
		Reads: per(before.Reads, now.Reads), Writes: per(before.Writes, now.Writes), BytesIn: per(before.BytesIn, now.BytesIn),
		BytesOut: per(before.BytesOut, now.BytesOut), Errors: per(before.Errors, now.Errors), Busy: max(now.Busy-before.Busy, 0).Seconds() / seconds,
	}
}
