package server

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/server/conn"
)

// loopsOf counts the clients of each loop.
func (l *testServer) loopsOf() (counts map[int32]int) {
	counts = map[int32]int{}
	l.s.clients.ForEach(func(c *conn.Conn) { counts[c.Status.Loop.Load()]++ })
	return counts
}

func TestLoops_ConnectionsAreSpread(t *testing.T) {
	l := startServer(t, serverShape{stores: 1, groups: 1, loops: 3, stay: true}, Options{})
	for range 30 {
		l.dial().runScript("PING -> PONG")
	}
	if counts := l.loopsOf(); counts[0] != 10 || counts[1] != 10 || counts[2] != 10 {
		t.Errorf("30 connections are spread over 3 loops as %v", counts)
	}
	if got := l.dial().ask("CLIENT LIST"); strings.Count(got, "io-thread=2") != 10 {
		t.Errorf("CLIENT LIST has not 10 connections of loop 2: %s", got)
	}
}

// What waits in sockets is known by the rounds of loops, also if there is one loop: each request that is sent by itself is a read.
func TestLoops_RoundsAreTimed(t *testing.T) {
	for _, loops := range []int{1, 2} {
		l := startServer(t, serverShape{stores: 1, groups: 1, loops: loops}, Options{})
		c, d := l.dial(), l.dial()
		const requests = 20
		for range requests {
			c.ask("INCR n")
			c.ask("GET n")
			d.ask("PING")
		}
		waitUntil(t, "all reads are counted", func() bool {
			rounds := l.s.node.ReadLoads().Rounds
			return rounds.Count() >= 3*requests && rounds.SumNS > 0
		})
	}
}

// A loop that has much more to do than another gives it clients.
func TestLoops_ABusyLoopSharesItsClients(t *testing.T) {
	l := startServer(t, serverShape{stores: 1, groups: 1, loops: 2, stay: true}, Options{})
	var busy []*testConn
	for i := range 8 { // each second connection is of the second loop
		if c := l.dial(); i%2 == 0 {
			busy = append(busy, c)
		}
	}
	var wg sync.WaitGroup
	var done atomic.Bool
	for _, c := range busy {
		wg.Go(func() {
			for !done.Load() {
				c.runScript("PING -> PONG")
			}
		})
	}
	waitUntil(t, "a client is moved", func() bool { return l.s.clients.MovedConnections.Load() > 0 })
	done.Store(true)
	wg.Wait()
	if got := l.dial().ask("INFO stats"); strings.Contains(got, "moved_clients:0") {
		t.Errorf("INFO does not count moved clients: %s", got)
	}
}

// Whatever a client does while it is moved between loops all the time, it is answered in order, and receives all
// messages in theirs.
func TestLoops_ClientsThatAreMoved_LoseNothing(t *testing.T) {
	l := startServer(t, serverShape{stores: 2, groups: 4, loops: 3}, Options{})
	const clients, rounds = 6, 150
	var wg sync.WaitGroup
	for n := range clients {
		c, listener := l.dial(), l.dial()
		channel := fmt.Sprint("c", n)
		listener.setShortDeadline()
		listener.runScript("SUBSCRIBE " + channel + " -> [subscribe " + channel + " (1)]")
		wg.Go(func() {
			for i := range rounds {
				if got, want := listener.readReply(), fmt.Sprintf("[message %s %d]", channel, i); got != want {
					t.Errorf("the message is %s, want %s", got, want)
					return
				}
			}
		})
		wg.Go(func() {
			for i := range rounds {
				c.send(fmt.Sprintf("APPEND k%d x", n))
				c.send("MULTI")
				c.send(fmt.Sprintf("STRLEN k%d", n))
				c.send(fmt.Sprintf("PUBLISH %s %d", channel, i))
				c.send("EXEC")
				want := []string{fmt.Sprintf("(%d)", i+1), "OK", "QUEUED", "QUEUED", fmt.Sprintf("[(%d) (1)]", i+1)}
				for _, w := range want {
					if got := c.readReply(); got != w {
						t.Errorf("the reply is %s, want %s", got, w)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if moved := l.s.clients.MovedConnections.Load(); moved == 0 {
		t.Error("no client was moved")
	}
}

// A client that is killed is closed, whichever loop it is on its way to.
func TestLoops_AClientThatIsMovedIsKilled(t *testing.T) {
	l := startServer(t, serverShape{stores: 1, groups: 1, loops: 2}, Options{})
	admin := l.dial()
	for range 50 {
		c := l.dial()
		c.runScript("PING -> PONG")
		id := strings.Trim(c.ask("CLIENT ID"), "()")
		admin.runScript("CLIENT KILL ID " + id + " -> (1)")
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := c.in.ReadByte(); err == nil {
			t.Fatal("a killed client is answered")
		}
	}
	waitUntil(t, "they are gone", func() bool { return l.s.clients.Len() == 1 })
}

// A client that watches a key is told of each change, on whichever loops both are: no update is lost.
func TestLoops_WATCH_LosesNoUpdate(t *testing.T) {
	l := startServer(t, serverShape{stores: 2, groups: 4, loops: 3}, Options{})
	const clients, rounds = 6, 60
	var updates atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		c := l.dial()
		wg.Go(func() {
			for range rounds {
				c.runScript("WATCH n -> OK")
				n, _ := strconv.Atoi(c.ask("GET n"))
				c.runScript(fmt.Sprintf("MULTI -> OK\nSET n %d -> QUEUED", n+1))
				switch got := c.ask("EXEC"); got {
				case "[OK]":
					updates.Add(1)
				case "(nil)":
				default:
					t.Errorf("EXEC: %s", got)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := l.dial().ask("GET n"); got != fmt.Sprint(updates.Load()) || updates.Load() == 0 {
		t.Errorf("after %d updates it is %s", updates.Load(), got)
	}
	if l.s.clients.MovedConnections.Load() == 0 {
		t.Error("no client was moved")
	}
}

// A client that keeps what it has read until it is told that it has changed holds the last value when all is told,
// on whichever loops both are.
func TestLoops_TrackingClients_KeepNothingOld(t *testing.T) {
	l := startServer(t, serverShape{stores: 2, groups: 4, loops: 3}, Options{})
	const readers, changes = 4, 150
	l.dial().runScript("SET k 0 -> OK")
	var wg sync.WaitGroup
	for range readers {
		c := l.dial()
		c.setShortDeadline()
		c.runScript("HELLO 3 -> [server*\nCLIENT TRACKING ON -> OK")
		wg.Go(func() {
			for {
				c.send("GET k")
				got := c.readReply()
				for strings.HasPrefix(got, "[invalidate ") {
					got = c.readReply()
				}
				if got == strconv.Itoa(changes) {
					return
				}
				for !strings.HasPrefix(c.readReply(), "[invalidate [k]]") { // it comes behind the reply, or the deadline ends this
				}
			}
		})
	}
	w := l.dial()
	for i := range changes {
		w.runScript(fmt.Sprintf("SET k %d -> OK", i+1))
	}
	wg.Wait()
}
