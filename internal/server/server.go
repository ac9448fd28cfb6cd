package server

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/internal/engine"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/server/acl"
	"github.com/cleavekv/cleave/internal/server/conn"
	"github.com/cleavekv/cleave/internal/server/pubsub"
	"github.com/cleavekv/cleave/internal/server/resp"
	"github.com/cleavekv/cleave/internal/server/settings"
	"github.com/cleavekv/cleave/internal/server/stats"
)

// Options are how a server serves. The zero value is ready.
type Options struct {
	// Clients is how many connections there may be at a time. Default 10,000.
	Clients int
	// Loops is how many loops serve the connections of a listener of TCP. Default as many as the load needs, at most
	// one for each processor.
	Loops int
	// Fsync is the durability as CONFIG GET appendfsync returns it.
	Fsync string
	// Dir is the directory of the store, as CONFIG GET dir returns it; empty in memory.
	Dir string
	// Shutdown is called when a client asks for the end of the server, and must not block.
	// Default: that is refused.
	Shutdown func()
	// Memory reports whether the store is in memory, so that the setting maxmemory is about
	// it.
	Memory bool
	// MaxWriteBytes is how many bytes the words of a request that writes may have. Default as many as a
	// transaction.
	MaxWriteBytes int
	// Cluster makes the server report itself as a cluster of one node, so that cluster clients connect. Commands
	// are the same with and without it.
	Cluster bool
	// Log receives what an operator should know: clients that are refused or closed, wrong
	// passwords, settings that clients change. Default none.
	Log *slog.Logger
	// LogLevel is changed by CONFIG SET loglevel. Default one without effect.
	LogLevel *slog.LevelVar
	// LogFile is where the log is, as CONFIG GET logfile returns it.
	LogFile string
	// Version is that of the program, for INFO.
	Version string
	// Observe is called with requests that left the fast path, and must not block.
	// Default none.
	Observe func(api.ObservedRequest)
	// Now is the clock of what clients see of the server. Default time.Now.
	Now func() time.Time
}

// Server serves clients of a store.
type Server struct {
	db        *cleave.DB
	engine    *engine.DB // of db
	node      *node.Node
	opts      Options
	startedAt time.Time
	runID     string
	// ctx ends when the server is closed, and running waits for what was begun.
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	closing sync.Mutex // a listener is served before Close waits, or not at all

	stats        *stats.ServerCounters
	clients      *conn.Set
	coldReader   coldReader
	hub          *pubsub.Hub
	config       *settings.Table
	scanCursors  scanCursors
	users        *acl.Table
	usersMu      sync.Mutex // held by a change of users until they are stored, and to load them
	deniedLog    deniedLog
	tracker      *pubsub.Tracker
	notifier     *pubsub.Notifier
	slowlog      *stats.Slowlog
	memory       memory
	audit        atomic.Pointer[Audit]
	latency      *stats.LatencyMonitor
	slotCounters atomic.Pointer[stats.SlotCounters] // nil unless cluster-slot-stats-enabled
	// hotKeySession is that of HOTKEYS, nil for none, and observesOps reports whether it or slotCounters want operations.
	hotKeySession atomic.Pointer[hotKeySession]
	observesOps   atomic.Bool
	sharedHeat    *heat.SharedRecorder // nil if heat is off
	heatMu        sync.Mutex
	// heatRecorders are those of workers, guarded by heatMu.
	heatRecorders []*heat.Recorder
	authThrottle  authThrottle
	// counters are those of CLEAVE.COUNTER.
	counters     counterTable
	cursorCipher cursorCipher
	// unsavedPassword is the password of the default user if that is not kept: one of the settings. It
	// goes with keeping.
	unsavedPassword string
}

// ErrClosed means that the server was closed.
var ErrClosed = conn.ErrClosed

