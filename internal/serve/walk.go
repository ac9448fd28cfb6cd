package serve

import (
	"context"
	"errors"

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
	return s.within(ctx, k, func() error {
		return inside.Scan(ctx, s.db, k, span, limit, func(name []byte, kind command.Kind, expiryMS int64) bool {
			return visit(key{name, kind, expiryMS})
		})
	})
}

// within calls look, which reads a keyspace, or returns node.ErrNoKeyspace before it has read anything.
// The keyspace was there when the request came: if it was emptied since, there is nothing in it, and that
// is no error.
func (s *Server) within(ctx context.Context, k *node.Space, look func() error) error {
	for {
		err := look()
		if !errors.Is(err, node.ErrNoKeyspace) {
			return err
		}
		if now, gone := s.node.Successor(ctx, k); gone != nil {
			return err
		} else if now != k {
			return nil
		} // it was to be emptied, and has stayed
	}
}
