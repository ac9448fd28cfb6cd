// Package admin answers one question: how does an operator see what a server does, and
// change it safely, over HTTP?
//
// It serves the API that package api describes, on a *cleave.DB and a running
// *serve.Server, with /metrics, /livez and /readyz beside it. One table (routes.go) has
// every path with its types: it makes the handlers, what they refuse, and the OpenAPI
// document.
//
// # Promises
//
//   - A GET changes nothing. Whatever changes something is a POST, needs the token, and
//     is in the audit log before it is begun and when it is done.
//   - An action is planned before it is made. With ?dry_run=true the plan is the answer and
//     nothing is changed.
//   - A field or a parameter that is not known is refused: a misspelt dry_run must not act.
//   - Values are never shown, and keys only where they are asked for or bound a shard.
//   - Only requests that name the server as it is known are answered, so that a page which
//     makes its own name mean this machine learns nothing.
//
// # Choices
//
// Reads need no token if the listener is on loopback: every user of the machine may look.
// Elsewhere everything does but /livez, /readyz and the first page. A second token is for
// reading alone. Metrics are read anew for each request, from the typed figures that the store
// has: client_golang checks and writes them, and keeps none. Health has connections of its own
// (listener.go): a service manager must not take a server with many visitors for a dead one.
//
// # Limits
//
// Sizes of shards are looked up at most once a second, and lists of some things are as
// old. There is one token that changes something: its holders differ only in
// what clients claim. Jobs of backups end with the server.
package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/engine"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/ops/config"
	"github.com/cleavekv/cleave/internal/ops/oplog"
	"github.com/cleavekv/cleave/internal/ops/tracing"
	"github.com/cleavekv/cleave/internal/reshard/balancer"
	"github.com/cleavekv/cleave/internal/server"
)

// Options are how operators are served.
type Options struct {
	// DB and Server are what they see.
	DB     *cleave.DB
	Server *server.Server
	// Listener is where they connect. It is closed by Close.
	Listener net.Listener
	// TLS, if set, makes the listener speak HTTPS.
	TLS *tls.Config
	// Token authorizes all requests, at least [api.MinToken] characters. Default what the
	// file http-token in Data has, which is made if there is none that is of use; without Data
	// the token is put into a file of the user's, see [api.TokenPath], and removed by Close. If
	// there is no place for that either, there is no token, and nothing can be changed.
	Token string
	// ReadToken authorizes requests that change nothing, profiles excepted. It must be
	// another one than Token. Default none.
	ReadToken string
	// Data is the directory of the store, "" if it is in memory.
	Data string
	// Backups is the directory that backups are in. Default none: they are refused.
	Backups string
	// Hosts are names of the server that clients may use, besides those of loopback and
	// the address of the listener.
	Hosts []string
	// Pprof serves the profiles of the process, to clients with the token.
	Pprof bool
	// Tracer is notified of requests and jobs. May be nil.
	Tracer *tracing.Tracer
	// Version and Durability are part of the status.
	Version    string
	Durability string
	// Config returns the configuration that the server was started with, and the latest that it
	// has read. Default: one that says nothing.
	Config func() (started, latest *config.Config)
	// Log receives what an operator should know. Default none.
	Log *slog.Logger
	// Now is the clock of all reported times. Default time.Now.
	Now func() time.Time

	// headerTimeout is how long a client may take for its header. Tests need not wait as
	// long.
	headerTimeout time.Duration
	// liveWriteTimeout is how long a client of a stream may take to receive an event.
	liveWriteTimeout time.Duration
}

// Admin serves operators.
type Admin struct {
	o        Options
	node     *node.Node
	balancer *balancer.Balancer // nil if heat is off
	engine   *engine.DB
	http     *http.Server
	listener limitListener
	guard    guard
	audit    *auditLog
	// eventLog is the log for what clients can cause as often as they like, and limit bounds it.
	eventLog     *slog.Logger
	eventLimiter *oplog.Limiter
	serverJobs   serverJobs
	shardCache   shardCache
	requests     requestStats
	live         liveHub
	// patternSearch is held while a heat map is searched for patterns.
	patternSearch sync.Mutex
	startedAt     time.Time
	// tokenCopyPath is a file to remove at the end.
	tokenCopyPath string
	// jobTracer reports jobs that end.
	jobTracer jobTracer
	// draining reports whether the server is about to end.
	draining  atomic.Bool
	closeOnce sync.Once
}

