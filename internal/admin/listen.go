package admin

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"sync"
	"time"
)

// bounded closes connections beyond a number at once. To let them wait would give who has
// the others the power to keep everybody out in silence.
type bounded struct {
	net.Listener
	most int

	mu   sync.Mutex
	open int
}

// Accept returns the next connection that there is room for.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		b.mu.Lock()
		room := b.open < b.most
		if room {
			b.open++
		}
		b.mu.Unlock()
		if room {
			return &counted{Conn: c, b: b}, nil
		}
		c.Close()
	}
}

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	b    *bounded
	once sync.Once
}

// Close closes the connection.
func (c *counted) Close() error {
	c.once.Do(func() {
		c.b.mu.Lock()
		c.b.open--
		c.b.mu.Unlock()
	})
	return c.Conn.Close()
}

// grace is how long requests may take to end when the server does.
const grace = 5 * time.Second

// shutdown lets requests come to their end, but not for long.
func (a *Admin) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
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

// quiet drops what net/http would write to stderr about the mistakes of strangers.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
