package node

import (
	"testing"

	"github.com/cleavekv/cleave/partition"
)

// A shard is split between two of its slots. One that has a single slot is not split there, and
// never before the first slot of the keyspace: nothing is there.
func TestAHashKeyspaceIsSplitBetweenItsSlots(t *testing.T) {
	for slots := 1; slots <= 8; slots *= 2 {
		k := &partition.Keyspace{ID: 7, Kind: partition.Hash, Slots: slots}
		for first := range slots {
			for end := first + 1; end <= slots; end++ {
				s := partition.Span{Start: k.SlotSpan(uint16(first)).Start, End: k.SlotSpan(uint16(end)).Start}
				if first == 0 {
					s.Start = k.Span().Start
				}
				if end == slots {
					s.End = k.Span().End
				}
				at := middleSlot(k, s)
				got := k.SlotAt(at)
				if first == 0 && end == 1 && at != nil || end-first > 1 && (got <= first || got >= end) {
					t.Errorf("slots %d to %d of %d are split at %x", first, end-1, slots, []byte(at))
				}
			}
		}
	}
}
