package server

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/testkit/tally"
)

// numberedRequest returns a request whose words behind the first are made of numbers.
func numberedRequest(name string, n int, each ...string) []string {
	all := []string{name}
	for i := range n {
		for _, e := range each {
			all = append(all, strings.ReplaceAll(e, "#", fmt.Sprint(i)))
		}
	}
	return all
}

func (c *testConn) askWords(w ...string) string {
	c.t.Helper()
	c.sendWords(w...)
	a, err := readRawReply(c.in)
	if err != nil {
		c.t.Fatal(err)
	}
	if len(a.parts) > 0 {
		return fmt.Sprintf("%d parts", len(a.parts))
	}
	return strings.TrimSpace(a.text)
}

func TestManyKeys_AreTakenWhereverTheyAre(t *testing.T) {
	forOneAndTwoStores(t, func(t *testing.T, c *testConn) {
		n := tally.Size(10_001, 2_001) // many more than a batch has
		for _, ask := range []struct {
			words []string
			want  string
		}{
			{numberedRequest("MSET", n, "k#", "v"), "+OK"},
			{numberedRequest("MGET", n, "k#"), fmt.Sprint(n, " parts")},
			{numberedRequest("EXISTS", n, "k#"), fmt.Sprint(":", n)},
			{numberedRequest("MSETNX", n, "x#", "v"), ":1"},
			{numberedRequest("UNLINK", n, "k#"), fmt.Sprint(":", n)},
			{numberedRequest("DEL", n, "x#"), fmt.Sprint(":", n)},
			{append([]string{"HSET", "h"}, numberedRequest("", n, "f#", "v")[1:]...), fmt.Sprint(":", n)},
			{append([]string{"HMGET", "h"}, numberedRequest("", n, "f#")[1:]...), fmt.Sprint(n, " parts")},
			{strings.Fields("COPY h other"), ":1"},
			{strings.Fields("RENAME other another"), "+OK"},
			{strings.Fields("HLEN another"), fmt.Sprint(":", n)},
			{append([]string{"HDEL", "another"}, numberedRequest("", n, "f#")[1:]...), fmt.Sprint(":", n)},
			{strings.Fields("DEL h another"), ":1"},
		} {
			if got := c.askWords(ask.words...); got != ask.want {
				t.Errorf("%s of %d words: %.100s, want %s", ask.words[0], len(ask.words), got, ask.want)
			}
		}
	})
}

func TestTooManyKeys_AreRefusedWhereverTheyAre(t *testing.T) {
	forOneAndTwoStores(t, func(t *testing.T, c *testConn) {
		const over = command.MaxTxnKeys + 1
		want := fmt.Sprintf("-ERR too large: %d keys in a transaction, at most %d: split it up", over, command.MaxTxnKeys)
		for _, request := range [][]string{
			numberedRequest("EXISTS", over, "k#"), numberedRequest("DEL", over, "{t}#"),
		} {
			if got := c.askWords(request...); got != want {
				t.Errorf("%s of %s: %.100s, want %s", request[0], request[1], got, want)
			}
		}
		// What is written counts in bytes: here a chunk each time.
		const chunks = command.MaxTxnBytes/command.ChunkBytes + 1
		c.askWords("MULTI")
		for i := range chunks {
			c.sendWords("SETRANGE", []string{"a", "b"}[i%2], fmt.Sprint(9*command.ChunkBytes-1), "x")
		}
		for range chunks {
			if a, err := readRawReply(c.in); err != nil || a.text != "+QUEUED\r\n" {
				t.Fatal(a, err)
			}
		}
		if got := c.askWords("EXEC"); !strings.HasPrefix(got, "-ERR too large: transaction of ") {
			t.Errorf("EXEC: %.100s", got)
		}
		if got := c.askWords("EXISTS", "a", "b"); got != ":0" {
			t.Errorf("some of it was executed: %s", got)
		}
	})
}

