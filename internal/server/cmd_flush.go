package server

import (
	"errors"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/server/redis"
)

func init() {
	registerBlockingHandlers(map[string]func(*call){
		"flushdb":  func(t *call) { flushKeyspaces(t, func() []*node.Keyspace { return []*node.Keyspace{t.c.keyspace} }) },
		"flushall": func(t *call) { flushKeyspaces(t, t.s.node.Keyspaces) },
		"save":     handleSave, "bgsave": handleSave,
	})
}

// flushKeyspaces removes all keys of keyspaces. Each is empty at one moment.
func flushKeyspaces(t *call, which func() []*node.Keyspace) {
	if len(t.Args) > 2 || len(t.Args) == 2 && !redis.IsKeyword(t.Args[1], "ASYNC") && !redis.IsKeyword(t.Args[1], "SYNC") {
		t.out.Fail(redis.ErrSyntax)
		return
	}
	for _, k := range which() {
		if k.OwningIndex() != "" {
			continue // its entries follow from the rows
		}
		if err := t.s.emptyKeyspace(t.ctx, k); err != nil && !errors.Is(err, node.ErrNoKeyspace) {
			t.out.Fail(err)
			return
		}
	}
	t.s.followKeyspace(t.ctx, t.c)
	t.out.OK()
}

// handleSave waits until all that was acknowledged is on disk.
func handleSave(t *call) {
	if len(t.Args) > 2 || len(t.Args) == 2 && !redis.IsKeyword(t.Args[1], "SCHEDULE") { // only BGSAVE may have any
		t.out.Fail(redis.ErrSyntax)
		return
	}
	for _, h := range t.s.node.StoreHosts() {
		if err := h.Store.Sync(); err != nil {
			t.out.Fail(err)
			return
		}
	}
	if t.Spec.Name == "bgsave" {
		t.out.Simple("Background saving started")
		return
	}
	t.out.OK()
}
