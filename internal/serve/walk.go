package serve

import (
	"context"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/inside"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/partition"
)

// key is a key that a walk has found.
type key struct {
	name []byte
	kind command.Kind
	// expiryMS is when it expires, 0 for never.
	expiryMS int64
}

// walk visits live keys of a span in order, so many if limit is positive.
func (s *Server) walk(ctx context.Context, k *node.Space, span partition.Span, limit int, visit func(key) bool) error {
	return inside.Scan(ctx, s.db, k, span, limit, func(name []byte, kind command.Kind, expiryMS int64) bool {
		return visit(key{name, kind, expiryMS})
	})
}