// forOneAndTwoStores runs a test where all keys are in one group, and where they are in two stores.
func forOneAndTwoStores(t *testing.T, test func(t *testing.T, c *testConn)) {
	for _, sh := range []serverShape{shapes[0], twoStores} {
		t.Run(sh.name, func(t *testing.T) { test(t, startServer(t, sh, Options{}).dial()) })
	}
}

// While a request about a large hash is executed, others are served. It is held where it is noted as slow,
// which is where it was executed: that must be no worker, since all wait for that.
func TestLargeHash_WhileARequestReadsIt_OthersAreServed(t *testing.T) {
	const fields = 20_000 // ten times what a group executes for one request in its turn
	commands := []string{"HGETALL {h}big", "HKEYS {h}big", "HVALS {h}big", "DUMP {h}big", "MEMORY USAGE {h}big", "HRANDFIELD {h}big 10000", "HSCAN {h}big 0 COUNT 1000000",
		"COPY {h}big {h}other", "RENAME {h}other {h}third", "KEYS *big"}
	held, release := make(chan string), make(chan struct{})
	var armed atomic.Bool
	o := Options{Observe: func(o api.ObservedRequest) {
		// What a group has refused is noted too, where it was tried.
		if armed.Load() && !bytes.Contains(debug.Stack(), []byte("server.(*worker).recordSlowRequests")) && armed.CompareAndSwap(true, false) {
			select {
			case held <- o.Command:
				<-release
			case <-release: // the test has failed
			}
		}
	}}
	l := startServer(t, shapes[0], o)
	t.Cleanup(func() { close(release) }) // before the server is closed
	c, other := l.dial(), l.dial()
	for i := 0; i < fields; i += 1000 {
		words := []string{"HSET", "{h}big"}
		for j := range 1000 {
			words = append(words, fmt.Sprintf("field:%d", i+j), "v")
		}
		c.sendWords(words...)
		c.expectReplies("(1000)")
	}
	c.runScript("SET {h}k v -> OK\nCONFIG SET slowlog-log-slower-than 0 -> OK")
	for _, line := range commands {
		armed.Store(true)
		c.send(line)
		select {
		case name := <-held:
			if !strings.HasPrefix(strings.ToLower(line), strings.ReplaceAll(name, "|", " ")) {
				t.Errorf("%s is held as %s", line, name)
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("%s is not noted", line)
		}
		other.runScript("PING -> PONG\nGET {h}k -> v\nSET {h}k v -> OK\nHGET {h}big field:7 -> v")
		release <- struct{}{}
		c.readReply()
	}
}

// What looks at one field, or at how many there are, is cheap however large the hash is: it is executed in
// its turn, which nothing is that reads much.
func TestLargeHash_CheapRequests_ReadFewRows(t *testing.T) {
	l := startServer(t, shapes[0], Options{})
	c := l.dial()
	for i := 0; i < 10_000; i += 1000 {
		words := []string{"HSET", "big"}
		for j := range 1000 {
			words = append(words, fmt.Sprint(i+j), "v")
		}
		c.sendWords(words...)
		c.expectReplies("(1000)")
	}
	c.runScript("OBJECT ENCODING big -> hashtable\nHLEN big -> (10000)\nHRANDFIELD big 0 -> []")
	seen := map[string]bool{}
	for range 100 {
		seen[c.ask("HRANDFIELD big")] = true
	}
	if len(seen) < 90 {
		t.Errorf("of 100 fields %d are different", len(seen))
	}
	for request, want := range map[string]int{"HRANDFIELD big 15": 15, "HRANDFIELD big -12": 12, "HRANDFIELD big 9999": 9999, "HRANDFIELD big 20000": 10_000, "HRANDFIELD big -20000": 20_000} {
		fields := strings.Fields(strings.Trim(c.ask(request), "[]"))
		slices.Sort(fields)
		if len(fields) != want || !strings.Contains(request, "-") && len(slices.Compact(fields)) != want {
			t.Errorf("%s: %d fields", request, len(fields))
		}
	}
	if got := c.ask("HRANDFIELD big 3 WITHVALUES"); strings.Count(got, " v") != 3 {
		t.Error(got)
	}
}
