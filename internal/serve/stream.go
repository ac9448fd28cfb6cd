package serve

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// stream is a client with a goroutine of its own: where there are no loops, and for
// connections that are encrypted.
type stream struct {
	c       *client
	w       *worker
	conn    net.Conn
	resumed chan struct{}
	// turn is held while requests are executed and answered, so that a message comes
	// behind the answers to what was executed before it.
	turn sync.Mutex
}

const (
	// streamBytes is how much is read at once, and streamKeys the room for the keys of
	// what is executed at once: each connection has both.
	streamBytes = 4 << 10
	streamKeys  = 4 << 10
)

// serveStreams serves connections of any listener.
func (s *Server) serveStreams(l net.Listener) error {
	defer l.Close()
	s.running.Go(func() {
		<-s.ctx.Done()
		_ = l.Close()
	})
	for {
		conn, err := l.Accept()
		switch {
		case s.ctx.Err() != nil:
			return ErrClosed
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // too many open files, say
			s.notAccepted(err)
			sleep(s.ctx, acceptPause)
			continue
		}
		s.running.Go(func() { s.serveStream(conn) })
	}
}

// acceptPause is how long a server does not look for connections after one could not be
// accepted.
const acceptPause = 500 * time.Millisecond

// notAccepted tells of a connection that could not be accepted.
func (s *Server) notAccepted(err error) {
	s.opts.Log.Warn("cannot accept a connection: it waits; lower maxclients, or allow more open files (ulimit -n)", "error", err)
}

// serveStream serves one connection until it ends.
func (s *Server) serveStream(conn net.Conn) {
	t := &stream{w: newWorker(s, streamKeys), conn: conn, resumed: make(chan struct{}, 1)}
	defer conn.Close()
	var refused string
	if t.c, refused = s.newClient(t, conn.RemoteAddr().String(), conn.LocalAddr().String()); t.c == nil {
		_, _ = conn.Write([]byte(refused))
		return
	}
	defer s.gone(t.c)
	room := make([]byte, streamBytes)
	for s.ctx.Err() == nil {
		n, err := conn.Read(room)
		s.stats.in.Add(uint64(n))
		if !t.takeAll(room[:n]) || err != nil {
			return
		}
	}
}

// takeAll executes the requests that have arrived, and tells whether to go on.
func (t *stream) takeAll(more []byte) bool {
	t.turn.Lock()
	defer t.turn.Unlock()
	c := t.c
	c.in = append(c.in, more...)
	for {
		t.w.nowMS = c.s.opts.Now().UnixMilli()
		rest := t.w.take(c, c.in)
		t.w.commit()
		c.in = append(c.in[:0], rest...)
		busy := c.busy
		if busy {
			<-t.resumed
			c.busy = false
		}
		if !t.flush() || c.closing {
			return false
		}
		c.count()
		if !busy && !c.stalled {
			return true
		}
	}
}

// flush writes the answers.
func (t *stream) flush() bool {
	t.c.s.tracker.answered(t.c)
	if len(t.c.out.Bytes) == 0 {
		return true
	}
	_ = t.conn.SetWriteDeadline(time.Now().Add(writeTime))
	t.c.seen.waiting.Store(int64(len(t.c.out.Bytes)))
	n, err := t.conn.Write(t.c.out.Bytes)
	t.c.s.stats.out.Add(uint64(n))
	t.c.seen.waiting.Store(0)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.c.refuse("it does not read its answers")
	}
	if t.c.out.Bytes = t.c.out.Bytes[:0]; cap(t.c.out.Bytes) > keepOut {
		t.c.out.Bytes = nil
	}
	return err == nil
}

// dirty implements transport.
func (t *stream) dirty() {}

// send implements transport. Here it would wait for the client.
func (t *stream) send() {}

// resume implements transport.
func (t *stream) resume() { t.resumed <- struct{}{} }

// posted implements transport.
func (t *stream) posted() {
	t.c.s.running.Go(func() {
		t.turn.Lock()
		defer t.turn.Unlock()
		t.c.collect()
		if !t.flush() {
			t.kill()
		}
	})
}

// kill implements transport.
func (t *stream) kill() { _ = t.conn.Close() }
