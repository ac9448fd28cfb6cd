package node

import (
	"bytes"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

// Middle returns where to split a shard so that about half of its bytes are on each
// side, and in which keyspace: at a slot, or at a key, never among the elements of one.
// It is false if there is no such place, or nobody knows.
func (n *Node) Middle(s partition.Shard) (at partition.Position, in *partition.Keyspace, ok bool) {
	p := n.part(s.Group)
	if p == nil {
		return nil, nil, false // it is about to be opened, or was removed
	}
	k := n.mostOf(s)
	if k == nil {
		return nil, nil, false
	}
	span := s.Span.Intersect(k.Span())
	if k.Kind == partition.Hash {
		at = middleSlot(k, span)
	} else {
		at = p.middleKey(k, span)
	}
	// The first key of the keyspace may be its boundary with what comes before.
	return at, k, at != nil && bytes.Compare(span.Start, at) < 0 && s.Span.Contains(at)
}

// mostOf returns the keyspace that has most of a shard, or nil.
func (n *Node) mostOf(s partition.Shard) (most *partition.Keyspace) {
	var in []*partition.Keyspace
	n.mu.RLock()
	for _, k := range n.byID {
		if k.Span().Overlaps(s.Span) {
			in = append(in, &k.Keyspace)
		}
	}
	n.mu.RUnlock()
	var bytes uint64
	for _, k := range in {
		part := s
		part.Span = s.Span.Intersect(k.Span())
		if size, err := n.SizeOf(part); err == nil && (most == nil || size.Bytes > bytes) {
			most, bytes = k, size.Bytes
		}
	}
	return most
}

// middleSlot returns where the middle one of the slots of a span begins: keys are
// spread evenly over them. It is nil if that is the first one, before which there are no keys.
func middleSlot(k *partition.Keyspace, s partition.Span) partition.Position {
	first, end := k.SlotAt(s.Start), k.SlotCount()
	if k.Span().Contains(s.End) {
		end = k.SlotAt(s.End)
	}
	middle := (first + end) / 2
	if middle == 0 {
		return nil
	}
	return k.SlotSpan(uint16(middle)).Start
}

// middleKey returns the key in the middle of a span, by bytes, or nil.
func (p *Part) middleKey(k *partition.Keyspace, s partition.Span) partition.Position {
	row, err := p.Store.Middle(effect.Rows.AppendKey(nil, s.Start), effect.Rows.AppendKey(nil, s.End))
	if err != nil || row == nil {
		return nil // it will be asked for again, or does not matter
	}
	at, err := k.WholeKey(row[1:])
	if err != nil {
		return nil
	}
	if bytes.Compare(at, s.Start) <= 0 { // the first collection has most of it
		key, _, err := k.Split(nil, row[1:])
		if err != nil {
			return nil
		}
		at = k.KeySpan(key).End
	}
	return at
}
