package serve

import (
	"fmt"
	"strings"
	"testing"
)

// Who is not answered yet when a keyspace is emptied may read what is newer, and hears of
// what comes after that.
func TestWhoReadsWhileAKeyspaceIsEmptiedHearsOfLaterChanges(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		c, other := l.dial(), l.dial()
		words := "MSET"
		for i := range fewKeys + 1 {
			words += fmt.Sprintf(" k%d x", i)
		}
		other.script(words + " -> OK")
		c.script("HELLO 3 -> [server*\nCLIENT TRACKING ON -> OK\nMULTI -> OK\nGET k1 -> QUEUED")
		other.script("FLUSHALL -> OK\nSET k1 new -> OK")
		c.send("EXEC")
		for got := ""; got != "[new]"; {
			if got = c.read(); got != "[new]" && !strings.HasPrefix(got, "[invalidate ") {
				t.Fatal(got)
			}
		}
		other.script("SET k1 newer -> OK")
		for c.read() != "[invalidate [k1]]" {
		}
	})
}

// Nothing is noted for a MULTI that is not executed any more: it may have no end.
func TestNothingIsTrackedForAMultiThatHasFailed(t *testing.T) {
	l := start(t, shapes[0], Options{})
	c := l.dial()
	c.script("HELLO 3 -> [server*\nCLIENT TRACKING ON -> OK\nMULTI -> OK\nNOSUCH -> -ERR *\nGET a -> QUEUED\nGET b -> QUEUED")
	l.s.tracker.mu.Lock()
	defer l.s.tracker.mu.Unlock()
	if n := len(l.s.tracker.keys); n != 0 {
		t.Errorf("%d keys are tracked", n)
	}
}

// A read that was not answered yet reads what has changed meanwhile, so who is told for it hears
// of what comes after that, whatever the client asks for behind it.
func TestReadsOfTheDiskAreTrackedUntilTheyAreAnswered(t *testing.T) {
	l := startCold(t, shapes[0], 2, "k")
	told, other := l.dial(), l.dial()
	id := strings.Trim(told.ask("CLIENT ID"), "()")
	told.script("SUBSCRIBE __redis__:invalidate -> [subscribe __redis__:invalidate (1)]")
	w := newWorker(l.s, keyRoom)
	h := newByHand(t, l)
	w.take(h.c, []byte("CLIENT TRACKING ON REDIRECT "+id+"\r\n"))
	w.commit()
	h.c.out.Bytes = nil
	w.take(h.c, []byte("GET k0\r\nGET k1\r\n"))
	other.script("SET k0 new -> OK")
	const message = "[message __redis__:invalidate [k0]]"
	if got := told.read(); got != message {
		t.Error(got)
	}
	w.commit()
	h.wait()
	if got := string(h.c.out.Bytes); got != "$3\r\nnew\r\n$1\r\n1\r\n" {
		t.Errorf("answered was %q", got)
	}
	l.s.tracker.answered(h.c) // as it is written
	other.script("SET k0 newer -> OK")
	if got := told.read(); got != message {
		t.Error(got)
	}
}
