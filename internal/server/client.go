package server

import (
	"fmt"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/server/acl"
	"github.com/cleavekv/cleave/internal/server/conn"
	"github.com/cleavekv/cleave/internal/server/pubsub"
)

// client is the session of one connection: what its requests mean. It belongs to its worker, but for the time in
// which the connection is busy: then it belongs to the goroutine that does something for it. Between two rounds in
// which nothing is under way for it, it may get another worker.
type client struct {
	conn.Conn
	s *Server
	w *worker

	// account is the user: see Info.user.
	account  *acl.Account
	keyspace *node.Keyspace
	// stagedUser is the user of what is staged.
	stagedUser *acl.User
	// backlog is what is left to do, nil for nothing, and waited how long what is staged of it has waited before.
	backlog *backlog
	waited  time.Duration
	// subscribed reports whether it has subscriptions.
	subscribed bool
	// watchedKeys are the keys of WATCH.
	watchedKeys []watchedKey
	// watchedByHash are the indexes of watchedKeys by the hashes of their keys.
	watchedByHash map[uint64][]int32
	// nameBytes, watchedBytes and prefixBytes are about how much memory the names that it listens to, the
	// keys of WATCH and the prefixes that it tracks take.
	nameBytes, watchedBytes, prefixBytes int
	// queue is what MULTI has gathered, nil outside of it.
	queue *multiQueue

	// tracking is how it tracks what it reads, nil for not at all, cachingGiven reports
	// that CLIENT CACHING was sent, and unansweredReads is what it has no answer to yet.
	tracking        *pubsub.Tracking
	cachingGiven    bool
	unansweredReads pubsub.UnansweredReads
}

// TakeRequests implements [conn.Session].
func (c *client) TakeRequests(data []byte) (rest []byte) { return c.w.takeRequests(c, data) }

// SetExecutor implements [conn.Session].
func (c *client) SetExecutor(e conn.Executor) {
	c.w = e.(*worker)
}

// HasBacklog implements [conn.Session].
func (c *client) HasBacklog() bool { return c.hasBacklog() }

// Close implements [conn.Session].
func (c *client) Close() { c.s.removeClient(c) }

// MemoryBytes implements [conn.Session]: it is what is left to do, and what the client is remembered by.
func (c *client) MemoryBytes() int {
	n := c.nameBytes + c.watchedBytes + c.prefixBytes
	if c.backlog != nil {
		n += c.backlog.memoryBytes()
	}
	if c.queue != nil {
		n += c.queue.bytes
	}
	return n
}

// setAccount makes the connection one of a user.
func (c *client) setAccount(a *acl.Account) {
	c.account = a
	name := a.User().Name
	c.Status.UpdateInfo(func(s *conn.Info) { s.User = name })
}

// setKeyspace chooses the keyspace.
func (c *client) setKeyspace(k *node.Keyspace) {
	c.keyspace = k
	c.Status.UpdateInfo(func(a *conn.Info) { a.Keyspace = k.Name })
}

// RecordAnswered implements [conn.Session]: the client has the answers to all that it has read, unless some are left
// to do.
func (c *client) RecordAnswered() {
	if len(c.unansweredReads) == 0 || c.Staged > 0 || c.Busy || c.hasBacklog() || c.queue != nil {
		return
	}
	c.s.tracker.RecordAnswered(&c.Conn, &c.unansweredReads)
}

// setDefaultAccount makes the connection one of the default user, which may need a password.
func (c *client) setDefaultAccount() {
	c.setAccount(c.s.users.DefaultAccount())
	u := c.account.User()
	c.Status.Authenticated.Store(u.NoPass && u.IsOn)
}

// needsAuth reports whether a client still has to authenticate.
func (c *client) needsAuth() bool {
	if c.Status.Authenticated.Load() {
		return false
	}
	u := c.account.User()
	return !u.NoPass || !u.IsOn
}

// clientBaseBytes is about how much memory a client takes that has nothing waiting.
const clientBaseBytes = 3 << 10

// formatClient is a client in CLIENT LIST.
func (s *Server) formatClient(c *conn.Conn, now time.Time) string {
	a, subs := c.Status.LoadInfo(), s.hub.CountSubscriptions(c)
	cmd := "NULL"
	if last := c.Status.LastCommand.Load(); last != nil {
		cmd = last.Name
	}
	flags := "N"
	if subs != [pubsub.ScopeCount]int{} {
		flags = "P"
	}
	return fmt.Sprintf("id=%d addr=%s name=%s age=%d idle=%d flags=%s db=0 keyspace=%s sub=%d psub=%d ssub=%d tot-mem=%d cmd=%s user=%s lib-name=%s lib-ver=%s resp=%d io-thread=%d",
		c.ID, c.RemoteAddr, a.Name, int(now.Sub(c.ConnectedAt).Seconds()), max(0, now.UnixMilli()-c.Status.LastRequestMS.Load())/1000, flags, a.Keyspace,
		subs[pubsub.ByChannel], subs[pubsub.ByPattern], subs[pubsub.BySlot], clientBaseBytes+c.Status.MemoryBytes.Load(), cmd, a.User, a.Library, a.LibraryVersion, c.Status.Protocol.Load(), c.Status.Loop.Load())
}
