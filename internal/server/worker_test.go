package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
)

// sendPipeline sends requests, one in a line, at once.
func (c *testConn) sendPipeline(lines string) {
	c.t.Helper()
	if _, err := c.Write([]byte(lines)); err != nil {
		c.t.Error(err)
	}
}

// expectReplies reads answers.
func (c *testConn) expectReplies(want ...string) {
	c.t.Helper()
	for i, w := range want {
		if got := c.readReply(); got != w {
			c.t.Fatalf("answer %d: %.60s, want %.60s", i, got, w)
		}
	}
}

// A client whose requests have waited until it reads its answers sends more of them just
// then: it may be busy with these when the others are taken.
func TestRequestsThatWaitForAReaderKeepTheirOrder(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		const n = 600
		c := l.dial()
		big := strings.Repeat("x", 40_000)
		c.runScript("SET big " + big + " -> OK")
		go func() {
			var b strings.Builder
			for i := range n {
				fmt.Fprintf(&b, "GET big\r\nMGET a%d b%d c%d\r\nINCR n\r\nWATCH w\r\nECHO %d\r\n", i, i, i, i)
			}
			c.sendPipeline(b.String())
		}()
		for i := range n {
			c.expectReplies(big, "[(nil) (nil) (nil)]", fmt.Sprintf("(%d)", i+1), "OK", fmt.Sprint(i))
		}
	})
}

// A write that has to maintain an index takes another way than others. What is behind it
// waits for it.
func TestPipelinesOnAKeyspaceWithAnIndexKeepTheirOrder(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		c := l.dial()
		c.runScript("CLEAVE.INDEX CREATE people COLUMNS country -> OK")
		for i := range 10 {
			c.sendPipeline(strings.ReplaceAll("SET {a}# v#\r\nGET {a}#\r\nAPPEND {a}# x\r\nSTRLEN {a}#\r\nMSET {a}p# 1 {a}q# 2\r\nMGET {a}p# {a}q#\r\n"+
				"MULTI\r\nSET {a}p# 7\r\nEXEC\r\nGET {a}p#\r\n", "#", fmt.Sprint(i)))
			c.expectReplies("OK", fmt.Sprintf("v%d", i), "(3)", "(3)", "OK", "[1 2]", "OK", "QUEUED", "[OK]", "7")
		}
	})
}

// Reads behind one of a row that is not in memory are done together with it, but one after the
// other as seen from outside: none is older than the one before it.
func TestColdReadsOfAPipelineKeepTheirOrder(t *testing.T) {
	for _, sh := range shapes {
		t.Run(sh.name, func(t *testing.T) {
			t.Parallel()
			const pipelines, keys = 300, 10
			l := startCold(t, sh, pipelines, "cold")
			writes, reads := "", ""
			for _, key := range l.keysOfStore(l.s.node.StoreHosts()[0], keys) { // those of several stores have no order
				writes += "SET " + key + " #\r\n"
				reads = "GET " + key + "\r\n" + reads // the last that is written comes first
			}
			w, r := l.dial(), l.dial()
			write := func(i int) {
				w.sendPipeline(strings.ReplaceAll(writes, "#", fmt.Sprint(i)))
				w.expectReplies(slices.Repeat([]string{"OK"}, keys)...)
			}
			write(0)
			var stop atomic.Bool
			var writer sync.WaitGroup
			writer.Go(func() {
				for i := 1; !stop.Load(); i++ {
					write(i)
				}
			})
			for i := range pipelines {
				r.sendPipeline(fmt.Sprintf("GET cold%d\r\n%s", i, reads))
				r.expectReplies(fmt.Sprint(i))
				var seen []int
				for range keys {
					n, _ := strconv.Atoi(r.readReply())
					seen = append(seen, n)
				}
				if !slices.IsSorted(seen) {
					t.Errorf("pipeline %d has read %v: a later read is older", i, seen)
					break
				}
			}
			stop.Store(true)
			writer.Wait()
		})
	}
}

