package serve

import (
	"time"

	"github.com/cleavekv/cleave/internal/api"
)

// observe tells whoever wants to know about a request. It costs nothing if nobody does.
func (s *Server) observe(kind string, requests int, e func() slowEntry) {
	if s.opts.Observe == nil {
		return
	}
	entry := e()
	s.opts.Observe(api.Observed{Slow: entry.told(), Kind: kind, Requests: requests})
}

// observed runs a transaction, and tells of it unless it is told of as one that took long.
func (s *Server) observed(u *unit, run func()) {
	if s.opts.Observe == nil {
		run()
		return
	}
	began := time.Now()
	run()
	if took := time.Since(began); !s.slow.isSlow(took) {
		s.observe("transaction", len(u.items), func() slowEntry { return u.c.entry(u.items[0].Args, took, spot{}) })
	}
}
