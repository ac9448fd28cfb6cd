package distributor

import (
	"bytes"

	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/partition"
)

// Request returns the job that a proposal wants, which is not Keep: s is its shard as it was planned for, and in the
// keyspace of that.
func (d *Proposal) Request(s partition.Shard, in *partition.Keyspace) mover.Request {
	switch d.Change {
	case Split:
		return mover.Request{Kind: mover.Split, Shard: d.Shard, Expect: s.Changed, In: in, At: d.At}
	case Merge:
		return mover.Request{Kind: mover.Merge, Shard: d.Shard, Right: d.With}
	}
	return mover.Request{Kind: mover.Move, Shard: d.Shard, Expect: s.Changed, To: d.To}
}

// CutsByLoad returns split points of a shard at the cuts of a sample of its load. bytesBefore returns the share of the
// shard's bytes before a position.
func CutsByLoad(found []heat.Cut, s partition.Span, in *partition.Keyspace, bytesBefore func(partition.Position) float64) (cuts []SplitPoint) {
	for _, c := range found {
		at := partition.Position(c.Key)
		if !in.Span().Contains(at) {
			continue
		}
		if in.Kind == partition.Hash {
			// Where a slot begins, unless the shard does so within it: then all of its load is in few slots.
			if slot := in.SlotSpan(uint16(in.SlotAt(at))).Start; bytes.Compare(s.Start, slot) < 0 {
				at = slot
			}
		}
		cuts = append(cuts, SplitPoint{At: at, Work: c.Before, Bytes: bytesBefore(at)})
	}
	return cuts
}
