package server

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// Empty requests are no requests, wherever they stand: also behind some on rows that are
// not in memory.
func TestEmptyRequestsAreSkipped(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		c := l.dial()
		for i := range 50 {
			text := fmt.Sprintf("SET a%d one\r\n\r\nAPPEND b%d two\r\n*0\r\n\r\nINCR c%d\r\n*-1\r\n\r\nGET a%d\r\n\r\n", i, i, i, i)
			if _, err := c.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"OK", "(3)", "(1)", "one"} {
				if got := c.readReply(); got != want {
					t.Fatalf("%s, want %s", got, want)
				}
			}
		}
	})
}

// Many keys are removed by giving the keyspace another id. A client that was at the old one goes on
// at the new one, whatever it asks for first.
func TestClientsFollowAKeyspaceThatIsEmptied(t *testing.T) {
	l := startServer(t, shapes[1], Options{})
	c, other := l.dial(), l.dial()
	words := "MSET"
	for i := range maxClearedKeys + 1 {
		words += fmt.Sprintf(" k%d x", i)
	}
	for _, script := range []struct{ before, after string }{
		{after: "DBSIZE -> (0)"}, {after: "KEYS * -> []"}, {after: "SCAN 0 -> [0 []]"}, {after: "RANDOMKEY -> (nil)"}, {after: "HSCAN k1 0 -> [0 []]"},
		{after: "MULTI -> OK\nDBSIZE -> QUEUED\nEXEC -> [(0)]"},
		{after: "WATCH k1 -> OK\nMULTI -> OK\nSET k1 1 -> QUEUED\nEXEC -> [OK]\nGET k1 -> 1"},
		{"WATCH k1 -> OK", "MULTI -> OK\nSET k1 1 -> QUEUED\nEXEC -> (nil)\nGET k1 -> (nil)"},
		{"WATCH k1 -> OK\nMULTI -> OK\nSET k1 1 -> QUEUED", "EXEC -> (nil)\nGET k1 -> (nil)"},
		{"WATCH none -> OK\nMULTI -> OK\nSET k1 1 -> QUEUED", "EXEC -> [OK]\nGET k1 -> 1"},
	} {
		other.runScript(words + " -> OK")
		c.runScript("GET k7 -> x\n" + script.before)
		other.runScript("FLUSHALL -> OK")
		c.runScript(script.after)
	}
	other.runScript(words + " -> OK")
	c.runScript("GET k7 -> x")
	other.runScript("FLUSHALL -> OK")
	c.sendPipeline("SET k7 1\r\nGET k7\r\nINCR k7\r\nGET k7\r\nSET k8 1\r\nGET k8\r\nDBSIZE\r\n")
	c.expectReplies("OK", "1", "(2)", "2", "OK", "1", "(2)")
}

// Tests of programs flush thousands of times. What one of them leaves goes with one of the next.
func TestFlushesLeaveNoShards(t *testing.T) {
	l := startServer(t, shapes[1], Options{})
	c := l.dial()
	words := "MSET"
	for i := range maxClearedKeys + 1 {
		words += fmt.Sprintf(" k%d x", i)
	}
	flush := func() { c.runScript(words + " -> OK\nFLUSHALL -> OK") }
	flush()
	once := l.s.node.Map().Len()
	for range 6 {
		flush()
	}
	for began := time.Now(); l.s.node.Map().Len() > once+1; flush() { // one for all that are gone
		if time.Since(began) > eventually.Limit() {
			t.Fatalf("after one there were %d shards, now there are %d", once, l.s.node.Map().Len())
		}
		time.Sleep(10 * time.Millisecond) // it is cleared in the background
	}
	c.runScript("SET k 1 -> OK\nDBSIZE -> (1)")
}

// A keyspace is emptied when a request on it has begun. There is nothing in it then, and that is no error.
func TestAKeyspaceThatIsEmptiedMeanwhileIsEmpty(t *testing.T) {
	l := startServer(t, shapes[1], Options{})
	h := newManualClient(t, l)
	l.dial().runScript("SET k v -> OK\nHSET h f v -> (1)")
	if err := l.s.node.EmptyKeyspace(ctx, h.c.keyspace); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"dbsize": ":0\r\n", "keys *": "*0\r\n", "randomkey": "$-1\r\n", "scan 0": "*2\r\n$1\r\n0\r\n*0\r\n",
		"hscan h 0": "*2\r\n$1\r\n0\r\n*0\r\n", "cleave.range - +": "*2\r\n$1\r\n0\r\n*0\r\n",
	} {
		var args [][]byte
		for word := range strings.FieldsSeq(line) {
			args = append(args, []byte(word))
		}
		spec := redis.SpecByName(string(args[0]))
		h.c.Out.Bytes = nil
		handlers[spec.Name].handle(&call{ctx, l.s, h.c, redis.Request{Spec: spec, Args: args}, &h.c.Out, false})
		if got := string(h.c.Out.Bytes); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// What reads a keyspace that was to be emptied, and has stayed, reads again. One that was dropped is
// not there.
func TestWhatIsReadIsAKeyspaceThatIsThere(t *testing.T) {
	l := startServer(t, shapes[0], Options{})
	if _, err := l.db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	k, err := l.s.node.Keyspace("s")
	if err != nil {
		t.Fatal(err)
	}
	looks := 0
	err = l.s.withKeyspace(ctx, k, func() error {
		if looks++; looks == 1 {
			return node.ErrNoKeyspace
		}
		return nil
	})
	if err != nil || looks != 2 {
		t.Errorf("looked %d times, and then %v", looks, err)
	}
	if err := l.db.DropKeyspace(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	if err := l.s.scanKeys(ctx, k, k.Span(), 0, func(foundKey) bool { return true }); !errors.Is(err, node.ErrNoKeyspace) {
		t.Errorf("a walk in a keyspace that was dropped: %v", err)
	}
}

// A keyspace is empty at one moment. What was written before it is gone, whatever was
// written before that: if a later write is gone, so are those before it.
func TestFewKeysAreFlushedAtOneMoment(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		writer, other := l.dial(), l.dial()
		for round := range 15 {
			flushed := make(chan struct{})
			go func() {
				defer close(flushed)
				other.runScript("FLUSHDB -> OK")
			}()
			const keys = 40
			for i := range keys { // each is new, and is followed by one that there was
				writer.runScript(fmt.Sprintf("SET new%d-%d x -> OK\nSET old x -> OK", round, i))
			}
			<-flushed
			last := "(nil)"
			if writer.ask("GET old") == "(nil)" {
				for i := range keys {
					if got := writer.ask(fmt.Sprintf("GET new%d-%d", round, i)); got != "(nil)" {
						t.Errorf("new%d-%d is there, and what was written after it is gone", round, i)
					}
				}
			}
			for i := range keys { // those that are left are the last ones
				got := writer.ask(fmt.Sprintf("GET new%d-%d", round, i))
				if last == "x" && got != "x" {
					t.Errorf("of round %d, %d is gone, and one before it is there", round, i)
				}
				last = got
			}
		}
	})
}
