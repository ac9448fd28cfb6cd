package admin

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/inside"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/serve"
	"github.com/cleavekv/cleave/internal/spans"
)

// Options are how operators are served.
type Options struct {
	// DB and Server are what they see.
	DB     *cleave.DB
	Server *serve.Server
	// Listener is where they connect. It is closed by Close.
	Listener net.Listener
	// Token lets in whoever has it, at least [api.MinToken] characters. Default what the
	// file http-token in Data has, which is made if there is none; without Data the token
	// is put into a file of the user's, see [api.TokenPath], and removed by Close. If there
	// is no place for that either, nobody has it, and nothing can be changed.
	Token string
	// Data is the directory of the store, "" if it is in memory.
	Data string
	// Backups is the directory that backups are in. Default none: they are refused.
	Backups string
	// Hosts are names of the server that clients may use, besides those of loopback and
	// the address of the listener.
	Hosts []string
	// Pprof serves the profiles of the process, for those who have the token.
	Pprof bool
	// Spans are told of requests and jobs. Nil for nobody.
	Spans *spans.Tracer
	// Version and Durability are told by the status.
	Version    string
	Durability string
	// Complain is told what is wrong and can be lived with. Default nobody.
	Complain func(error)
	// Now is the clock of what is told. Default time.Now.
	Now func() time.Time

	// headerTime is how long a client may take for its header. Tests need not wait as
	// long.
	headerTime time.Duration
}

// Admin serves operators.
type Admin struct {
	o     Options
	node  *node.Node
	http  *http.Server
	guard guard
	audit *auditLog
	tasks tasks
	sizes sizes
	asked asked
	born  time.Time
	// left is a file to remove at the end.
	left string
	// follows tells of jobs that end.
	follows follower
	// draining tells that the server is about to end.
	draining atomic.Bool
	over     sync.Once
}

// New makes an Admin, with its token and its audit log.
func New(o Options) (*Admin, error) {
	if o.DB == nil || o.Server == nil || o.Listener == nil {
		return nil, errors.New("admin: DB, Server and Listener are needed")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Complain == nil {
		o.Complain = func(error) {}
	}
	if o.headerTime == 0 {
		o.headerTime = readHeaderTime
	}
	a := &Admin{o: o, node: inside.Node(o.DB), born: o.Now()}
	token, left, err := tokenFor(&o)
	if err != nil {
		return nil, err
	}
	a.left = left
	if a.audit, err = openAudit(o.Data, auditBytes, o.Now); err != nil {
		return nil, err
	}
	a.guard = newGuard(o.Listener.Addr(), o.Hosts, token)
	a.tasks.init(o.Now)
	a.follow()
	a.http = &http.Server{
		Handler:           a.handler(),
		ReadHeaderTimeout: o.headerTime,
		ReadTimeout:       readTime,
		WriteTimeout:      writeTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          quiet(),
	}
	return a, nil
}

// What a client may take, in time and room. A request is small and so is its header; an
// answer may be a profile of half a minute.
const (
	readHeaderTime = 5 * time.Second
	readTime       = 30 * time.Second
	writeTime      = 2 * time.Minute
	idleTime       = time.Minute
	maxHeader      = 32 << 10
	maxBody        = 1 << 20
	// maxConns is how many connections there may be at a time: a few operators, and what
	// scrapes figures.
	maxConns = 256
	// askTime is how long a request may take, and actTime an action until its job has
	// begun.
	askTime = 25 * time.Second
	actTime = time.Minute
)

// Serve serves until Close.
func (a *Admin) Serve() error {
	err := a.http.Serve(&bounded{Listener: a.o.Listener, most: maxConns})
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
	a.over.Do(func() {
		a.Drain()
		a.tasks.end()
		a.unfollow()
		err = errors.Join(a.shutdown(), a.audit.close(), removeLeft(a.left))
	})
	return err
}
