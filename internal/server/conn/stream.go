package conn

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// stream is a client with a goroutine of its own: where there are no loops, and for
// connections that are encrypted.
type stream struct {
	c       *Conn
	e       Executor
	conn    net.Conn
	resumed chan struct{}
	// execMu is held while requests are executed and answered, so that a message comes
	// behind the answers to what was executed before it.
	execMu sync.Mutex
}

// streamReadBytes is how much is read at once: each connection has that.
const streamReadBytes = 4 << 10

// ServeStreams serves connections of any listener.
func (s *Set) ServeStreams(l net.Listener) error {
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
			s.logAcceptError(err)
			select {
			case <-time.After(acceptPause):
			case <-s.ctx.Done():
			}
			continue
		}
		s.running.Go(func() { s.serveStream(conn) })
	}
}

// acceptPause is how long a server does not look for connections after one could not be
// accepted.
const acceptPause = 500 * time.Millisecond

// logAcceptError logs a connection that could not be accepted.
func (s *Set) logAcceptError(err error) {
	s.Log.Warn("cannot accept a connection: it waits; lower maxclients, or allow more open files (ulimit -n)", "error", err)
}

// serveStream serves one connection until it ends.
func (s *Set) serveStream(conn net.Conn) {
	t := &stream{e: s.newExecutor(false), conn: conn, resumed: make(chan struct{}, 1)}
	defer conn.Close()
	var refused string
	if t.c, refused = t.e.Accept(t, conn.RemoteAddr().String(), conn.LocalAddr().String()); t.c == nil {
		_, _ = conn.Write([]byte(refused))
		return
	}
	defer t.c.session.Close()
	room := make([]byte, streamReadBytes)
	for s.ctx.Err() == nil {
		n, err := conn.Read(room)
		s.stats.BytesIn.Add(uint64(n))
		if !t.takeInput(room[:n]) || err != nil {
			t.drainInput()
			return
		}
	}
}

// drainInput throws away what a client still sends whose last answer it would not see else. The sweep ends one
// that goes on.
func (t *stream) drainInput() {
	half, ok := t.conn.(interface{ CloseWrite() error })
	if !t.c.Lingering || !ok || half.CloseWrite() != nil {
		return
	}
	t.c.Status.PartialSinceMS.Store(t.c.set.now().UnixMilli())
	_, _ = io.Copy(io.Discard, t.conn) // until it has closed too, or was killed
}

// takeInput executes the requests that have arrived, and reports whether to go on.
func (t *stream) takeInput(more []byte) bool {
	t.execMu.Lock()
	defer t.execMu.Unlock()
	c := t.c
	c.appendInput(more)
	for {
		t.e.BeginRound(c.set.now().UnixMilli())
		rest := c.session.TakeRequests(c.In)
		t.e.Commit()
		c.keepRest(rest)
		busy := c.Busy
		if busy {
			<-t.resumed
			c.Busy = false
		}
		if !t.flushReplies() || c.Closing {
			return false
		}
		c.AccountMemory()
		if !busy && !c.Stalled {
			return true
		}
	}
}

// flushReplies writes the answers.
func (t *stream) flushReplies() bool {
	t.c.session.RecordAnswered()
	if len(t.c.Out.Bytes) == 0 {
		return true
	}
	_ = t.conn.SetWriteDeadline(time.Now().Add(MaxWriteTime))
	t.c.Status.UnsentBytes.Store(int64(len(t.c.Out.Bytes)))
	n, err := t.conn.Write(t.c.Out.Bytes)
	t.c.set.stats.BytesOut.Add(uint64(n))
	t.c.Status.UnsentBytes.Store(0)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.c.CloseForLimit("it does not read its answers")
	}
	if t.c.Out.Bytes = t.c.Out.Bytes[:0]; cap(t.c.Out.Bytes) > MaxRetainedBytes {
		t.c.Out.Bytes = nil
	}
	return err == nil
}

// NotifyOutput implements [Transport].
func (t *stream) NotifyOutput() {}

// SendOutput implements [Transport]. Here it would wait for the client.
func (t *stream) SendOutput() {}

// Resume implements [Transport].
func (t *stream) Resume() { t.resumed <- struct{}{} }

// NotifyMail implements [Transport].
func (t *stream) NotifyMail() {
	t.c.set.running.Go(func() {
		t.execMu.Lock()
		defer t.execMu.Unlock()
		t.c.CollectMail()
		if !t.flushReplies() {
			t.Close()
		}
	})
}

// Close implements [Transport].
func (t *stream) Close() { _ = t.conn.Close() }
