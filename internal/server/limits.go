package server

import (
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/server/pubsub"
	"github.com/cleavekv/cleave/internal/server/settings"
	"github.com/cleavekv/cleave/internal/shard/command"
)

// What clients may take up. A buffer grows by what has arrived, never by what a client
// says that it will send. See DESIGN.md for the attacks that each limit is about.
const (
	// maxUnreadBytes is how many bytes of answers a client may leave unread before its requests
	// are left unread too.
	maxUnreadBytes = 1 << 20
	// minAccountedBytes is from which size on the buffers of a client are counted: smaller
	// ones are bounded by the number of clients.
	minAccountedBytes = 64 << 10
	// maxRequestTime is how long a client may take to send a request that it has begun,
	// and maxWriteTime how long it may take none of its answers.
	maxRequestTime = 2 * time.Minute
	maxWriteTime   = time.Minute
	// maxWatchedKeys, maxSubscriptions and maxNameBytes are how many keys a client may watch, how
	// many channels it may listen to, and how long what it says about itself may be.
	maxWatchedKeys   = 10_000
	maxSubscriptions = 100_000
	maxNameBytes     = 1 << 10
)

// appendInput adds what has arrived to what is not taken. A large request gets as much memory as it
// says that it needs, but no more than twice what has arrived of it: growing by less each time
// would copy it over and over, and leave several times its size as garbage.
func (c *client) appendInput(data []byte) {
	if have := len(c.in) + len(data); have > cap(c.in) && have >= minAccountedBytes {
		more := make([]byte, len(c.in), have+min(max(c.parser.MissingBytes(have), minAccountedBytes), have))
		copy(more, c.in)
		c.in = more
	}
	c.in = append(c.in, data...)
}

// clientMemory are what all clients take up, and may.
type clientMemory struct {
	outputLimits atomic.Pointer[settings.BufferLimits]
	// usedBytes is what is counted, and most the setting maxmemory-clients, 0 for no limit.
	usedBytes, maxBytes atomic.Int64
}

// outputLimit is that of a client.
func (c *client) outputLimit() settings.BufferLimit {
	l := c.s.clientMemory.outputLimits.Load()
	if c.status.subscribed.Load() {
		return l.Pubsub
	}
	return l.Normal
}

// accountMemory counts the buffers of a client, and what it has left to do. If all clients together take more than they may,
// one that takes more than its share is closed. It is for the client's owner.
func (c *client) accountMemory() {
	if c.busy && c.handedOff {
		return // it is another's
	}
	n := int64(cap(c.in) + cap(c.out.Bytes) + c.outSent)
	if c.backlog != nil {
		n += int64(c.backlog.memoryBytes())
	}
	if c.queue != nil {
		n += int64(c.queue.bytes)
	}
	n += int64(c.nameBytes + c.watchedBytes + c.prefixBytes)
	if c.status.memoryBytes.Load() != n {
		c.status.memoryBytes.Store(n)
	}
	if n < minAccountedBytes {
		n = 0
	}
	grown := n - c.accountedBytes
	if grown == 0 {
		return
	}
	c.accountedBytes = n
	used, most := c.s.clientMemory.usedBytes.Add(grown), c.s.clientMemory.maxBytes.Load()
	if grown > 0 && most > 0 && used > most && n > most/int64(max(1, c.s.clients.len())) {
		c.closeForLimit("the buffers of all clients are above maxmemory-clients, and it takes more than its share")
	}
}

// keepUnsent makes what was not sent, the end of the answers, all that is left of them, and returns how many
// bytes it has moved. Many bytes stay where they are: a client that reads slowly takes them in small parts, and to
// move the others each time would cost the square of their size.
func (c *client) keepUnsent(out []byte) (moved int) {
	if cap(c.out.Bytes) > c.outCap {
		c.outSent = 0 // it has grown into other memory
	}
	switch n := len(c.out.Bytes) - len(out); {
	case len(out) > maxRetainedBytes:
		c.out.Bytes, c.outSent = out, c.outSent+n
	case c.outSent > 0 || len(out) == 0 && cap(c.out.Bytes) > maxRetainedBytes:
		c.out.Bytes, c.outSent, moved = append([]byte(nil), out...), 0, len(out) // the rest of the memory goes
	default:
		c.out.Bytes, moved = append(c.out.Bytes[:0], out...), len(out)
	}
	c.outCap = cap(c.out.Bytes)
	return moved
}

