package server

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/server/conn"
	"github.com/cleavekv/cleave/internal/server/pubsub"
	"github.com/cleavekv/cleave/internal/server/settings"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// forLoopsAndStreams runs a test with loops and with a goroutine for each connection. What the
// server logs is returned by said.
func forLoopsAndStreams(t *testing.T, o Options, test func(t *testing.T, l *testServer, said func() string)) {
	for _, sh := range []serverShape{shapes[1], shapes[3]} {
		t.Run(sh.name, func(t *testing.T) {
			var log safeBuffer
			o := o
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			test(t, startServer(t, sh, o), log.String)
		})
	}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// heapBytes is how much memory is in use.
func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A client that announces that much gets no memory for it before it has come.
func TestLengthBombsTakeNoMemory(t *testing.T) {
	forLoopsAndStreams(t, Options{}, func(t *testing.T, l *testServer, _ func() string) {
		before := heapBytes()
		var bombs []*testConn
		for range 20 {
			for _, bomb := range []string{"*1000000\r\n", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$60000000\r\n", "*1000000\r\n$3\r\nDEL\r\n$60000000\r\n"} {
				c := l.dial()
				if _, err := c.Write([]byte(bomb)); err != nil {
					t.Fatal(err)
				}
				bombs = append(bombs, c)
			}
		}
		l.dial().runScript("PING -> PONG")
		if grown := heapBytes() - before; grown > 64<<20 {
			t.Errorf("%d connections that have sent a line each take %d MiB", len(bombs), grown>>20)
		}
		for text, want := range map[string]string{
			"*2000000\r\n":                          "-ERR Protocol error: invalid multibulk length: a request of 2000000 arguments, at most 1048576",
			"*1\r\n$100000000000\r\n":               "-ERR Protocol error: invalid bulk length: an argument of 100000000000 bytes, at most 67108864",
			"*2\r\n$4\r\nECHO\r\n*1\r\n$1\r\na\r\n": "-ERR Protocol error: expected '$', got '*'", // nothing is nested
			"*1\r\n$-5\r\n":                         "-ERR Protocol error: invalid bulk length",
			strings.Repeat("x", 70<<10):             "-ERR Protocol error: too big inline request",
		} {
			c := l.dial()
			_, _ = c.Write([]byte(text))
			if got := c.readReply(); got != want {
				t.Errorf("%.30q: %s", text, got)
			}
			if _, err := c.in.ReadByte(); err == nil {
				t.Errorf("%.30q: the connection goes on", text)
			}
		}
	})
}

// A request that does not end is not waited for, and one that comes slowly is.
func TestHalfRequestsAreNotWaitedForForEver(t *testing.T) {
	forLoopsAndStreams(t, Options{}, func(t *testing.T, l *testServer, said func() string) {
		half, slow := l.dial(), l.dial()
		half.runScript("PING -> PONG")
		for _, c := range []*testConn{half, slow} {
			if _, err := c.Write([]byte("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nab")); err != nil {
				t.Fatal(err)
			}
		}
		waitUntil(t, "two half requests", func() bool {
			n := 0
			l.s.clients.ForEach(func(c *conn.Conn) {
				if c.Status.PartialSinceMS.Load() != 0 {
					n++
				}
			})
			return n == 2
		})
		l.s.sweepClientsOnce(time.Now().Add(conn.MaxRequestTime - 10*time.Second))
		if _, err := slow.Write([]byte("cde\r\n")); err != nil {
			t.Fatal(err)
		}
		if got := slow.readReply(); got != "OK" {
			t.Fatal(got)
		}
		l.s.sweepClientsOnce(time.Now().Add(conn.MaxRequestTime + 10*time.Second))
		if _, err := half.in.ReadByte(); err == nil {
			t.Error("the half request is still waited for")
		}
		slow.runScript("GET k -> abcde")
		if !strings.Contains(said(), "did not end") {
			t.Errorf("the log says %s", said())
		}
	})
}

// A client that asks for much and does not read it gets no more of its requests served, takes a bounded amount of
// memory, and is closed in the end; others are served meanwhile.
func TestASlowReaderTakesLittleAndIsClosed(t *testing.T) {
	forLoopsAndStreams(t, Options{}, func(t *testing.T, l *testServer, said func() string) {
		other := l.dial()
		other.send("SET big " + strings.Repeat("x", 1<<20))
		if got := other.readReply(); got != "OK" {
			t.Fatal(got)
		}
		before := heapBytes()
		reader := l.dial()
		// Two gigabytes are asked for at once: it all comes in one read.
		if _, err := reader.Write(bytes.Repeat([]byte("*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n"), 2000)); err != nil {
			t.Fatal(err)
		}
		waitUntil(t, "answers that wait", func() bool {
			waits := false
			l.s.clients.ForEach(func(c *conn.Conn) { waits = waits || c.Status.UnsentBytes.Load() > 1<<20 })
			return waits
		})
		for range 50 {
			other.runScript("GET none -> (nil)")
		}
		if grown := heapBytes() - before; grown > 128<<20 {
			t.Errorf("one that does not read takes %d MiB", grown>>20)
		}
		if l.s.clients.Len() != 2 {
			t.Errorf("%d clients", l.s.clients.Len())
		}
		waitUntil(t, "the end of the slow reader", func() bool {
			closeStuck(l) // again: it may have been between two writes, of which the first was taken
			return l.s.clients.Len() == 1
		})
		if !strings.Contains(said(), "does not read") {
			t.Errorf("the log says %s", said())
		}
	})
}

// closeStuck makes the time pass that a client may leave its answers unread.
func closeStuck(l *testServer) {
	l.accepted.mu.Lock()
	for _, c := range l.accepted.conns {
		_ = c.SetWriteDeadline(time.Now()) // a stream waits in a write; others set another deadline before they write
	}
	l.accepted.mu.Unlock()
	l.s.sweepClientsOnce(time.Now().Add(conn.MaxWriteTime + 10*time.Second))
}

// A client that reads gets every answer, however many there are and however large.
func TestLargeAnswersComeWholeToWhoReadsThem(t *testing.T) {
	forLoopsAndStreams(t, Options{}, func(t *testing.T, l *testServer, _ func() string) {
		c := l.dial()
		c.send("SET big " + strings.Repeat("x", 300<<10))
		c.readReply()
		const n = 200 // sixty megabytes, asked for at once
		for i := range n {
			c.send("GET big")
			c.send(fmt.Sprintf("ECHO %d", i))
		}
		for i := range n {
			if got := c.readReply(); len(got) != 300<<10 {
				t.Fatalf("answer %d has %d bytes", i, len(got))
			}
			if got := c.readReply(); got != fmt.Sprint(i) {
				t.Fatalf("%d: %s", i, got)
			}
		}
	})
}

func TestAnswersAboveTheLimitCloseTheConnection(t *testing.T) {
	forLoopsAndStreams(t, Options{}, func(t *testing.T, l *testServer, said func() string) {
		c, other := l.dial(), l.dial()
		c.runScript(`
			CONFIG SET client-output-buffer-limit nonsense -> -ERR CONFIG SET failed (possibly related to argument 'client-output-buffer-limit') - Wrong number*
			CONFIG GET client-output-buffer-limit -> [client-output-buffer-limit normal 1073741824*
		`)
		if _, err := c.Write([]byte("CONFIG SET client-output-buffer-limit 'normal 100kb 0 0 pubsub 50kb 0 0'\r\n")); err != nil {
			t.Fatal(err)
		}
		if got := c.readReply(); got != "OK" {
			t.Fatal(got)
		}
		c.send("MSET {t}a " + strings.Repeat("x", 60<<10) + " {t}b " + strings.Repeat("x", 60<<10))
		if got := c.readReply(); got != "OK" {
			t.Fatal(got)
		}
		if got := c.ask("GET {t}a"); len(got) != 60<<10 {
			t.Fatalf("%.100s", got)
		}
		c.send("MGET {t}a {t}b")
		if b, err := c.in.ReadByte(); err == nil {
			t.Errorf("it is answered with %c", b)
		}
		listener := l.dial()
		listener.runScript("SUBSCRIBE news -> [subscribe news (1)]")
		message := "PUBLISH news " + strings.Repeat("x", 60<<10)
		if got := other.ask(message); got != "(1)" {
			t.Error(got)
		}
		if _, err := io.Copy(io.Discard, listener); err != nil {
			t.Error(err)
		}
		if !strings.Contains(said(), "answers are larger") || !strings.Contains(said(), "more messages") {
			t.Errorf("the log says %s", said())
		}
	})
}

// All that clients send together is bounded too, whatever each of them may send.
func TestTheBuffersOfAllClientsAreBounded(t *testing.T) {
	forLoopsAndStreams(t, Options{}, func(t *testing.T, l *testServer, said func() string) {
		calm := l.dial()
		calm.runScript("CONFIG SET maxmemory-clients 8mb -> OK")
		part := append([]byte("*2\r\n$4\r\nECHO\r\n$50000000\r\n"), bytes.Repeat([]byte("x"), 3<<20)...)
		for range 8 {
			c := l.dial()
			_, _ = c.Write(part) // it may be closed meanwhile
		}
		waitUntil(t, "one that is closed", func() bool { return strings.Contains(said(), "maxmemory-clients") })
		if used := l.s.clients.UsedBytes.Load(); used > 32<<20 {
			t.Errorf("they take %d MiB", used>>20)
		}
		calm.runScript("PING -> PONG")
	})
}

func TestWhatAClientIsRememberedByIsBounded(t *testing.T) {
	l := startServer(t, shapes[1], Options{})
	c := l.dial()
	long := strings.Repeat("n", maxNameBytes+1)
	c.runScript("CLIENT SETNAME " + long + " -> -ERR Client names cannot contain*\nCLIENT SETINFO LIB-NAME " + long + " -> -ERR*")
	many := func(command string, n int) string {
		line := []byte(command)
		for i := range n {
			line = fmt.Appendf(line, " k%d", i)
		}
		return string(line)
	}
	c.runScript(many("WATCH", maxWatchedKeys+1) + " -> -ERR too many watched keys: at most 10000")
	c.runScript(many("SUBSCRIBE", maxSubscriptions+1) + " -> -ERR too many subscriptions: at most 100000 of a connection\nMULTI -> OK")
	c.sendWords("SET", "k", strings.Repeat("x", maxQueuedBytes-100))
	if got := c.readReply(); got != "QUEUED" {
		t.Fatalf("%.100s", got)
	}
	c.runScript("SET k " + strings.Repeat("x", 200) + " -> -ERR too many commands in MULTI: use several transactions\nEXEC -> -EXECABORT*")
}

// A client that guesses passwords waits longer and longer, also on another connection.
func TestGuessersWait(t *testing.T) {
	var g authThrottle
	now := time.Unix(1000, 0)
	last := time.Duration(0)
	for i := range 12 {
		p := g.recordFailure(fmt.Sprintf("10.0.0.1:%d", i), now)
		if p < last || i < 5 && p != minAuthDelay<<i {
			t.Errorf("guess %d waits %v after %v", i, p, last)
		}
		last = p
	}
	if last != maxAuthDelay || g.recordFailure("10.0.0.2:1", now) != minAuthDelay || g.recordFailure("10.0.0.1:1", now.Add(2*authFailureWindow)) != minAuthDelay {
		t.Error("another address waits, or it is never forgotten")
	}
	for i := range 3 * maxThrottledAddrs {
		g.recordFailure(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255), now)
	}
	if len(g.failures) > maxThrottledAddrs {
		t.Errorf("%d addresses are remembered", len(g.failures))
	}
}

