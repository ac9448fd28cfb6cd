package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
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
	// execMu is held while requests are executed and answered, so that a message comes
	// behind the answers to what was executed before it.
	execMu sync.Mutex
}

const (
	// streamReadBytes is how much is read at once, and streamRowKeyBytes the room for the keys of
	// what is executed at once: each connection has both.
	streamReadBytes   = 4 << 10
	streamRowKeyBytes = 4 << 10
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
			s.logAcceptError(err)
			sleepContext(s.ctx, acceptPause)
			continue
		}
		s.running.Go(func() { s.serveStream(conn) })
	}
}

// acceptPause is how long a server does not look for connections after one could not be
// accepted.
const acceptPause = 500 * time.Millisecond

// logAcceptError tells of a connection that could not be accepted.
func (s *Server) logAcceptError(err error) {
	s.clientLog.Warn("cannot accept a connection: it waits; lower maxclients, or allow more open files (ulimit -n)", "error", err)
}

// serveStream serves one connection until it ends.
func (s *Server) serveStream(conn net.Conn) {
	t := &stream{w: newWorker(s, streamRowKeyBytes), conn: conn, resumed: make(chan struct{}, 1)}
	defer conn.Close()
	var refused string
	if t.c, refused = s.newClient(t, conn.RemoteAddr().String(), conn.LocalAddr().String()); t.c == nil {
		_, _ = conn.Write([]byte(refused))
		return
	}
	defer s.removeClient(t.c)
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
	if !t.c.lingering || !ok || half.CloseWrite() != nil {
		return
	}
	t.c.status.partialSinceMS.Store(t.c.s.opts.Now().UnixMilli())
	_, _ = io.Copy(io.Discard, t.conn) // until it has closed too, or was killed
}

// takeInput executes the requests that have arrived, and reports whether to go on.
func (t *stream) takeInput(more []byte) bool {
	t.execMu.Lock()
	defer t.execMu.Unlock()
	c := t.c
	c.appendInput(more)
	for {
		t.w.nowMS = c.s.opts.Now().UnixMilli()
		rest := t.w.takeRequests(c, c.in)
		t.w.commit()
		c.keepRest(rest)
		busy := c.busy
		if busy {
			<-t.resumed
			c.busy = false
		}
		if !t.flushReplies() || c.closing {
			return false
		}
		c.accountMemory()
		if !busy && !c.stalled {
			return true
		}
	}
}

// flushReplies writes the answers.
func (t *stream) flushReplies() bool {
	t.c.recordAnswered()
	if len(t.c.out.Bytes) == 0 {
		return true
	}
	_ = t.conn.SetWriteDeadline(time.Now().Add(maxWriteTime))
	t.c.status.unsentBytes.Store(int64(len(t.c.out.Bytes)))
	n, err := t.conn.Write(t.c.out.Bytes)
	t.c.s.stats.BytesOut.Add(uint64(n))
	t.c.status.unsentBytes.Store(0)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.c.closeForLimit("it does not read its answers")
	}
	if t.c.out.Bytes = t.c.out.Bytes[:0]; cap(t.c.out.Bytes) > maxRetainedBytes {
		t.c.out.Bytes = nil
	}
	return err == nil
}

// notifyOutput implements transport.
func (t *stream) notifyOutput() {}

// sendOutput implements transport. Here it would wait for the client.
func (t *stream) sendOutput() {}

// resumeClient implements transport.
func (t *stream) resumeClient() { t.resumed <- struct{}{} }

// notifyMail implements transport.
func (t *stream) notifyMail() {
	t.c.s.running.Go(func() {
		t.execMu.Lock()
		defer t.execMu.Unlock()
		t.c.collectMail()
		if !t.flushReplies() {
			t.closeConn()
		}
	})
}

// closeConn implements transport.
func (t *stream) closeConn() { _ = t.conn.Close() }

// ServeTLS serves encrypted connections of a listener, as Serve does. A certificate that
// is replaced is used from the next connection on.
func (s *Server) ServeTLS(l net.Listener, certFile, keyFile string) error {
	c, err := TLSConfig(certFile, keyFile)
	if err != nil {
		return err
	}
	s.config.SetListenAddr("tls-port", l.Addr())
	return s.serveListener(tls.NewListener(l, c))
}

// TLSConfig is for a listener that encrypts. A certificate that is replaced is used from the next
// connection on.
func TLSConfig(certFile, keyFile string) (*tls.Config, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile}
	if _, err := c.get(nil); err != nil {
		return nil, err
	}
	return &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12}, nil
}

// certificate is read from files again when they change.
type certificate struct {
	certFile, keyFile string

	mu       sync.Mutex
	current  *tls.Certificate
	modTimes [2]time.Time // of the files, as they were read
}

// get returns the certificate. If the new one cannot be read, perhaps because only one
// of the files is written yet, it is the old one.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed, err := fileModTimes(c.certFile, c.keyFile)
	if err == nil && c.current != nil && changed == c.modTimes {
		return c.current, nil
	}
	if err == nil {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(c.certFile, c.keyFile); err == nil {
			c.current, c.modTimes = &pair, changed
			return c.current, nil
		}
	}
	if c.current != nil {
		return c.current, nil
	}
	return nil, fmt.Errorf("serve: certificate %s with key %s: %w", c.certFile, c.keyFile, err)
}

func fileModTimes(files ...string) (at [2]time.Time, err error) {
	for i, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return at, err
		}
		at[i] = info.ModTime()
	}
	return at, nil
}
