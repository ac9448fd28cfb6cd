package serve

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/redis"
)

// What clients may take up. A buffer grows by what has arrived, never by what a client
// says that it will send. See DESIGN.md for the attacks that each limit is about.
const (
	// unread is how many bytes of answers a client may leave unread before its requests
	// are left unread too.
	unread = 1 << 20
	// countedBytes is from which size on the buffers of a client are counted: smaller
	// ones are bounded by the number of clients.
	countedBytes = 64 << 10
	// requestTime is how long a client may take to send a request that it has begun,
	// and writeTime how long it may take none of its answers.
	requestTime = 2 * time.Minute
	writeTime   = time.Minute
	// maxWatched, maxNames and maxNameBytes are how many keys a client may watch, how
	// many channels it may listen to, and how long what it says about itself may be.
	maxWatched   = 10_000
	maxNames     = 100_000
	maxNameBytes = 1 << 10
)

// bufferLimits are the setting client-output-buffer-limit, by the kinds of clients.
type bufferLimits struct{ normal, pubsub bufferLimit }

// bufferLimit is how many bytes may wait for a client: never more than hard, and no more
// than soft for longer than a time. 0 is no limit.
type bufferLimit struct {
	hard, soft int64
	time       time.Duration
}

// defaultBuffers is the setting at first. Redis has no limit for normal clients: who asks
// for more than fits into memory, and does not read it, would end the server.
const defaultBuffers = "normal 1073741824 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"

// readBuffers reads the setting. Kinds that it does not name stay as they are.
func readBuffers(text string, now bufferLimits) (bufferLimits, error) {
	words := strings.Fields(text)
	if len(words) == 0 || len(words)%4 != 0 {
		return now, redis.Error("Wrong number of arguments in buffer limit configuration.")
	}
	for ; len(words) > 0; words = words[4:] {
		hard, ok1 := bytesOf(words[1])
		soft, ok2 := bytesOf(words[2])
		seconds, err := strconv.ParseInt(words[3], 10, 32)
		if !ok1 || !ok2 || err != nil || hard < 0 || soft < 0 || seconds < 0 {
			return now, redis.Error("Error in hard, soft or soft_seconds setting in buffer limit configuration.")
		}
		limit := bufferLimit{hard, soft, time.Duration(seconds) * time.Second}
		switch strings.ToLower(words[0]) {
		case "normal":
			now.normal = limit
		case "pubsub":
			now.pubsub = limit
		case "slave", "replica": // there are none
		default:
			return now, redis.Error("Invalid client class specified in buffer limit configuration.")
		}
	}
	return now, nil
}

// buffers are what all clients take up, and may.
type buffers struct {
	limits atomic.Pointer[bufferLimits]
	// used is what is counted, and most the setting maxmemory-clients, 0 for no limit.
	used, most atomic.Int64
}

// limit is that of a client.
func (c *client) limit() bufferLimit {
	l := c.s.buffers.limits.Load()
	if c.seen.listens.Load() {
		return l.pubsub
	}
	return l.normal
}

// count counts the buffers of a client, and what it has left to do. If all clients together take more than they may,
// one that takes more than its share is closed. It is for the client's owner.
func (c *client) count() {
	if c.busy && c.away {
		return // it is another's
	}
	n := int64(cap(c.in) + cap(c.out.Bytes))
	if c.backlog != nil {
		n += int64(c.backlog.size())
	}
	if c.queue != nil {
		n += int64(c.queue.bytes)
	}
	if n < countedBytes {
		n = 0
	}
	grown := n - c.counted
	if grown == 0 {
		return
	}
	c.counted = n
	used, most := c.s.buffers.used.Add(grown), c.s.buffers.most.Load()
	if grown > 0 && most > 0 && used > most && n > most/int64(max(1, c.s.clients.len())) {
		c.refuse("the buffers of all clients are above maxmemory-clients, and it takes more than its share")
	}
}

// refuse closes a connection that takes more than it may, and says so in the log. It may
// be called from any goroutine.
func (c *client) refuse(why string) {
	c.s.opts.Log.Warn("closed a client", "id", c.id, "addr", c.from, "why", why)
	c.s.stats.closed.Add(1)
	c.conn.kill()
}

// progress notes whether a client has begun a request that is not whole: since now if it
// has sent others before that.
func (s *seen) progress(half, some bool, nowMS int64) {
	switch {
	case !half:
		if s.halfMS.Load() != 0 {
			s.halfMS.Store(0)
		}
	case some || s.halfMS.Load() == 0:
		s.halfMS.Store(nowMS)
	}
}

// left notes how many bytes of answers were not taken, and whether some were.
func (s *seen) left(n int, some bool, nowMS int64) {
	if n == 0 {
		if s.stuckMS.Load() != 0 {
			s.stuckMS.Store(0)
		}
		return
	}
	if some || s.stuckMS.Load() == 0 {
		s.stuckMS.Store(nowMS)
	}
}

// overdue is why a connection takes too long at a moment, empty if it does not.
func (c *client) overdue(now time.Time) string {
	since := func(ms int64) time.Duration {
		if ms == 0 {
			return 0
		}
		return now.Sub(time.UnixMilli(ms))
	}
	switch {
	case since(c.seen.halfMS.Load()) > requestTime:
		return "a request that it has begun did not end"
	case since(c.seen.stuckMS.Load()) > writeTime:
		return "it does not read its answers"
	}
	l, n := c.limit(), c.seen.waiting.Load()
	switch {
	case l.soft == 0 || n <= l.soft:
		c.seen.softMS.Store(0)
	case c.seen.softMS.Load() == 0:
		c.seen.softMS.Store(now.UnixMilli())
	case since(c.seen.softMS.Load()) > l.time:
		return "more messages and answers than the soft limit of client-output-buffer-limit have waited for too long"
	}
	return ""
}
