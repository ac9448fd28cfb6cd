package server

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/server/acl"
	"github.com/cleavekv/cleave/internal/server/pubsub"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/server/resp"
	"github.com/cleavekv/cleave/internal/storage/store"
)

// client is one connection. It belongs to its worker, but for the time in which it is
// busy: then it belongs to the goroutine that does something for it.
type client struct {
	id   uint64
	s    *Server
	conn transport
	// remoteAddr and to are the addresses of both ends.
	remoteAddr, localAddr string
	connectedAt           time.Time

	// account is who it is: see seen.known.
	account *acl.Account

	keyspace *node.Keyspace
	parser   resp.Parser
	// in is what has arrived and was not taken: a part of a request, or requests behind
	// one that takes long.
	in  []byte
	out redis.Writer
	// outSent is how much memory before that of out is held by what was sent, and outCap how much there was
	// behind it: see keepUnsent.
	outSent, outCap int
	// staged is how many of its requests are staged, and store where they are.
	// Invariant: while it is positive, nothing is written to out but by commit.
	staged      int
	stagedStore *store.Store
	// stagedUser is who may ask for what is staged.
	stagedUser *acl.User
	// busy tells that there is something left to do which is under way, and away that a goroutine has the
	// client for that. Until then more may be added.
	busy, handedOff bool
	// backlog is what is left to do, nil for nothing, and first what comes before it: requests that
	// were staged and refused. Waited is how long what is staged of it has waited before.
	backlog *backlog
	refused []task
	waited  time.Duration
	// disconnected tells anybody that the connection is closed: nobody is answered any more.
	disconnected atomic.Bool
	// stalled tells that requests wait in in because it does not read its answers.
	stalled bool
	// accountedBytes is how much of its buffers is counted: see count.
	accountedBytes int64
	// closing tells that it is closed once out is written.
	closing bool
	// lingering tells that it is not closed before it has sent all: it would not see the last answer.
	lingering bool
	// subscribed tells that it has subscriptions.
	subscribed bool
	// repliesOff tells that the client wants no answers, and skip for how many requests.
	repliesOff  bool
	skipReplies int
	// replyIsPush tells that the answer at hand is a message, which is sent all the same.
	replyIsPush bool
	// watchedKeys are the keys of WATCH.
	watchedKeys []watchedKey
	// watchedByHash are the indexes of watchedKeys by the hashes of their keys.
	watchedByHash map[uint64][]int32
	// nameBytes, watchedBytes and prefixBytes are about how much memory the names that it listens to, the
	// keys of WATCH and the prefixes that it tracks take.
	nameBytes, watchedBytes, prefixBytes int
	// queue is what MULTI has gathered, nil outside of it.
	queue *multiQueue

	// tracking is what it wants to hear of what it reads, nil for nothing, caching tells
	// that CLIENT CACHING was said, and reads is what it has no answer to yet.
	tracking        *pubsub.Tracking
	cachingGiven    bool
	unansweredReads pubsub.UnansweredReads

	status  clientStatus
	mailbox mailbox
}

// clientStatus is what other connections may look at.
type clientStatus struct {
	mu sync.Mutex
	clientInfo
	lastCommand   atomic.Pointer[redis.Spec]
	lastRequestMS atomic.Int64
	// protocol is that of the protocol, for those who send it messages.
	protocol atomic.Uint32
	// authenticated tells that it has said who it is, or need not, and listens that it has
	// subscriptions.
	authenticated, subscribed atomic.Bool
	// partialSinceMS, unreadSinceMS and softLimitSinceMS are since when a request is not whole, no answer is
	// taken, and more than the soft limit waits; 0 for not at all. waiting is how much.
	partialSinceMS, unreadSinceMS, softLimitSinceMS, unsentBytes atomic.Int64
	// MemoryBytes is about how much it takes, as of when its answers were last sent.
	memoryBytes atomic.Int64
}

// clientInfo is what a client says about itself.
type clientInfo struct {
	name, library, libraryVersion string
	keyspace, user                string
}

// updateInfo changes what is said about a client.
func (s *clientStatus) updateInfo(change func(*clientInfo)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.clientInfo)
}

func (s *clientStatus) loadInfo() clientInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clientInfo
}

// transport is what a client's bytes come and go by.
type transport interface {
	// notifyOutput is called by the client's owner when out has got something, or the client
	// is closing.
	notifyOutput()
	// sendOutput is called by the client's owner before it is away for long: what it is answered so far need not
	// wait for that.
	sendOutput()
	// resumeClient is called when a client that was busy is not any more, from any goroutine.
	resumeClient()
	// notifyMail is called when the mailbox has got something, from any goroutine.
	notifyMail()
	// closeConn closes the connection, from any goroutine.
	closeConn()
}

// maxRetainedBytes is how much memory for answers a client keeps.
const maxRetainedBytes = 64 << 10

// setProtocol chooses the version of the protocol.
func (c *client) setProtocol(v resp.Version) {
	c.out.Version = v
	c.status.protocol.Store(uint32(v))
}

// setAccount makes the connection one of a user.
func (c *client) setAccount(a *acl.Account) {
	c.account = a
	name := a.User().Name
	c.status.updateInfo(func(s *clientInfo) { s.user = name })
}

// setKeyspace chooses the keyspace.
func (c *client) setKeyspace(k *node.Keyspace) {
	c.keyspace = k
	c.status.updateInfo(func(a *clientInfo) { a.keyspace = k.Name })
}

