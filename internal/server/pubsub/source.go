package pubsub

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/engine"
	"github.com/cleavekv/cleave/internal/node"
)

// ChangeSource is where changes are read from, and how long: the store of a server.
type ChangeSource struct {
	DB     *cleave.DB
	Engine *engine.DB
	Node   *node.Node
	Log    *slog.Logger
	// Ctx ends with the server, which waits for running.
	Ctx     context.Context
	Running *sync.WaitGroup
}

// wait waits, but not beyond the end of ctx.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
