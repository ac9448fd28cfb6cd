package serve

import (
	"strconv"
	"time"
)

const (
	// sweepEvery is how often connections are looked at.
	sweepEvery = time.Second
	// strangerTime is how long a client may take to say who it is.
	strangerTime = 30 * time.Second
)

// sweep closes connections that take up room for nothing, until the server is closed:
// those that say nothing for longer than the setting timeout, if that is not 0, those that
// do not say who they are, and those that neither end a request nor read their answers.
func (s *Server) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			s.stats.rates.note(s.stats.traffic(clock()))
			s.sweepOnce(s.opts.Now())
		}
	}
}

func (s *Server) sweepOnce(now time.Time) {
	seconds, _ := strconv.ParseInt(s.config.get("timeout"), 10, 64) // it is a number: see config.set
	limit := time.Duration(seconds) * time.Second
	for _, c := range s.clients.all() {
		last := time.UnixMilli(c.seen.lastMS.Load())
		if last.Before(c.since) {
			last = c.since
		}
		idle := now.Sub(last)
		listens := s.hub.counts(c) != [scopes]int{}
		if limit > 0 && idle > limit && !listens || !c.seen.known.Load() && now.Sub(c.since) > strangerTime {
			c.conn.kill()
		} else if why := c.overdue(now); why != "" {
			c.refuse(why)
		}
	}
}
