package serve

import (
	"testing"
	"time"

	"github.com/cleavekv/cleave/partition"
)

// Writers of a range that is moved are held up if they are faster than the move: else it
// would never get there.
func TestWritersOfARangeThatIsMovedAreHeldUp(t *testing.T) {
	const wait = maxHeld + maxHeld/2
	everywhere(t, func(t *testing.T, l *lab) {
		c := l.dial()
		c.script(`
			SET n 1 -> OK
			SET m 1 -> OK
		`)
		all := partition.Span{}
		slow := func(wait time.Duration) {
			for _, key := range []string{"n", "m"} {
				l.s.node.PartOf(l.s.defaultSpace().AppendPosition(nil, []byte(key))).Group.Slow(all, wait)
			}
		}
		slow(wait)
		for _, request := range []string{"INCR n", "SET m 2", "MSET n 7 {n}x 8"} {
			began := time.Now()
			if got := c.ask(request); got[0] == '-' {
				t.Errorf("%s: %s", request, got)
			}
			if took := time.Since(began); took < maxHeld {
				t.Errorf("%s was answered after %v, and held up for %v", request, took, wait)
			}
		}
		for _, request := range []string{"INCR n", "GET n", "GET m", "INCR m", "GET m", "PING"} {
			c.send(request)
		}
		for _, want := range []string{"(8)", "8", "2", "(3)", "3", "PONG"} {
			if got := c.read(); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		slow(0)
		c.script(`
			INCR n -> (9)
		`)
	})
}

// They are behind a read that waits for the disk, too.
func TestWritersBehindAReadOfTheDiskAreHeldUp(t *testing.T) {
	const wait = 50 * time.Millisecond
	l := startCold(t, shapes[1], 2, "k")
	l.s.node.PartOf(l.s.defaultSpace().AppendPosition(nil, []byte("k1"))).Group.Slow(partition.Span{}, wait)
	c := l.dial()
	began := time.Now()
	c.pipeline("GET k0\r\nINCR k1\r\n")
	c.expect("0", "(2)")
	if took := time.Since(began); took < wait {
		t.Errorf("answered after %v, and held up for %v", took, wait)
	}
}
