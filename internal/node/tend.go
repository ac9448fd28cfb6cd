package node

import (
	"context"
	"time"

	"github.com/cleavekv/cleave/internal/group"
)

// tend does a group's housekeeping until ctx ends, and that of the node if it
// is the first group. Errors are not lost: what failed here fails for the next
// command too, and housekeeping is tried again.
func (n *Node) tend(ctx context.Context, g *group.Group, first bool) {
	ticker := time.NewTicker(n.opts.TendEvery)
	defer ticker.Stop()
	nudged := g.Nudged()
	for {
		select {
		case <-ctx.Done():
			return
		case <-nudged:
		case <-ticker.C:
			nudged = g.Nudged()
		}
		if first {
			_ = n.clearDropped(ctx)
		}
		for {
			more, err := g.Tend(ctx)
			if err != nil {
				nudged = nil // not before the next tick: it would fail again
			}
			if err != nil || !more || ctx.Err() != nil {
				break
			}
		}
	}
}
