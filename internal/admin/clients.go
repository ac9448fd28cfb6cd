package admin

import (
	"context"

	"github.com/cleavekv/cleave/internal/api"
)

func (a *Admin) clients(_ context.Context, q *query) (api.Page[api.Connection], error) {
	return page(q, a.o.Server.Connections(), func(_ int, c api.Connection) uint64 { return c.ID }, false)
}

func (a *Admin) slowlog(_ context.Context, q *query) (api.Page[api.Slow], error) {
	return page(q, a.o.Server.Slowlog(), func(_ int, s api.Slow) uint64 { return uint64(s.ID) }, true)
}