// writeReply writes the answer to a request. There is no command if it was refused before it was
// begun.
func (c *client) writeReply(spec *redis.Spec, write func(*redis.Writer)) {
	start := len(c.out.Bytes)
	write(&c.out)
	c.finishReply(spec, start)
	c.conn.notifyOutput()
}

// isReplyDiscarded tells that nobody wants to hear the answer at hand.
func (c *client) isReplyDiscarded() bool { return c.repliesOff && !c.replyIsPush || c.skipReplies > 0 }

// finishReply ends the answer that begins at a place: it is taken back if nobody wants to hear
// it.
func (c *client) finishReply(spec *redis.Spec, start int) {
	if len(c.out.Bytes) > start && c.out.Bytes[start] == '-' {
		c.s.stats.RecordError(spec, c.out.Bytes[start:])
	}
	if c.isReplyDiscarded() {
		c.out.Bytes = c.out.Bytes[:start]
		c.skipReplies = max(0, c.skipReplies-1)
	}
	c.replyIsPush = false
	if c.out.HasOverflowed && !c.closing {
		c.closing = true
		c.out.Bytes = nil
		c.closeForLimit("its answers are larger than client-output-buffer-limit")
	}
}

// clientRegistry is all connections.
type clientRegistry struct {
	mu   sync.Mutex
	byID map[uint64]*client
}

func (r *clientRegistry) init() { r.byID = map[uint64]*client{} }

// add adds a client, unless there are as many as there may be.
func (r *clientRegistry) add(c *client, most int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.byID) >= most {
		return false
	}
	r.byID[c.id] = c
	return true
}

func (r *clientRegistry) remove(c *client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, c.id)
}

func (r *clientRegistry) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byID)
}

// get returns the client of a number, nil if there is none.
func (r *clientRegistry) get(id uint64) *client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id]
}

// list returns the clients in the order in which they came.
func (r *clientRegistry) list() []*client {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*client, 0, len(r.byID))
	for _, c := range r.byID {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *client) int { return int(a.id) - int(b.id) })
	return all
}

// forEach calls f with every client, without its lock.
func (r *clientRegistry) forEach(f func(*client)) {
	for _, c := range r.list() {
		f(c)
	}
}

// mailbox is where other goroutines leave messages for a client, until whoever owns it
// takes them.
type mailbox struct {
	mu    sync.Mutex
	bytes []byte
	// notified tells that the transport knows that there is something.
	notified bool
}

// discardAll forgets what waits. The lock is held.
func (m *mailbox) discardAll(s *Server) {
	s.clientMemory.usedBytes.Add(-int64(len(m.bytes)))
	if m.bytes = m.bytes[:0]; cap(m.bytes) > maxRetainedBytes {
		m.bytes = nil
	}
}

// exceedsOutputLimit reports whether so many bytes are too many to wait for one who listens.
func (s *Server) exceedsOutputLimit(n int64) bool {
	hard, most := s.clientMemory.outputLimits.Load().Pubsub.Hard, s.clientMemory.maxBytes.Load()
	return hard > 0 && n > hard || most > 0 && s.clientMemory.usedBytes.Load() > most && n > most/int64(max(1, s.clients.len()))
}

// Post implements Subscriber: it leaves a message for the client. It is sent behind all answers to requests that were
// executed before.
func (c *client) Post(message func(dst []byte) []byte) {
	c.mailbox.mu.Lock()
	before := len(c.mailbox.bytes)
	c.mailbox.bytes = message(c.mailbox.bytes)
	c.s.clientMemory.usedBytes.Add(int64(len(c.mailbox.bytes) - before))
	first, full := !c.mailbox.notified, c.s.exceedsOutputLimit(int64(len(c.mailbox.bytes))+c.status.unsentBytes.Load())
	if c.mailbox.notified = true; full {
		c.mailbox.discardAll(c.s)
	}
	c.mailbox.mu.Unlock()
	switch {
	case full:
		c.closeForLimit("more messages than client-output-buffer-limit wait for it")
	case first:
		c.conn.notifyMail()
	}
}

// collectMail moves messages to the answers. It is for the client's owner, when no answer is
// being written, or none has been begun: see collectMailFirst.
func (c *client) collectMail() {
	c.mailbox.mu.Lock()
	defer c.mailbox.mu.Unlock()
	if c.mailbox.notified = false; len(c.mailbox.bytes) == 0 {
		return
	}
	c.out.Bytes = append(c.out.Bytes, c.mailbox.bytes...)
	c.mailbox.discardAll(c.s)
	c.conn.notifyOutput()
}

// ClientID implements Subscriber.
func (c *client) ClientID() uint64 { return c.id }

// Protocol implements Subscriber.
func (c *client) Protocol() resp.Version { return resp.Version(c.status.protocol.Load()) }

// IsConnected implements Subscriber.
func (c *client) IsConnected() bool { return c.s.clients.get(c.id) != nil }

// RecordAnswered notes that the client has the answers to all that it has read, if it has. It is for the
// client's owner.
func (c *client) recordAnswered() {
	if len(c.unansweredReads) == 0 || c.staged > 0 || c.busy || c.hasBacklog() || c.queue != nil {
		return
	}
	c.s.tracker.RecordAnswered(c, &c.unansweredReads)
}
