package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/acl"
	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/inside"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/resp"
)

// Options are how a server serves. The zero value is ready.
type Options struct {
	// Clients is how many connections there may be at a time. Default 10,000.
	Clients int
	// Fsync is the durability as CONFIG GET appendfsync tells it.
	Fsync string
	// Dir is the directory of the store, as CONFIG GET dir tells it; empty in memory.
	Dir string
	// Shutdown is called when a client asks for the end of the server, and must not block.
	// Default: that is refused.
	Shutdown func()
	// Memory tells that the store is in memory, so that the setting maxmemory is about
	// it.
	Memory bool
	// Log is told when a client is closed for what it does. Default: nobody is.
	Log *slog.Logger
	// Version is that of the program, for INFO.
	Version string
	// Observe is told of requests that did not go the short way, and must not block.
	// Default nobody.
	Observe func(api.Observed)
	// Now is the clock of what clients are told about the server. Default time.Now.
	Now func() time.Time
}

// Server serves clients of a store.
type Server struct {
	db    *cleave.DB
	node  *node.Node
	opts  Options
	born  time.Time
	runID string
	// ctx ends when the server is closed, and running waits for what was begun.
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	closing sync.Mutex // a listener is served before Close waits, or not at all

	ids       atomic.Uint64
	stats     stats
	clients   registry
	hub       hub
	config    config
	places    places
	users     *acl.Table
	keeping   sync.Mutex // held by who changes users until they are kept, and by who loads them
	denied    denied
	tracker   tracker
	slow      slowlog
	memory    memory
	buffers   buffers
	latencies latencies
	guessers  guessers
	// counters are those of CLEAVE.COUNTER.
	counters counters
	// unkept is the password of the default user if that is not kept: one of the settings. It
	// goes with keeping.
	unkept string
}

// ErrClosed means that the server was closed.
var ErrClosed = errors.New("serve: closed")

// New makes a server. It is closed before the store is.
func New(db *cleave.DB, o Options) *Server {
	if o.Clients == 0 {
		o.Clients = 10_000
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{db: db, node: inside.Node(db), opts: o, born: o.Now(), runID: newRunID(), users: acl.NewTable()}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.stats.init()
	s.clients.init()
	s.hub.init()
	s.slow.init()
	s.config.init(s)
	s.buffers.limits.Store(&bufferLimits{})
	s.configured(nil)
	s.running.Go(s.sweep)
	if o.Memory {
		s.running.Go(s.watchMemory)
	}
	return s
}

// Serve serves the connections of a listener until the server is closed: then the error
// is ErrClosed.
func (s *Server) Serve(l net.Listener) error {
	s.config.listens("port", l.Addr())
	return s.serve(l)
}

func (s *Server) serve(l net.Listener) error {
	if !s.begin() {
		_ = l.Close()
		return ErrClosed
	}
	defer s.running.Done()
	if tcp, ok := l.(*net.TCPListener); ok {
		return s.serveLoops(tcp)
	}
	return s.serveStreams(l)
}

// begin counts one more that runs, unless the server is closed.
func (s *Server) begin() bool {
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.running.Add(1)
	return true
}

// Close ends all connections, and waits for what they have begun.
func (s *Server) Close() {
	s.closing.Lock()
	s.stop()
	s.closing.Unlock()
	s.clients.each(func(c *client) { c.conn.kill() })
	s.running.Wait()
	s.counters.close()
}

// newClient begins to serve a connection. If it must not be served it returns nil, and
// what to say before it is closed.
func (s *Server) newClient(t transport, from, to string) (_ *client, refused string) {
	if !s.trusts(from) {
		s.stats.refused.Add(1)
		return nil, protected
	}
	c := &client{id: s.ids.Add(1), s: s, conn: t, from: from, to: to, since: s.opts.Now()}
	c.speak(resp.RESP2)
	c.use(s.defaultSpace())
	c.begin()
	if !s.clients.add(c, s.opts.Clients) {
		s.stats.refused.Add(1)
		return nil, tooMany
	}
	s.stats.connections.Add(1)
	return c, ""
}

// gone ends what the server knows about a client. It is for the client's owner.
func (s *Server) gone(c *client) {
	s.clients.remove(c)
	s.buffers.used.Add(-c.counted)
	c.counted = 0
	s.hub.leave(c)
	s.tracker.end(c)
	c.mail.mu.Lock() // from now on nobody leaves anything there
	c.mail.empty(s)
	c.mail.mu.Unlock()
}

// defaultSpace is the keyspace that clients begin with.
func (s *Server) defaultSpace() *node.Space {
	k, err := s.node.Keyspace(node.DefaultName)
	if err != nil {
		panic("serve: a node without a default keyspace: " + err.Error())
	}
	return k
}

// usual are the limits of clients who may do something.
var usual = resp.Limits{Args: 1 << 20, Bulk: command.MaxValueBytes, Total: 2 * command.MaxTxnBytes}

// limits are those of a client.
func (s *Server) limits(c *client) *resp.Limits {
	if c.stranger() {
		return &resp.Strangers
	}
	return &usual
}

// What clients hear that are not served.
const (
	tooMany   = "-ERR max number of clients reached\r\n"
	protected = "-DENIED Cleave is running in protected mode because protected mode is enabled and no password is set for the default user. " +
		"In this mode connections are only accepted from the loopback interface. To connect from elsewhere, set a password from the machine itself: " +
		"CONFIG SET requirepass; or turn the protection off: CONFIG SET protected-mode no.\r\n"
)

// trusts tells whether an address may connect. Without a password only the machine itself
// may, unless it was told otherwise: a server that listens to the world by mistake must
// not serve it.
func (s *Server) trusts(from string) bool {
	if s.config.get("protected-mode") != "yes" || !s.users.Get(acl.DefaultName).NoPass {
		return true
	}
	at, err := netip.ParseAddrPort(from)
	return err == nil && at.Addr().Unmap().IsLoopback()
}
