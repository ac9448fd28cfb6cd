package serve

import (
	"net"
)

// stream is a client with a goroutine of its own: where there are no loops, and for
// connections that are encrypted.
type stream struct {
	*client
	w       *worker
	conn    net.Conn
	resumed chan struct{}
}

// streamBytes is how much is read at once.
const streamBytes = 16 << 10

// serveStream serves one connection until it ends.
func (s *Server) serveStream(conn net.Conn) {
	t := &stream{w: newWorker(s), conn: conn, resumed: make(chan struct{}, 1)}
	t.client = s.newClient(t)
	defer conn.Close()
	room := make([]byte, streamBytes)
	for {
		n, err := conn.Read(room)
		t.in = append(t.in, room[:n]...)
		if !t.takeAll() || err != nil {
			return
		}
	}
}

// takeAll executes the requests that have arrived, and tells whether to go on.
func (t *stream) takeAll() bool {
	for {
		rest := t.w.take(t.client, t.in)
		t.w.commit()
		t.in = append(t.in[:0], rest...)
		busy := t.busy
		if busy {
			<-t.resumed
			t.busy = false
		}
		if _, err := t.conn.Write(t.out.Bytes); err != nil {
			return false
		}
		if t.out.Bytes = t.out.Bytes[:0]; cap(t.out.Bytes) > keepOut {
			t.out.Bytes = nil
		}
		if t.closing {
			return false
		}
		if !busy {
			return true
		}
	}
}

// dirty implements transport.
func (t *stream) dirty(*client) {}

// resume implements transport.
func (t *stream) resume(*client) { t.resumed <- struct{}{} }