// New makes a server. It is closed before the store is.
func New(db *cleave.DB, o Options) *Server {
	if o.Clients == 0 {
		o.Clients = 10_000
	}
	automaticLoops := o.Loops == 0
	if automaticLoops {
		o.Loops = runtime.GOMAXPROCS(0)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.LogLevel == nil {
		o.LogLevel = new(slog.LevelVar)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	var e *engine.DB
	db.Engine(&e)
	s := &Server{db: db, engine: e, node: e.Node(), opts: o, startedAt: o.Now(), runID: newRunID(), users: acl.NewTable()}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.stats = stats.NewCounters()
	s.coldReader.s, s.sharedHeat = s, s.node.SharedHeat()
	s.clients = conn.NewSet(s.ctx, &s.running, s.stats, o.Log, o.Now, func(isLoop bool) conn.Executor {
		if isLoop {
			return newLoopWorker(s)
		}
		return newWorker(s, streamRowKeyBytes)
	})
	s.clients.Loops, s.clients.AutomaticLoops = o.Loops, automaticLoops
	changes := &pubsub.ChangeSource{DB: db, Engine: e, Node: s.node, Log: o.Log, Ctx: s.ctx, Running: &s.running}
	s.hub = pubsub.NewHub()
	s.tracker, s.notifier = pubsub.NewTracker(s.hub, changes), pubsub.NewNotifier(s.hub, changes)
	s.slowlog, s.latency = stats.NewSlowlog(), new(stats.LatencyMonitor)
	s.config = settings.NewTable(&settings.Start{Fsync: o.Fsync, Dir: o.Dir, LogFile: o.LogFile, Clients: o.Clients, Loops: o.Loops, Cluster: o.Cluster, Memory: o.Memory})
	s.applySettings(nil)
	s.cursorCipher.init(s)
	s.running.Go(s.sweepClients)
	if o.Memory {
		s.running.Go(s.watchMemory)
	}
	return s
}

// Serve serves the connections of a listener until the server is closed: then the error
// is ErrClosed.
func (s *Server) Serve(l net.Listener) error {
	s.config.SetListenAddr("port", l.Addr())
	return s.serveListener(l)
}

func (s *Server) serveListener(l net.Listener) error {
	if !s.beginServing() {
		_ = l.Close()
		return ErrClosed
	}
	defer s.running.Done()
	if tcp, ok := l.(*net.TCPListener); ok {
		return s.clients.ServeLoops(tcp)
	}
	return s.clients.ServeStreams(l)
}

// beginServing counts one more that runs, unless the server is closed.
func (s *Server) beginServing() bool {
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
	s.cancel()
	s.closing.Unlock()
	s.notifier.Close()
	s.clients.ForEach(func(c *conn.Conn) { c.CloseConn() })
	s.running.Wait()
	s.releaseHeatRecorders()
	s.counters.close()
	s.clients.Log.Close()
}

// newClient begins to serve a connection. If it must not be served it returns nil, and
// what to say before it is closed.
func (s *Server) newClient(t conn.Transport, from, to string) (_ *client, refused string) {
	if !s.isTrusted(from) {
		s.stats.RefusedClients.Add(1)
		s.clients.Log.LogRefused("protected mode", from)
		return nil, replyProtectedMode
	}
	c := &client{s: s}
	c.Init(s.clients, t, c, from, to)
	c.SetProtocol(resp.RESP2)
	c.setKeyspace(s.defaultKeyspace())
	c.setDefaultAccount()
	if !s.clients.Add(&c.Conn, s.opts.Clients) {
		s.stats.RefusedClients.Add(1)
		s.clients.Log.LogRefused("maxclients", from)
		return nil, replyTooManyClients
	}
	s.stats.Connections.Add(1)
	s.clients.Log.LogConnection("client connected", &c.Conn)
	return c, ""
}

// removeClient ends what the server knows about a client. It is for the client's owner.
func (s *Server) removeClient(c *client) {
	s.clients.Remove(&c.Conn)
	s.clients.Log.LogConnection("client gone", &c.Conn)
	c.ReleaseMemory()
	s.hub.UnsubscribeAll(&c.Conn)
	s.tracker.Stop(&c.Conn)
	c.CloseMailbox()
}

// defaultKeyspace is the keyspace that clients begin with.
func (s *Server) defaultKeyspace() *node.Keyspace {
	k, err := s.node.Keyspace(node.DefaultKeyspace)
	if err != nil {
		panic("serve: a node without a default keyspace: " + err.Error())
	}
	return k
}

// requestLimits are those of a client.
func (s *Server) requestLimits(c *client) *resp.Limits {
	if c.needsAuth() {
		return &resp.UnauthenticatedLimits
	}
	return &settings.RequestLimits
}

// The errors of clients that are not served.
const (
	replyTooManyClients = "-ERR max number of clients reached\r\n"
	replyProtectedMode  = "-DENIED Cleave is running in protected mode because protected mode is enabled and no password is set for the default user. " +
		"In this mode connections are only accepted from the loopback interface. To connect from elsewhere, set a password from the machine itself: " +
		"CONFIG SET requirepass; or turn the protection off: CONFIG SET protected-mode no.\r\n"
)

// isTrusted reports whether an address may connect. Without a password only the machine itself
// may, unless configured otherwise: a server that listens to the world by mistake must
// not serve it.
func (s *Server) isTrusted(from string) bool {
	if s.config.Get("protected-mode") != "yes" || !s.users.Get(acl.DefaultUser).NoPass {
		return true
	}
	at, err := netip.ParseAddrPort(from)
	return err == nil && at.Addr().Unmap().IsLoopback()
}
