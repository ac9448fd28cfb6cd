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
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.Nudged():
		case <-ticker.C:
		}
		if first {
			_ = n.clearDropped(ctx)
		}
		for {
			more, err := g.Tend(ctx)
			if err != nil || !more || ctx.Err() != nil {
				break
			}
		}
	}
}