// Of reads that were made together, one that is not the first is made again if its row was changed since: the first may
// have been read after that change.
func TestAColdReadThatIsNotTheNewestIsMadeAgain(t *testing.T) {
	l := startCold(t, shapes[0], 2, "k")
	w := newWorker(l.s, rowKeyBytes)
	h := newManualClient(t, l)
	w.takeRequests(h.c, []byte("GET k0\r\nGET k1\r\n"))
	clients := []*client{h.c}
	batch := l.s.planReadBatch(clients)
	batch.fetchRows(ctx, false)
	l.dial().runScript("SET k0 new -> OK\nSET k1 new -> OK")
	if h.c.replyReadRows() {
		t.Error("all is answered by what was read before the change")
	}
	if got := string(h.c.Out.Bytes); got != "$1\r\n0\r\n" {
		t.Errorf("answered was %q, want the first read alone", got)
	}
	l.s.runBacklogs(ctx, clients)
	if got := string(h.c.Out.Bytes); got != "$1\r\n0\r\n$3\r\nnew\r\n" {
		t.Errorf("answered was %q, want what the second key has now", got)
	}
}

// A client that wants answers again gets one, whatever it has sent before.
func TestCLIENTREPLYONIsAnswered(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		for _, before := range []string{"SKIP", "OFF", "OFF SKIP", "SKIP OFF"} {
			c := l.dial()
			for word := range strings.FieldsSeq(before) {
				c.send("CLIENT REPLY " + word)
			}
			c.runScript("CLIENT REPLY ON -> OK\nECHO a -> a")
		}
		c := l.dial()
		c.send("CLIENT REPLY SKIP")
		c.send("ECHO a")
		c.runScript("ECHO b -> b")
	})
}

// A message comes before the answer that says that there are no more of them.
func TestNoMessageComesBehindTheEndOfASubscription(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		c := l.dial()
		for last, answer := range map[string]string{"UNSUBSCRIBE": "[unsubscribe ch (0)]", "RESET": "RESET", "HELLO 2": "[server "} {
			c.runScript("HELLO 3 -> [server*\nSUBSCRIBE ch -> [subscribe ch (1)]")
			c.sendPipeline("PUBLISH ch a\r\nPUBLISH ch b\r\n" + last + "\r\n")
			c.expectReplies("(1)", "(1)", "[message ch a]", "[message ch b]")
			if got := c.readReply(); !strings.HasPrefix(got, answer) {
				t.Errorf("%s: %s", last, got)
			}
			c.runScript("RESET -> RESET")
		}
		// Without an answer they come all the same.
		c.runScript("HELLO 3 -> [server*\nSUBSCRIBE ch -> [subscribe ch (1)]")
		c.sendPipeline("PUBLISH ch a\r\nCLIENT REPLY SKIP\r\nUNSUBSCRIBE\r\n")
		c.expectReplies("(1)", "[message ch a]")
	})
}

// A server that ends executes nothing of a client behind a request that it has refused for
// that: what a pipeline writes last is not there without what it writes before.
func TestAServerThatEndsKeepsTheOrderOfPipelines(t *testing.T) {
	for _, sh := range shapes[1:] {
		t.Run(sh.name, func(t *testing.T) {
			rounds := 8
			if os.Getenv("CLEAVE_SOAK") != "" {
				rounds = 100
			}
			for range rounds {
				endWhileWriting(t, sh)
			}
		})
	}
}

