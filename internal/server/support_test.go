package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/server/conn"
	"github.com/cleavekv/cleave/internal/testkit/smallstore"
)

var ctx = context.Background()

// serverShape is how a server is made.
type serverShape struct {
	name           string
	stores, groups int
	streams        bool // each connection has a goroutine
	// loops is how many serve connections, one if it is 0. If there are several, clients are moved all the time,
	// unless they are to stay.
	loops int
	stay  bool
}

var shapes = []serverShape{
	{name: "one group", stores: 1, groups: 1}, {name: "many groups", stores: 1, groups: 5, loops: 3},
	{name: "many stores", stores: 3, groups: 6, loops: 2}, {name: "streams", stores: 1, groups: 5, streams: true},
}

// testServer is a server with its store.
type testServer struct {
	t    *testing.T
	db   *cleave.DB
	s    *Server
	addr string
	// accepted are the connections of a server whose connections have goroutines.
	accepted *opaqueListener
}

// opaqueListener keeps a server from seeing that a listener is one of TCP.
type opaqueListener struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (l *opaqueListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.conns = append(l.conns, c)
	}
	return c, err
}

func startServer(t *testing.T, sh serverShape, o Options) *testServer {
	t.Helper()
	return startOn(t, openDB(t, "", sh.options()), sh, o)
}

func (sh serverShape) options() cleave.Options {
	return cleave.Options{Stores: sh.stores, Groups: sh.groups, QueueLimit: 1 << 16}
}

// openDB opens a store, in memory if there is no directory.
func openDB(t *testing.T, dir string, o cleave.Options) *cleave.DB {
	t.Helper()
	db, err := smallstore.Open(dir, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// startOn starts a server of a store, which it closes in the end.
func startOn(t *testing.T, db *cleave.DB, sh serverShape, o Options) *testServer {
	t.Helper()
	lab, done := serveOn(t, db, sh, o)
	t.Cleanup(func() {
		lab.s.Close()
		if err := <-done; err != ErrClosed {
			t.Errorf("Serve: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return lab
}

// serveOn starts a server of a store. What Serve returns is sent.
func serveOn(t *testing.T, db *cleave.DB, sh serverShape, o Options) (*testServer, <-chan error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.Loops = max(o.Loops, sh.loops, 1)
	lab := &testServer{t, db, New(db, o), l.Addr().String(), &opaqueListener{Listener: l}}
	if sh.loops > 1 && !sh.stay {
		lab.s.clients.WorkPeriod, lab.s.clients.PlanMoves = time.Millisecond, moveEveryClient
	}
	done := make(chan error, 1)
	if sh.streams {
		go func() { done <- lab.s.Serve(lab.accepted) }()
	} else {
		go func() { done <- lab.s.Serve(l) }()
	}
	return lab, done
}

// moveEveryClient moves the clients of a loop to all others in turn.
func moveEveryClient(w conn.Work) (moves []conn.ClientMove) {
	for i := range w.Clients {
		moves = append(moves, conn.ClientMove{Client: i, To: (w.Own + 1 + i%(len(w.Busy)-1)) % len(w.Busy)})
	}
	return moves
}

// forEachShape runs a test against servers of all shapes. They run side by side, since most
// of a test is waiting; nothing may come after it in a test.
func forEachShape(t *testing.T, test func(t *testing.T, l *testServer)) {
	for _, sh := range shapes {
		t.Run(sh.name, func(t *testing.T) {
			t.Parallel()
			test(t, startServer(t, sh, Options{}))
		})
	}
}

// testConn is a client that sees bytes as they are.
type testConn struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func (l *testServer) dial() *testConn {
	l.t.Helper()
	c, err := net.Dial("tcp", l.addr)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { c.Close() })
	patience := time.Minute // a server that hangs fails the test
	if os.Getenv("CLEAVE_SOAK") != "" {
		patience *= 10
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	return &testConn{l.t, c, bufio.NewReader(c)}
}

// send sends a request of words, in one line.
func (c *testConn) send(line string) {
	c.t.Helper()
	words := strings.Fields(line)
	for i, w := range words {
		if w == "''" {
			words[i] = ""
		}
	}
	c.sendWords(words...)
}

// sendWords sends a request of words that may be long: to look for the spaces between
// them would take a while.
func (c *testConn) sendWords(words ...string) {
	c.t.Helper()
	if _, err := c.Write(encodeRequest(words...)); err != nil {
		c.t.Fatal(err)
	}
}

// encodeRequest is a request as it is sent.
func encodeRequest(words ...string) []byte {
	text := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		text = fmt.Appendf(text, "$%d\r\n%s\r\n", len(w), w)
	}
	return text
}

// readReply returns a reply in a short form: "OK", "(7)", "(nil)", "[a b]", "-ERR …".
func (c *testConn) readReply() string {
	c.t.Helper()
	text, err := readReply(c.in)
	if err != nil {
		c.t.Fatal(err)
	}
	return text
}

func readReply(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	n, _ := strconv.Atoi(line[1:])
	switch line[0] {
	case '+', '-':
		return strings.TrimPrefix(line, "+"), nil
	case ':':
		return "(" + line[1:] + ")", nil
	case '_':
		return "(nil)", nil
	case '$', '=':
		if n < 0 {
			return "(nil)", nil
		}
		b := make([]byte, n+2)
		_, err := io.ReadFull(in, b)
		return string(b[:n]), err
	case '*', '%', '~', '>':
		if n < 0 {
			return "(nil)", nil
		}
		if line[0] == '%' {
			n *= 2
		}
		var parts []string
		for range n {
			p, err := readReply(in)
			if err != nil {
				return "", err
			}
			parts = append(parts, p)
		}
		return "[" + strings.Join(parts, " ") + "]", nil
	}
	return "", fmt.Errorf("a reply that begins with %q", line)
}

// ask sends a request and returns its reply.
func (c *testConn) ask(line string) string {
	c.t.Helper()
	c.send(line)
	return c.readReply()
}

// runScript asks line by line: "request -> reply". A * in a reply ends what is compared.
func (c *testConn) runScript(text string) {
	c.t.Helper()
	for line := range strings.Lines(text) {
		request, want, ok := strings.Cut(strings.TrimSpace(line), " -> ")
		if !ok {
			if strings.TrimSpace(line) != "" {
				c.t.Fatalf("no reply in %q", line)
			}
			continue
		}
		got := c.ask(request)
		if head, ok := strings.CutSuffix(want, "*"); got != want && !(ok && strings.HasPrefix(got, head)) {
			c.t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
}