// keepRest makes what take has left, the end of c.in, all that c.in holds, and returns how many bytes
// it has moved. A part of a request stays where it is: it comes in many small reads, and to move it
// at each of them would cost the square of its size.
func (c *client) keepRest(rest []byte) (moved int) {
	if len(rest) == len(c.in) {
		return 0
	}
	if c.in = append(c.in[:0], rest...); len(rest) == 0 && cap(c.in) > maxRetainedBytes {
		c.in = nil
	}
	return len(rest)
}

// checkNames refuses names of channels, patterns and prefixes that are longer than a key may be.
func checkNames(what string, names ...[]byte) error {
	for _, name := range names {
		if len(name) > command.MaxKeyBytes {
			return &command.LimitError{What: what, Got: len(name), Limit: command.MaxKeyBytes}
		}
	}
	return nil
}

// closeForLimit closes a connection that takes more than it may, and says so in the log. It may
// be called from any goroutine.
func (c *client) closeForLimit(why string) {
	c.s.clientLog.logClosed(c, why)
	c.s.stats.ClosedClients.Add(1)
	c.conn.closeConn()
}

// recordPartialRequest notes whether a client has begun a request that is not whole: since now if it
// has sent others before that.
func (s *clientStatus) recordPartialRequest(half, some bool, nowMS int64) {
	switch {
	case !half:
		if s.partialSinceMS.Load() != 0 {
			s.partialSinceMS.Store(0)
		}
	case some || s.partialSinceMS.Load() == 0:
		s.partialSinceMS.Store(nowMS)
	}
}

// recordUnread notes how many bytes of answers were not taken, and whether some were.
func (s *clientStatus) recordUnread(n int, some bool, nowMS int64) {
	if n == 0 {
		if s.unreadSinceMS.Load() != 0 {
			s.unreadSinceMS.Store(0)
		}
		return
	}
	if some || s.unreadSinceMS.Load() == 0 {
		s.unreadSinceMS.Store(nowMS)
	}
}

// overdueReason is why a connection takes too long at a moment, empty if it does not.
func (c *client) overdueReason(now time.Time) string {
	since := func(ms int64) time.Duration {
		if ms == 0 {
			return 0
		}
		return now.Sub(time.UnixMilli(ms))
	}
	switch {
	case since(c.status.partialSinceMS.Load()) > maxRequestTime:
		return "a request that it has begun did not end"
	case since(c.status.unreadSinceMS.Load()) > maxWriteTime:
		return "it does not read its answers"
	}
	l, n := c.outputLimit(), c.status.unsentBytes.Load()
	switch {
	case l.Soft == 0 || n <= l.Soft:
		c.status.softLimitSinceMS.Store(0)
	case c.status.softLimitSinceMS.Load() == 0:
		c.status.softLimitSinceMS.Store(now.UnixMilli())
	case since(c.status.softLimitSinceMS.Load()) > l.SoftTime:
		return "more messages and answers than the soft limit of client-output-buffer-limit have waited for too long"
	}
	return ""
}

const (
	// sweepInterval is how often connections are looked at.
	sweepInterval = time.Second
	// maxAuthTime is how long a client may take to say who it is.
	maxAuthTime = 30 * time.Second
)

// sweepClients closes connections that take up room for nothing, until the server is closed:
// those that say nothing for longer than the setting timeout, if that is not 0, those that
// do not say who they are, and those that neither end a request nor read their answers.
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
	for _, c := range s.clients.list() {
		last := time.UnixMilli(c.status.lastRequestMS.Load())
		if last.Before(c.connectedAt) {
			last = c.connectedAt
		}
		idle := now.Sub(last)
		listens := s.hub.CountSubscriptions(c) != [pubsub.ScopeCount]int{}
		if limit > 0 && idle > limit && !listens {
			s.clientLog.logClosed(c, "idle for longer than the setting timeout")
			c.conn.closeConn()
		} else if !c.status.authenticated.Load() && now.Sub(c.connectedAt) > maxAuthTime {
			s.clientLog.logClosed(c, "it did not say who it is in time")
			c.conn.closeConn()
		} else if why := c.overdueReason(now); why != "" {
			c.closeForLimit(why)
		}
	}
}
