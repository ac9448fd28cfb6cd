package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// limitListener bounds the connections of a listener so that none of them keeps the others out. When
// there are too many, the one that has rested for longest makes room: a client that has sent
// nothing, or half a header, or that keeps a connection for later. If all of them are being
// served, a few more are let in, which can ask for the health of the server and nothing else.
type limitListener struct {
	net.Listener
	// maxConns is how many connections may ask for anything, and reserve how many more may ask for
	// health.
	maxConns, maxHealthConns int
	// onClose is called with the reason when a connection was closed. It must not block.
	onClose func(reason string, from net.Addr)

	mu       sync.Mutex
	conns    map[*limitedConn]bool
	useClock uint64 // grows with each use of a connection
}

// limitedConn is a connection of a crowd.
type limitedConn struct {
	net.Conn
	listener *limitListener
	// healthOnly means that it is served health alone. It does not change.
	healthOnly bool
	// serving means that a request of it is under way, and used is when it was last begun or
	// ended, by the crowd's clock. REQUIRES: of.mu held.
	serving  bool
	lastUsed uint64
}

// Accept returns the next connection that there is room for.
func (c *limitListener) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		m, victim := c.admitConn(conn)
		if victim != nil {
			_ = victim.Close()
			c.onClose("it rested, and another one needed its place", victim.RemoteAddr())
		}
		if m != nil {
			return m, nil
		}
		_ = conn.Close()
		c.onClose("all connections are in use", conn.RemoteAddr())
	}
}

// admitConn makes a connection a member, perhaps in the place of another. It returns nil if there
// is no room.
func (c *limitListener) admitConn(conn net.Conn) (m, victim *limitedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, reserved := range []bool{false, true} {
		most := c.maxConns
		if reserved {
			most = c.maxHealthConns
		}
		count, resting := c.countAndFindIdle(reserved)
		switch {
		case count < most:
			return c.addConn(conn, reserved), nil
		case resting != nil:
			delete(c.conns, resting)
			return c.addConn(conn, reserved), resting
		}
	}
	return nil, nil
}

// countAndFindIdle counts members of a kind, and returns the one that has rested for longest, nil if all
// are being served. REQUIRES: c.mu held.
func (c *limitListener) countAndFindIdle(reserved bool) (count int, resting *limitedConn) {
	for m := range c.conns {
		if m.healthOnly != reserved {
			continue
		}
		count++
		if !m.serving && (resting == nil || m.lastUsed < resting.lastUsed) {
			resting = m
		}
	}
	return count, resting
}

// addConn adds a member. REQUIRES: c.mu held.
func (c *limitListener) addConn(conn net.Conn, reserved bool) *limitedConn {
	c.useClock++
	m := &limitedConn{Conn: conn, listener: c, healthOnly: reserved, lastUsed: c.useClock}
	if c.conns == nil {
		c.conns = map[*limitedConn]bool{}
	}
	c.conns[m] = true
	return m
}

// recordState is called by the HTTP server when a connection changes its state. A request counts from when its header
// is whole.
func (c *limitListener) recordState(conn net.Conn, state http.ConnState) {
	if m := unwrapConn(conn); m != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.useClock++
		m.serving, m.lastUsed = state == http.StateActive, c.useClock
	}
}

// unwrapConn returns the member below a connection, which may be encrypted.
func unwrapConn(conn net.Conn) *limitedConn {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	m, _ := conn.(*limitedConn)
	return m
}

// connContextKey is the key of the member in the context of its requests.
type connContextKey struct{}

// isHealthOnly reports whether a request came by a connection that is served health alone.
func isHealthOnly(r *http.Request) bool {
	m, _ := r.Context().Value(connContextKey{}).(*limitedConn)
	return m != nil && m.healthOnly
}

// Close closes the connection.
func (m *limitedConn) Close() error {
	m.listener.mu.Lock()
	delete(m.listener.conns, m)
	m.listener.mu.Unlock()
	return m.Conn.Close()
}

// shutdownGrace is how long requests may take to end when the server does.
const shutdownGrace = 5 * time.Second

// shutdownHTTP lets requests come to their end, but not for long.
func (a *Admin) shutdownHTTP() error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	err := a.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = a.http.Close()
	}
	if l := a.o.Listener.Close(); !errors.Is(l, net.ErrClosed) {
		err = errors.Join(err, l) // it was never served
	}
	return err
}

// newDiscardLogger drops what net/http would write to stderr about the mistakes of strangers.
func newDiscardLogger() *log.Logger { return log.New(io.Discard, "", 0) }