func endWhileWriting(t *testing.T, sh serverShape) {
	db := openDB(t, "", sh.options())
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	l, done := serveOn(t, db, sh, Options{})
	const clients, rounds = 4, 300
	for id := range clients {
		var b strings.Builder
		for i := 1; i <= rounds; i++ {
			// The keys of the first are of several groups: it is a transaction.
			fmt.Fprintf(&b, "MSET a%d %d b%d %d c%d %d\r\nSET last%d %d\r\n", id, i, id, i, id, i, id, i)
		}
		if _, err := l.dial().Write([]byte(b.String())); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(5 * time.Millisecond)
	l.s.Close()
	<-done
	for id := range clients {
		number := func(name string) int {
			v, err := db.Default().Get(ctx, fmt.Appendf(nil, "%s%d", name, id))
			if err != nil && !errors.Is(err, cleave.ErrNotFound) {
				t.Fatal(err)
			}
			n, _ := strconv.Atoi(string(v))
			return n
		}
		first, last := number("a"), number("last")
		if first < last || first > last+1 {
			t.Errorf("request %d of a client was executed, and of those before it only %d", last, first)
		}
	}
}

// A SCAN that goes on behind a restart returns every key, whatever others have scanned since.
func TestSCANGoesOnBehindARestart(t *testing.T) {
	db := openDB(t, "", shapes[0].options())
	defer db.Close()
	if _, err := db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "sorted", Kind: cleave.Range}); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	scan := func(c *testConn, cursor string, count int) (next string) {
		got := strings.Fields(strings.Trim(c.ask(fmt.Sprintf("SCAN %s COUNT %d", cursor, count)), "[]"))
		for _, key := range got[1:] {
			delete(want, strings.Trim(key, "[]"))
		}
		return got[0]
	}
	first, done := serveOn(t, db, shapes[0], Options{})
	c := first.dial()
	c.runScript("SELECT sorted -> OK")
	for i := range 100 {
		c.runScript(fmt.Sprintf("SET k%02d v -> OK", i))
	}
	cursor := scan(c, "0", 10)
	if n, err := strconv.ParseUint(cursor, 10, 64); err != nil || n == 0 || n >= 1<<53 {
		t.Errorf("a cursor is %s", cursor)
	}
	first.s.Close()
	<-done

	second, done := serveOn(t, db, shapes[0], Options{})
	defer func() { second.s.Close(); <-done }()
	c = second.dial()
	c.runScript("SELECT sorted -> OK")
	scan(c, "0", 50) // of another client
	for i := range 100 {
		if i >= 10 { // the others came before
			want[fmt.Sprintf("k%02d", i)] = true
		}
	}
	for cursor != "0" {
		cursor = scan(c, cursor, 10)
	}
	if len(want) > 0 {
		t.Errorf("%d keys were not found, such as %v", len(want), want)
	}
}

// BenchmarkPipelines measures requests that come many at a time on one connection.
func BenchmarkPipelines(b *testing.B) {
	for _, command := range []string{"GET", "SET"} {
		b.Run(command, func(b *testing.B) {
			db, err := cleave.OpenMemory(cleave.Options{QueueLimit: 1 << 16})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			s := New(db, Options{})
			defer s.Close()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			go s.Serve(l)
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			const keys, depth = 100_000, 64
			value := strings.Repeat("v", 64)
			ask := func(name string, at int) (request string, reply int) {
				for i := range depth {
					key := fmt.Sprintf("key:%012d", (at+i)*7919%keys)
					if name == "GET" {
						request += fmt.Sprintf("*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", len(key), key)
						reply += len("$64\r\n\r\n") + 64
					} else {
						request += fmt.Sprintf("*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$64\r\n%s\r\n", len(key), key, value)
						reply += len("+OK\r\n")
					}
				}
				return request, reply
			}
			room := make([]byte, 1<<16)
			send := func(request string, reply int) {
				if _, err := io.WriteString(conn, request); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(conn, room[:reply]); err != nil {
					b.Fatal(err)
				}
			}
			var requests []string
			size := 0
			for i := 0; i < keys; i += depth {
				send(ask("SET", i))
				request, n := ask(command, i)
				requests, size = append(requests, request), n
			}
			b.ResetTimer()
			for i := 0; i < b.N; i += depth {
				send(requests[i/depth%len(requests)], size)
			}
		})
	}
}
