package serve

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/acl"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/redis"
	"github.com/cleavekv/cleave/internal/resp"
	"github.com/cleavekv/cleave/internal/store"
)

// client is one connection. It belongs to its worker, but for the time in which it is
// busy: then it belongs to the goroutine that does something for it.
type client struct {
	id   uint64
	s    *Server
	conn transport
	// from and to are the addresses of both ends.
	from, to string
	since    time.Time

	// account is who it is: see seen.known.
	account *acl.Account

	space  *node.Space
	parser resp.Parser
	// in is what has arrived and was not taken: a part of a request, or requests behind
	// one that takes long.
	in  []byte
	out redis.Writer
	// pending is how many of its requests are staged, and store where they are.
	// Invariant: while it is positive, nothing is written to out but by commit.
	pending int
	store   *store.Store
	// allowed is who may ask for what is staged.
	allowed *acl.User
	// busy tells that there is something left to do which is under way, and away that a goroutine has the
	// client for that. Until then more may be added.
	busy, away bool
	// backlog is what is left to do, nil for nothing, and first what comes before it: requests that
	// were staged and refused. Waited is how long what is staged of it has waited before.
	backlog *backlog
	first   []task
	waited  time.Duration
	// left tells anybody that the connection is closed: nobody is answered any more.
	left atomic.Bool
	// stalled tells that requests wait in in because it does not read its answers.
	stalled bool
	// counted is how much of its buffers is counted: see count.
	counted int64
	// closing tells that it is closed once out is written.
	closing bool
	// listening tells that it has subscriptions.
	listening bool
	// silent tells that the client wants no answers, and skip for how many requests.
	silent bool
	skip   int
	// pushing tells that the answer at hand is a message, which is sent all the same.
	pushing bool
	// watched are the keys of WATCH.
	watched []watched
	// queue is what MULTI has gathered, nil outside of it.
	queue *queue

	// tracks is what it wants to hear of what it reads, nil for nothing, caching tells
	// that CLIENT CACHING was said, and reads is what it has no answer to yet.
	tracks  *tracking
	caching bool
	reads   []trackedKey

	seen seen
	mail mailbox
}

// seen is what other connections may look at.
type seen struct {
	mu sync.Mutex
	about
	last   atomic.Pointer[redis.Spec]
	lastMS atomic.Int64
	// version is that of the protocol, for those who send it messages.
	version atomic.Uint32
	// known tells that it has said who it is, or need not, and listens that it has
	// subscriptions.
	known, listens atomic.Bool
	// halfMS, stuckMS and softMS are since when a request is not whole, no answer is
	// taken, and more than the soft limit waits; 0 for not at all. waiting is how much.
	halfMS, stuckMS, softMS, waiting atomic.Int64
}

// about is what a client says about itself.
type about struct {
	name, library, libraryVersion string
	space, user                   string
}

// set changes what is said about a client.
func (s *seen) set(change func(*about)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.about)
}

func (s *seen) get() about {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.about
}

// transport is what a client's bytes come and go by.
type transport interface {
	// dirty is called by the client's owner when out has got something, or the client
	// is closing.
	dirty()
	// send is called by the client's owner before it is away for long: what it is answered so far need not
	// wait for that.
	send()
	// resume is called when a client that was busy is not any more, from any goroutine.
	resume()
	// posted is called when the mailbox has got something, from any goroutine.
	posted()
	// kill closes the connection, from any goroutine.
	kill()
}

// keepOut is how much memory for answers a client keeps.
const keepOut = 64 << 10

// speak chooses the version of the protocol.
func (c *client) speak(v resp.Version) {
	c.out.Version = v
	c.seen.version.Store(uint32(v))
}

// become makes the connection one of a user.
func (c *client) become(a *acl.Account) {
	c.account = a
	name := a.User().Name
	c.seen.set(func(s *about) { s.user = name })
}

// use chooses the keyspace.
func (c *client) use(k *node.Space) {
	c.space = k
	c.seen.set(func(a *about) { a.space = k.Name })
}

// reply writes the answer to a request. There is no command if it was refused before it was
// begun.
func (c *client) reply(spec *redis.Spec, write func(*redis.Writer)) {
	start := len(c.out.Bytes)
	write(&c.out)
	c.hush(spec, start)
	c.conn.dirty()
}

// hushed tells that nobody wants to hear the answer at hand.
func (c *client) hushed() bool { return c.silent && !c.pushing || c.skip > 0 }

// hush ends the answer that begins at a place: it is taken back if nobody wants to hear
// it.
func (c *client) hush(spec *redis.Spec, start int) {
	if len(c.out.Bytes) > start && c.out.Bytes[start] == '-' {
		c.s.stats.answered(spec, c.out.Bytes[start:])
	}
	if c.hushed() {
		c.out.Bytes = c.out.Bytes[:start]
		c.skip = max(0, c.skip-1)
	}
	c.pushing = false
	if c.out.Over && !c.closing {
		c.closing = true
		c.out.Bytes = nil
		c.refuse("its answers are larger than client-output-buffer-limit")
	}
}