func TestMoreClientsThanThereMayBeAreTurnedAway(t *testing.T) {
	forLoopsAndStreams(t, Options{Clients: 3}, func(t *testing.T, l *testServer, _ func() string) {
		var all []*testConn
		for range 3 {
			c := l.dial()
			c.runScript("PING -> PONG")
			all = append(all, c)
		}
		if got := l.dial().readReply(); got != "-ERR max number of clients reached" {
			t.Error(got)
		}
		all[0].Close()
		waitUntil(t, "room for another", func() bool {
			c, err := net.Dial("tcp", l.addr)
			if err != nil {
				return false
			}
			defer c.Close()
			_, _ = c.Write([]byte("PING\r\n"))
			b := make([]byte, 1)
			_, _ = io.ReadFull(c, b)
			return b[0] == '+'
		})
	})
}

// Connections that come and go leave nothing behind.
func TestConnectionsThatComeAndGoLeaveNothing(t *testing.T) {
	forLoopsAndStreams(t, Options{}, func(t *testing.T, l *testServer, _ func() string) {
		visit := func(i int) {
			c, err := net.Dial("tcp", l.addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			switch i % 4 {
			case 0: // at once
			case 1:
				_, _ = c.Write([]byte("*2\r\n$3\r\nGE"))
			case 2:
				_, _ = c.Write([]byte("SUBSCRIBE a b c\r\nCLIENT TRACKING ON\r\n"))
			default:
				_, _ = c.Write([]byte("SET k v\r\nMULTI\r\nSET k v\r\n"))
				_, _ = c.Read(make([]byte, 5))
			}
		}
		visit(3)
		for i := range 1000 {
			visit(i)
		}
		waitUntil(t, "the last one to be gone", func() bool { return l.s.clients.Len() == 0 })
		listeners := l.s.hub.CountNames(pubsub.ByChannel) + l.s.hub.CountPatterns()
		if listeners != 0 || l.s.tracker.Len() != 0 || l.s.clients.UsedBytes.Load() != 0 {
			t.Errorf("%d listeners, %d trackers and %d bytes are left", listeners, l.s.tracker.Len(), l.s.clients.UsedBytes.Load())
		}
		l.dial().runScript("PING -> PONG")
	})
}

// A client that resets the connection while it is busy is dropped when it is busy no more, whatever
// it has asked for else.
func TestWhoIsGoneWhileBusyIsDropped(t *testing.T) {
	forLoopsAndStreams(t, Options{}, func(t *testing.T, l *testServer, _ func() string) {
		l.dial().runScript("CONFIG SET requirepass boss -> OK")
		for i := range 8 {
			c, err := net.Dial("tcp", l.addr)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = c.Write([]byte("AUTH wrong\r\n" + strings.Repeat("AUTH boss\r\nCLIENT REPLY OFF\r\n", i%3)))
			time.Sleep(5 * time.Millisecond)
			_ = c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
		waitUntil(t, "the last one to be gone", func() bool { return l.s.clients.Len() == 1 })
		l.dial().runScript("AUTH boss -> OK\nPING -> PONG")
	})
}

// Of what a client sends behind QUIT nothing is kept, though it does not read its answers.
func TestWhatIsSentBehindQUITIsNotKept(t *testing.T) {
	forLoopsAndStreams(t, Options{}, func(t *testing.T, l *testServer, _ func() string) {
		c := l.dial()
		_ = c.Conn.(*net.TCPConn).SetReadBuffer(4096)
		waits := func() bool {
			all := l.s.clients.List()
			return len(all) == 1 && all[0].Status.UnsentBytes.Load() > 0
		}
		_ = c.SetWriteDeadline(time.Now().Add(eventually.Limit()))
		for err := error(nil); !waits() && err == nil; time.Sleep(time.Millisecond) {
			_, err = c.Write(bytes.Repeat([]byte("WRONG\r\n"), 100))
		}
		_, _ = c.Write([]byte("QUIT\r\n"))
		_ = c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
		for sent := 0; sent < 256; sent++ {
			if _, err := c.Write(make([]byte, 1<<20)); err != nil {
				break
			}
		}
		if used := l.s.clients.UsedBytes.Load(); used > 8<<20 {
			t.Errorf("%d bytes are kept", used)
		}
	})
}

// All that was asked for before QUIT is answered, whatever comes behind it.
func TestWhatIsSentBehindQUITTakesNoAnswerAway(t *testing.T) {
	const n = 100
	l := startServer(t, shapes[1], Options{})
	l.dial().sendWords("SET", "large", strings.Repeat("x", 64<<10))
	c := l.dial()
	for c.ask("EXISTS large") != "(1)" {
		time.Sleep(time.Millisecond)
	}
	_ = c.Conn.(*net.TCPConn).SetReadBuffer(64 << 10)
	c.sendPipeline(strings.Repeat("GET large\r\n", n) + "QUIT\r\n")
	time.Sleep(50 * time.Millisecond)
	c.sendPipeline(strings.Repeat("PING\r\n", 1000))
	for i := range n {
		if got := c.readReply(); len(got) != 64<<10 {
			t.Fatalf("answer %d is %.20q", i, got)
		}
		if i%10 == 0 {
			time.Sleep(5 * time.Millisecond)
		}
	}
	if got := c.readReply(); got != "OK" {
		t.Errorf("QUIT is answered by %q", got)
	}
	if _, err := readReply(c.in); err != io.EOF {
		t.Errorf("behind that: %v", err)
	}
}

// A client that has ended its side may still read what was asked for before QUIT.
func TestWhoEndsBehindQUITReadsItsAnswers(t *testing.T) {
	const n = 70 // they fit neither into the buffers of the system nor above what is unread
	l := startServer(t, shapes[1], Options{})
	c := l.dial()
	c.sendWords("SET", "large", strings.Repeat("x", 64<<10))
	c.expectReplies("OK")
	_ = c.Conn.(*net.TCPConn).SetReadBuffer(64 << 10)
	c.sendPipeline(strings.Repeat("GET large\r\n", n) + "QUIT\r\n")
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	for i := range n {
		if got := c.readReply(); len(got) != 64<<10 {
			t.Fatalf("answer %d is %.20q", i, got)
		}
	}
	c.expectReplies("OK")
}

// A client that sends a request that is too large gets an error with the limit, though it has not read while it was
// sending; the log and the figures record it.
func TestRequest_AboveTheLimit_IsAnsweredLoggedAndCounted(t *testing.T) {
	forLoopsAndStreams(t, Options{}, func(t *testing.T, l *testServer, said func() string) {
		other := l.dial()
		bulk := command.MaxValueBytes + 1
		many := fmt.Sprintf("*4\r\n$4\r\nMSET\r\n$1\r\nk\r\n$%d\r\n", command.MaxValueBytes)
		for i, c := range []struct {
			head, want string
			body       int
		}{
			{fmt.Sprintf("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n", bulk), fmt.Sprintf("-ERR Protocol error: invalid bulk length: an argument of %d bytes, at most %d", bulk, command.MaxValueBytes), bulk},
			{"*1048577\r\n", "-ERR Protocol error: invalid multibulk length: a request of 1048577 arguments, at most 1048576", 1 << 20},
			{many, fmt.Sprintf("-ERR Protocol error: too big request: at most %d bytes", settings.RequestLimits.Total), 0},
		} {
			client := l.dial()
			_, _ = client.Write([]byte(c.head))
			if c.body == 0 { // whole arguments, until they are too many together
				_, _ = client.Write(append(make([]byte, command.MaxValueBytes), "\r\n"...))
				_, _ = client.Write(fmt.Appendf(nil, "$%d\r\n", command.MaxValueBytes))
				c.body = command.MaxValueBytes
			}
			if _, err := client.Write(make([]byte, c.body)); err != nil {
				t.Errorf("%.20q: it cannot send all: %v", c.head, err)
			}
			if got := client.readReply(); got != c.want {
				t.Errorf("%.20q: %s", c.head, got)
			}
			if _, err := client.in.ReadByte(); err != io.EOF {
				t.Errorf("%.20q: it goes on: %v", c.head, err)
			}
			client.Close()
			waitUntil(t, "the count", func() bool {
				return strings.Contains(other.ask("INFO stats"), fmt.Sprintf("requests_too_large:%d\r", i+1))
			})
		}
		if got := l.s.Counts().TooLarge; got != 3 {
			t.Errorf("%d are counted", got)
		}
		waitUntil(t, "the end of all", func() bool { return l.s.clients.Len() == 1 })
		if n := strings.Count(said(), `reason="request too large"`); n != 3 {
			t.Errorf("the log says it %d times: %s", n, said())
		}
	})
}
