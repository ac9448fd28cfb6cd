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
