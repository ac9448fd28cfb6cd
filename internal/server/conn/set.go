package conn

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/server/settings"
	"github.com/cleavekv/cleave/internal/server/stats"
)

// ErrClosed means that the server was closed.
var ErrClosed = errors.New("serve: closed")

// Set is all connections of a server, and what they share.
type Set struct {
	mu     sync.Mutex
	byID   map[uint64]*Conn
	lastID atomic.Uint64

	// OutputLimits are how much may wait for a client, UsedBytes is what the buffers of all take that are counted,
	// and MaxBytes how much that may be, 0 for no limit.
	OutputLimits        atomic.Pointer[settings.BufferLimits]
	UsedBytes, MaxBytes atomic.Int64

	// Loops is how many loops serve a listener of TCP, where there are loops: with AutomaticLoops as many of them as
	// the load needs, see [LoopPlanner]. Each WorkPeriod a loop moves the clients that PlanMoves names to others. They
	// are set before anything is served.
	Loops          int
	AutomaticLoops bool
	WorkPeriod     time.Duration
	PlanMoves      func(Work) []ClientMove
	usedLoops      atomic.Int32
	// MovedConnections is how many clients were moved.
	MovedConnections atomic.Uint64

	// ctx ends with the server, which waits for running.
	ctx     context.Context
	running *sync.WaitGroup
	stats   *stats.ServerCounters
	Log     *Log
	now     func() time.Time
	// newExecutor makes what executes requests, for a loop of many connections or for one stream.
	newExecutor func(isLoop bool) Executor
}

// NewSet returns a set without connections.
func NewSet(ctx context.Context, running *sync.WaitGroup, counters *stats.ServerCounters, log *slog.Logger, now func() time.Time, newExecutor func(isLoop bool) Executor) *Set {
	s := &Set{byID: map[uint64]*Conn{}, ctx: ctx, running: running, stats: counters, Log: newLog(log), now: now, newExecutor: newExecutor,
		Loops: 1, WorkPeriod: DefaultWorkPeriod, PlanMoves: PlanMoves}
	s.OutputLimits.Store(&settings.BufferLimits{})
	return s
}

// Executor executes the requests of connections: those of one loop or one stream. It belongs to the goroutine of
// that. Connections have sessions of its own, which give it their requests.
type Executor interface {
	// Accept begins to serve a connection. If it must not be served it returns nil, and what to answer before it
	// is closed.
	Accept(t Transport, from, to string) (c *Conn, refused string)
	// BeginRound sets the time for the requests that are taken from now on.
	BeginRound(nowMS int64)
	// Commit executes what was taken, and answers it.
	Commit()
	// EndRound is called at the end of each round of a loop: how many sockets it has read, and how long it took. What
	// has come into a socket meanwhile has waited for that long at most. A stream has no rounds: it waits for one client.
	EndRound(reads int, took time.Duration)
}

// UsedLoops is how many loops have clients: 0 where there are no loops.
func (s *Set) UsedLoops() int { return int(s.usedLoops.Load()) }

// Add adds a client, unless there are as many as there may be.
func (r *Set) Add(c *Conn, most int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.byID) >= most {
		return false
	}
	r.byID[c.ID] = c
	return true
}

// Remove removes a connection.
func (r *Set) Remove(c *Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, c.ID)
}

// Len is how many connections there are.
func (r *Set) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byID)
}

// Get returns the client of a number, nil if there is none.
func (r *Set) Get(id uint64) *Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id]
}

// List returns the clients in the order in which they came.
func (r *Set) List() []*Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*Conn, 0, len(r.byID))
	for _, c := range r.byID {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *Conn) int { return int(a.ID) - int(b.ID) })
	return all
}

// ForEach calls f with every client, without its lock.
func (r *Set) ForEach(f func(*Conn)) {
	for _, c := range r.List() {
		f(c)
	}
}

// exceedsOutputLimit reports whether so many bytes are too many to wait for a subscriber.
func (r *Set) exceedsOutputLimit(n int64) bool {
	hard, most := r.OutputLimits.Load().Pubsub.Hard, r.MaxBytes.Load()
	return hard > 0 && n > hard || most > 0 && r.UsedBytes.Load() > most && n > most/int64(max(1, r.Len()))
}
