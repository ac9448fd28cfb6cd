package serve

import (
	"context"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/partition"
)

// slotRows is how many keys of one slot a page has beyond what was asked for.
const slotRows = 10_000

// place is where a page begins: at a slot, or within one.
type place struct {
	at     partition.Position
	within bool
}

// page visits the live keys from a position on: so many, and the others of the last
// one's slot. It returns where the next page begins, with a nil position at the end.
func (s *Server) page(ctx context.Context, k *node.Space, from partition.Position, count int, visit func(key)) (next place, err error) {
	n, slot := 0, -1
	err = s.walk(ctx, k, partition.Span{Start: from, End: k.Span().End}, 0, func(found key) bool {
		p := k.AppendPosition(nil, found.name)
		at := slotOf(k, p)
		if n >= count && (at != slot || k.Kind != partition.Hash || n-count >= slotRows) {
			next = place{p, at == slot}
			return false
		}
		n, slot = n+1, at
		visit(found)
		return true
	})
	return next, err
}

// slotOf is the slot of a position, -1 in a keyspace that has none.
func slotOf(k *node.Space, p partition.Position) int {
	if k.Kind == partition.Hash {
		return k.SlotAt(p)
	}
	return -1
}
