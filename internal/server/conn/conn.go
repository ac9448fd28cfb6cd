package conn

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/server/resp"
)

// Conn is one connection of a client. It belongs to its loop or stream, but for the time in which it is
// busy: then it belongs to the goroutine that does something for it.
type Conn struct {
	ID        uint64
	set       *Set
	transport Transport
	session   Session
	// RemoteAddr and LocalAddr are the addresses of both ends.
	RemoteAddr, LocalAddr string
	ConnectedAt           time.Time

	Parser resp.Parser
	// In is what has arrived and was not taken: a part of a request, or requests behind
	// one that takes long.
	In  []byte
	Out redis.Writer
	// outSent is how much memory before that of out is held by what was sent, and outCap how much there was
	// behind it: see keepUnsent.
	outSent, outCap int
	// Staged is how many of its requests are staged.
	// Invariant: while it is positive, nothing is written to out but by commit.
	Staged int
	// Busy reports whether something left to do is under way, and HandedOff whether a goroutine has the
	// connection for that. Until then more may be added.
	Busy, HandedOff bool
	// Disconnected reports that the connection is closed: nothing is answered.
	Disconnected atomic.Bool
	// Stalled reports whether requests wait in in because it does not read its answers.
	Stalled bool
	// accountedBytes is how much of its buffers is counted: see AccountMemory.
	accountedBytes int64
	// Closing reports whether it is closed once out is written.
	Closing bool
	// Lingering keeps it open until the client has sent all: otherwise that would not see the last answer.
	Lingering bool
	// RepliesOff reports whether the client wants no answers, and SkipReplies for how many requests.
	RepliesOff  bool
	SkipReplies int
	// ReplyIsPush reports whether the answer at hand is a message, which is sent all the same.
	ReplyIsPush bool

	Status  Status
	mailbox mailbox
}

// Init makes a connection one of a set.
func (c *Conn) Init(set *Set, t Transport, s Session, from, to string) {
	c.set, c.transport, c.session, c.RemoteAddr, c.LocalAddr = set, t, s, from, to
	c.ID, c.ConnectedAt = set.lastID.Add(1), set.now()
}

// Session is what the requests of a connection mean. It belongs to the owner of the connection.
type Session interface {
	// TakeRequests takes the requests at the front of what has arrived, and returns what is left.
	TakeRequests(data []byte) (rest []byte)
	// HasBacklog reports whether something that was asked for is left to do.
	HasBacklog() bool
	// SetExecutor gives the connection to another executor: nothing is under way for it.
	SetExecutor(e Executor)
	// RecordAnswered is called when the answers that there are have been or are being sent.
	RecordAnswered()
	// MemoryBytes is about how much memory it takes.
	MemoryBytes() int
	// Close ends what is known about the connection.
	Close()
}

// Status is what other connections may look at.
type Status struct {
	mu sync.Mutex
	Info
	LastCommand   atomic.Pointer[redis.Spec]
	LastRequestMS atomic.Int64
	// Protocol is the version of the protocol, for the senders of messages.
	Protocol atomic.Uint32
	// Authenticated reports that it has authenticated, or need not, and Subscribed that it has
	// subscriptions.
	Authenticated, Subscribed atomic.Bool
	// PartialSinceMS, UnreadSinceMS and softLimitSinceMS are since when a request is not whole, no answer is
	// taken, and more than the soft limit waits; 0 for not at all. UnsentBytes is how much waits.
	PartialSinceMS, UnreadSinceMS, softLimitSinceMS, UnsentBytes atomic.Int64
	// MemoryBytes is about how much it takes, as of when its answers were last sent.
	MemoryBytes atomic.Int64
	// Loop is the index of the loop that serves it, 0 if it has a stream.
	Loop atomic.Int32
}

// Info is what a client says about itself.
type Info struct {
	Name, Library, LibraryVersion string
	Keyspace, User                string
}

// UpdateInfo changes the description of a client.
func (s *Status) UpdateInfo(change func(*Info)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.Info)
}

// LoadInfo returns the description of a client.
func (s *Status) LoadInfo() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Info
}

// Transport is what a client's bytes come and go by.
type Transport interface {
	// NotifyOutput is called by the client's owner when out has got something, or the client
	// is closing.
	NotifyOutput()
	// SendOutput is called by the client's owner before it is away for long: what it is answered so far need not
	// wait for that.
	SendOutput()
	// Resume is called when a client that was busy is not any more, from any goroutine.
	Resume()
	// NotifyMail is called when the mailbox has got something, from any goroutine.
	NotifyMail()
	// CloseConn closes the connection, from any goroutine.
	Close()
}

// MaxRetainedBytes is how much memory for answers a client keeps.
const MaxRetainedBytes = 64 << 10

// SetProtocol chooses the version of the protocol.
func (c *Conn) SetProtocol(v resp.Version) {
	c.Out.Version = v
	c.Status.Protocol.Store(uint32(v))
}

// WriteReply writes the answer to a request. There is no command if it was refused before it was
// begun.
func (c *Conn) WriteReply(spec *redis.Spec, write func(*redis.Writer)) {
	start := len(c.Out.Bytes)
	write(&c.Out)
	c.FinishReply(spec, start)
	c.transport.NotifyOutput()
}

// IsReplyDiscarded reports whether the client wants no reply to the current command.
func (c *Conn) IsReplyDiscarded() bool {
	return c.RepliesOff && !c.ReplyIsPush || c.SkipReplies > 0
}

// FinishReply ends the reply that begins at a place: it is removed if the client wants
// none.
func (c *Conn) FinishReply(spec *redis.Spec, start int) {
	if len(c.Out.Bytes) > start && c.Out.Bytes[start] == '-' {
		c.set.stats.RecordError(spec, c.Out.Bytes[start:])
	}
	if c.IsReplyDiscarded() {
		c.Out.Bytes = c.Out.Bytes[:start]
		c.SkipReplies = max(0, c.SkipReplies-1)
	}
	c.ReplyIsPush = false
	if c.Out.HasOverflowed && !c.Closing {
		c.Closing = true
		c.Out.Bytes = nil
		c.CloseForLimit("its answers are larger than client-output-buffer-limit")
	}
}

// ClientID implements pubsub.Subscriber.
func (c *Conn) ClientID() uint64 { return c.ID }

// Protocol implements pubsub.Subscriber.
func (c *Conn) Protocol() resp.Version { return resp.Version(c.Status.Protocol.Load()) }

// IsConnected implements pubsub.Subscriber.
func (c *Conn) IsConnected() bool { return c.set.Get(c.ID) != nil }

// NotifyOutput notifies the transport that out has got something, or that the connection is closing. It is for the
// owner.
func (c *Conn) NotifyOutput() { c.transport.NotifyOutput() }

// SendOutput sends what there is before the connection is handed off for long. It is for the owner.
func (c *Conn) SendOutput() { c.transport.SendOutput() }

// Resume gives a connection that was busy back to its loop or stream.
func (c *Conn) Resume() { c.transport.Resume() }

// CloseConn closes the connection, from any goroutine.
func (c *Conn) CloseConn() { c.transport.Close() }
