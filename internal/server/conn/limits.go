package conn

import (
	"time"

	"github.com/cleavekv/cleave/internal/server/settings"
)

// What clients may take up. A buffer grows by what has arrived, never by what a client
// says that it will send. See ../DESIGN.md for the attacks that each limit is about.
const (
	// MaxUnreadBytes is how many bytes of answers a client may leave unread before its requests
	// are left unread too.
	MaxUnreadBytes = 1 << 20
	// minAccountedBytes is from which size on the buffers of a client are counted: smaller
	// ones are bounded by the number of clients.
	minAccountedBytes = 64 << 10
	// MaxRequestTime is how long a client may take to send a request that it has begun,
	// and MaxWriteTime how long it may take none of its answers.
	MaxRequestTime = 2 * time.Minute
	MaxWriteTime   = time.Minute
)

// OutputLimit is that of a client.
func (c *Conn) OutputLimit() settings.BufferLimit {
	l := c.set.OutputLimits.Load()
	if c.Status.Subscribed.Load() {
		return l.Pubsub
	}
	return l.Normal
}

// CloseForLimit closes a connection that takes more than it may, and says so in the log. It may
// be called from any goroutine.
func (c *Conn) CloseForLimit(why string) {
	c.set.Log.LogClosed(c, why)
	c.set.stats.ClosedClients.Add(1)
	c.transport.Close()
}

// RecordPartialRequest notes whether a client has begun a request that is not whole: since now if it
// has sent others before that.
func (s *Status) RecordPartialRequest(half, some bool, nowMS int64) {
	switch {
	case !half:
		if s.PartialSinceMS.Load() != 0 {
			s.PartialSinceMS.Store(0)
		}
	case some || s.PartialSinceMS.Load() == 0:
		s.PartialSinceMS.Store(nowMS)
	}
}

// recordUnread notes how many bytes of answers were not taken, and whether some were.
func (s *Status) recordUnread(n int, some bool, nowMS int64) {
	if n == 0 {
		if s.UnreadSinceMS.Load() != 0 {
			s.UnreadSinceMS.Store(0)
		}
		return
	}
	if some || s.UnreadSinceMS.Load() == 0 {
		s.UnreadSinceMS.Store(nowMS)
	}
}

// OverdueReason is why a connection takes too long at a moment, empty if it does not.
func (c *Conn) OverdueReason(now time.Time) string {
	since := func(ms int64) time.Duration {
		if ms == 0 {
			return 0
		}
		return now.Sub(time.UnixMilli(ms))
	}
	switch {
	case since(c.Status.PartialSinceMS.Load()) > MaxRequestTime:
		return "a request that it has begun did not end"
	case since(c.Status.UnreadSinceMS.Load()) > MaxWriteTime:
		return "it does not read its answers"
	}
	l, n := c.OutputLimit(), c.Status.UnsentBytes.Load()
	switch {
	case l.Soft == 0 || n <= l.Soft:
		c.Status.softLimitSinceMS.Store(0)
	case c.Status.softLimitSinceMS.Load() == 0:
		c.Status.softLimitSinceMS.Store(now.UnixMilli())
	case since(c.Status.softLimitSinceMS.Load()) > l.SoftTime:
		return "more messages and answers than the soft limit of client-output-buffer-limit have waited for too long"
	}
	return ""
}