// New makes an Admin, with its token and its audit log.
func New(o Options) (*Admin, error) {
	if o.DB == nil || o.Server == nil || o.Listener == nil {
		return nil, errors.New("admin: DB, Server and Listener are needed")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Config == nil {
		none, err := config.Load(config.Sources{})
		if err != nil {
			return nil, err
		}
		o.Config = func() (started, latest *config.Config) { return none, none }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.headerTimeout == 0 {
		o.headerTimeout = readHeaderTimeout
	}
	if o.liveWriteTimeout == 0 {
		o.liveWriteTimeout = liveWriteTimeout
	}
	var e *engine.DB
	o.DB.Engine(&e)
	a := &Admin{o: o, node: e.Node(), engine: e, startedAt: o.Now(), eventLimiter: oplog.NewLimiter(o.Log.Handler(), logBurst, logWindow)}
	o.DB.Balancer(&a.balancer)
	a.eventLog = slog.New(a.eventLimiter)
	a.listener = limitListener{Listener: o.Listener, maxConns: maxConns, maxHealthConns: maxHealthConns, onClose: func(reason string, from net.Addr) {
		a.eventLog.Warn("operator connection closed", "reason", reason, "addr", from.String())
	}}
	token, left, err := findOrMakeToken(&o)
	if err != nil {
		return nil, err
	}
	a.tokenCopyPath = left
	if a.audit, err = openAuditLog(o.Data, maxAuditFileBytes, o.Now); err != nil {
		return nil, err
	}
	if a.guard, err = newGuard(o.Listener.Addr(), o.Hosts, token, o.ReadToken); err != nil {
		return nil, errors.Join(err, a.audit.close(), removeIfExists(a.tokenCopyPath))
	}
	o.Server.SetAudit(a.audit.beginAction)
	a.serverJobs.init(o.Now, o.Log)
	a.startJobTracer()
	a.http = &http.Server{
		Handler:           a.newHandler(),
		ReadHeaderTimeout: o.headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          newDiscardLogger(),
		ConnState:         a.listener.recordState,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connContextKey{}, unwrapConn(c))
		},
	}
	return a, nil
}

// What a client may take, in time and room. A request is small and so is its header; an
// answer may be a profile of half a minute.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 2 * time.Minute
	idleTimeout       = time.Minute
	maxHeaderBytes    = 32 << 10
	maxBodyBytes      = 1 << 20
	// maxConns is how many connections there may be at a time: a few operators, and what
	// scrapes figures. maxHealthConns more are for health alone: a probe comes every few seconds
	// and is answered at once.
	maxConns       = 256
	maxHealthConns = 16
	// logBurst lines of one kind are logged in logWindow. The rest is counted.
	logBurst  = 5
	logWindow = 10 * time.Second
	// queryTimeout is how long a request may take, and actionTimeout an action until its job has
	// begun.
	queryTimeout  = 25 * time.Second
	actionTimeout = time.Minute
)

// Serve serves until Close.
func (a *Admin) Serve() error {
	l := net.Listener(&a.listener)
	if a.o.TLS != nil {
		l = tls.NewListener(l, a.o.TLS)
	}
	err := a.http.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("http: %w", err)
}

// Drain makes /readyz say that the server is about to end, while all else goes on: what
// sends clients here can look elsewhere before the sockets close.
func (a *Admin) Drain() { a.draining.Store(true) }

// Close ends connections and the jobs of backups, and waits for what was begun. It is
// called before the store is closed.
func (a *Admin) Close() error {
	var err error
	a.closeOnce.Do(func() {
		a.Drain()
		a.live.stop()
		a.serverJobs.close()
		a.stopJobTracer()
		err = errors.Join(a.shutdownHTTP(), a.audit.close(), removeIfExists(a.tokenCopyPath))
		a.eventLimiter.Close()
	})
	return err
}
