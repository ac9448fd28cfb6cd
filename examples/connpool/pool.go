package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/route"
)

// ErrExhausted means that every connection the pool may open is in use: try
// again when one has come back, or raise the limit.
var ErrExhausted = errors.New("connpool: all connections are in use")

// Dial opens a connection.
type Dial func(ctx context.Context) (net.Conn, error)

// Conn is a connection on loan. Give it back with [Pool.Put].
type Conn struct {
	net.Conn
	shard int       // the shard that opened it and counts it
	since time.Time // when it was last put back
}

// Counters are what one shard did.
type Counters struct {
	Open  int // connections opened here and not closed, on loan or idle
	Idle  int // of those, the idle ones
	Hits  int // idle connections taken for clients of this shard
	Lent  int // and for clients of other shards, which had none idle
	Dials int
	Dead  int // of those taken, the ones found closed by the other side
}

// shard is the state of one actor: it has no lock, because no other goroutine touches it.
type shard struct {
	idle  []*Conn // the last one is the warmest
	limit int
	shut  bool // what comes back now is not kept
	Counters
}

// request is what a shard understands.
type request struct {
	what what
	conn *Conn
}

type what int

const (
	take    what = iota // give me an idle connection
	steal               // the same, for a client of another shard
	reserve             // may I open one more?
	putBack             // here is conn again
	forget              // conn, or a reserved place, is gone
	died                // the same, because the other side had closed it
)

type reply struct {
	conn *Conn
	ok   bool
}

// handle is all that ever happens to a shard.
func (s *shard) handle(r request) reply {
	switch r.what {
	case take, steal:
		if len(s.idle) == 0 {
			return reply{}
		}
		last := len(s.idle) - 1
		conn := s.idle[last]
		s.idle[last], s.idle = nil, s.idle[:last]
		if r.what == take {
			s.Hits++
		} else {
			s.Lent++
		}
		return reply{conn, true}
	case reserve:
		if s.Open == s.limit {
			return reply{}
		}
		s.Open++
		s.Dials++
		return reply{ok: true}
	case putBack:
		if s.shut {
			s.Open--
			return reply{ok: r.conn.Close() == nil}
		}
		s.idle = append(s.idle, r.conn)
	case forget, died:
		s.Open--
		if r.what == died {
			s.Dead++
		}
	}
	return reply{ok: true}
}

// Pool lends connections. Its idle lists are spread over shards, so that
// clients do not all meet at one lock; a client always asks the same shard
// first, and other shards only if that one has nothing idle.
type Pool struct {
	dial       Dial
	shards     *actor.Fleet[shard, request, reply]
	router     route.Router
	checkAfter time.Duration
}

// NewPool makes a pool of at most perShard x shards connections. Connections
// that were idle for longer than checkAfter are checked before they are lent.
func NewPool(dial Dial, shards, perShard int, checkAfter time.Duration) (*Pool, error) {
	if dial == nil || perShard < 1 {
		return nil, fmt.Errorf("connpool: want a dial function and a limit of at least 1, not %d", perShard)
	}
	nodes := make([]route.Node, max(shards, 0))
	for i := range nodes {
		nodes[i].Name = fmt.Sprint("shard ", i)
	}
	router, err := route.NewJump(nodes)
	if err != nil {
		return nil, err
	}
	fleet, err := actor.NewFleet(shards, func(int) shard { return shard{limit: perShard} },
		actor.Each((*shard).handle), actor.Options{})
	if err != nil {
		return nil, err
	}
	return &Pool{dial, fleet, router, checkAfter}, nil
}

// Get lends a connection to client: an idle one of its own shard, else an idle
// one of another, else a new one as far as the limit allows.
func (p *Pool) Get(ctx context.Context, client string) (*Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	home := p.router.Route(hash.XXH3String(client))
	for _, what := range []what{take, steal, reserve} {
		for i := range p.shards.Len() {
			at := (home + i) % p.shards.Len()
			if what == take && at != home || what == steal && at == home {
				continue
			}
			conn, err := p.try(ctx, at, what)
			if conn != nil || err != nil {
				return conn, err
			}
		}
	}
	return nil, ErrExhausted
}

// try asks one shard for one thing. Dead connections are thrown away until a
// live one turns up or none is left.
func (p *Pool) try(ctx context.Context, at int, what what) (*Conn, error) {
	for {
		// Not ctx: a client that left between the shard's giving and its own
		// taking would lose the connection. Shards answer at once anyway.
		r, err := p.shards.Call(context.Background(), at, request{what: what})
		switch {
		case err != nil || !r.ok:
			return nil, err
		case what == reserve:
			c, err := p.dial(ctx)
			if err != nil {
				return nil, errors.Join(err, p.tell(at, request{what: forget}))
			}
			return &Conn{Conn: c, shard: at}, nil
		case time.Since(r.conn.since) < p.checkAfter || alive(r.conn):
			return r.conn, nil
		}
		_ = r.conn.Close()
		if err := p.tell(at, request{what: died}); err != nil {
			return nil, err
		}
	}
}

// Put gives a connection back. broken says that it is of no more use.
func (p *Pool) Put(c *Conn, broken bool) error {
	if broken {
		return errors.Join(c.Close(), p.tell(c.shard, request{what: forget}))
	}
	c.since = time.Now()
	return p.tell(c.shard, request{what: putBack, conn: c})
}

// tell sends a shard what it must not miss, whatever became of the client.
func (p *Pool) tell(at int, r request) error {
	return p.shards.Post(context.Background(), at, r)
}

// Counters returns what each shard did.
func (p *Pool) Counters(ctx context.Context) ([]Counters, error) {
	all := make([]Counters, p.shards.Len())
	for i := range all {
		err := p.shards.Do(ctx, i, func(s *shard) {
			all[i] = s.Counters
			all[i].Idle = len(s.idle)
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Close closes the idle connections, and those that come back while it does,
// and stops the pool. Those still on loan are their borrowers' to close.
func (p *Pool) Close(ctx context.Context) error {
	return errors.Join(p.empty(ctx), p.shards.Stop(ctx))
}

// empty closes what is idle and makes the shards keep nothing from now on.
func (p *Pool) empty(ctx context.Context) error {
	var errs []error
	for i := range p.shards.Len() {
		err := p.shards.Do(ctx, i, func(s *shard) {
			for _, c := range s.idle {
				errs = append(errs, c.Close())
			}
			s.Open -= len(s.idle)
			s.idle, s.shut = nil, true
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// alive asks whether the other side is still there: nothing is due on an idle
// connection, so a short read must time out. An end of file, or unexpected
// bytes, mean that it cannot be used.
func alive(c *Conn) bool {
	var b [1]byte
	if c.SetReadDeadline(time.Now().Add(time.Millisecond)) != nil {
		return false
	}
	_, err := c.Read(b[:])
	return errors.Is(err, os.ErrDeadlineExceeded) && c.SetReadDeadline(time.Time{}) == nil
}
