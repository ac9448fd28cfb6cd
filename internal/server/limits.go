package server

import (
	"time"

	"github.com/cleavekv/cleave/internal/server/pubsub"
	"github.com/cleavekv/cleave/internal/shard/command"
)

// What a client may be remembered by.
const (
	// maxWatchedKeys, maxSubscriptions and maxNameBytes are how many keys a client may watch, how
	// many channels it may listen to, and how long what it says about itself may be.
	maxWatchedKeys   = 10_000
	maxSubscriptions = 100_000
	maxNameBytes     = 1 << 10
)

// checkNames refuses names of channels, patterns and prefixes that are longer than a key may be.
func checkNames(what string, names ...[]byte) error {
	for _, name := range names {
		if len(name) > command.MaxKeyBytes {
			return &command.LimitError{What: what, Got: len(name), Limit: command.MaxKeyBytes}
		}
	}
	return nil
}

const (
	// sweepInterval is how often connections are looked at.
	sweepInterval = time.Second
	// maxAuthTime is how long a client may take to authenticate.
	maxAuthTime = 30 * time.Second
)

// sweepClients closes connections that take up room for nothing, until the server is closed:
// those that send nothing for longer than the setting timeout, if that is not 0, those that
// do not authenticate, and those that neither end a request nor read their answers.
func (s *Server) sweepClients() {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			s.stats.Sample()
			s.sweepClientsOnce(s.opts.Now())
		}
	}
}

func (s *Server) sweepClientsOnce(now time.Time) {
	limit := time.Duration(s.config.Number("timeout")) * time.Second
	for _, c := range s.clients.List() {
		last := time.UnixMilli(c.Status.LastRequestMS.Load())
		if last.Before(c.ConnectedAt) {
			last = c.ConnectedAt
		}
		idle := now.Sub(last)
		listens := s.hub.CountSubscriptions(c) != [pubsub.ScopeCount]int{}
		if limit > 0 && idle > limit && !listens {
			s.clients.Log.LogClosed(c, "idle for longer than the setting timeout")
			c.CloseConn()
		} else if !c.Status.Authenticated.Load() && now.Sub(c.ConnectedAt) > maxAuthTime {
			s.clients.Log.LogClosed(c, "it did not say who it is in time")
			c.CloseConn()
		} else if why := c.OverdueReason(now); why != "" {
			c.CloseForLimit(why)
		}
	}
}
