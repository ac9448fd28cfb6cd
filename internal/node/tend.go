package node

import (
	"context"
	"errors"
	"time"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/store"
)

// tend does a group's housekeeping until ctx ends. Errors are not lost: what failed
// here fails for the next command too, and housekeeping is tried again.
func (n *Node) tend(ctx context.Context, p *Part) {
	ticker := time.NewTicker(n.opts.TendEvery)
	defer ticker.Stop()
	g := p.Group
	nudged := g.Nudged()
	for {
		select {
		case <-ctx.Done():
			return
		case <-nudged:
		case <-ticker.C:
			nudged = g.Nudged()
		}
		if p.failed() {
			n.feeds.ring() // nobody will commit: those who wait for that hear why
		}
		n.tendTransactions(ctx, p)
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

// tendDropped clears dropped keyspaces until the node is closed. One of many rows takes
// long: no group waits for that with its housekeeping.
func (n *Node) tendDropped() {
	ticker := time.NewTicker(n.opts.TendEvery)
	defer ticker.Stop()
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-ticker.C:
			_ = n.clearDropped(n.ctx) // what failed is tried again
		}
	}
}

// failed tells whether the store has stopped, which it may do by itself.
func (p *Part) failed() bool { return p.Host.failed() }

func (h *Host) failed() bool { return h.why() != nil }

// why is why the store has failed, nil if it has not.
func (h *Host) why() error {
	if _, _, err := h.Store.Get([]byte{byte(effect.State)}, nil); errors.Is(err, store.ErrFailed) {
		return err
	}
	return nil // there may be too many open files, which passes
}
