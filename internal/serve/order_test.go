package serve

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// pipeline sends requests, one in a line, at once.
func (c *conn) pipeline(lines string) {
	c.t.Helper()
	if _, err := c.Write([]byte(lines)); err != nil {
		c.t.Error(err)
	}
}

// expect reads answers.
func (c *conn) expect(want ...string) {
	c.t.Helper()
	for i, w := range want {
		if got := c.read(); got != w {
			c.t.Fatalf("answer %d: %.60s, want %.60s", i, got, w)
		}
	}
}

// A client whose requests have waited until it reads its answers sends more of them just
// then: it may be busy with these when the others are taken.
func TestRequestsThatWaitForAReaderKeepTheirOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		const n = 600
		c := l.dial()
		big := strings.Repeat("x", 40_000)
		c.script("SET big " + big + " -> OK")
		go func() {
			var b strings.Builder
			for i := range n {
				fmt.Fprintf(&b, "GET big\r\nMGET a%d b%d c%d\r\nINCR n\r\nWATCH w\r\nECHO %d\r\n", i, i, i, i)
			}
			c.pipeline(b.String())
		}()
		for i := range n {
			c.expect(big, "[(nil) (nil) (nil)]", fmt.Sprintf("(%d)", i+1), "OK", fmt.Sprint(i))
		}
	})
}

// A write that has to maintain an index takes another way than others. What is behind it
// waits for it.
func TestPipelinesOnAKeyspaceWithAnIndexKeepTheirOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		c := l.dial()
		c.script("CLEAVE.INDEX CREATE people COLUMNS country -> OK")
		for i := range 10 {
			c.pipeline(strings.ReplaceAll("SET {a}# v#\r\nGET {a}#\r\nAPPEND {a}# x\r\nSTRLEN {a}#\r\nMSET {a}p# 1 {a}q# 2\r\nMGET {a}p# {a}q#\r\n"+
				"MULTI\r\nSET {a}p# 7\r\nEXEC\r\nGET {a}p#\r\n", "#", fmt.Sprint(i)))
			c.expect("OK", fmt.Sprintf("v%d", i), "(3)", "(3)", "OK", "[1 2]", "OK", "QUEUED", "[OK]", "7")
		}
	})
}

// Reads behind one of a row that is not in memory are done together with it, but one after the
// other for whoever looks on: none is older than the one before it.
func TestColdReadsOfAPipelineKeepTheirOrder(t *testing.T) {
	for _, sh := range shapes {
		t.Run(sh.name, func(t *testing.T) {
			t.Parallel()
			const pipelines, keys = 300, 10
			l := startCold(t, sh, pipelines, "cold")
			writes, reads := "", ""
			for i := range keys {
				writes += fmt.Sprintf("SET k%d #\r\n", i)
				reads = fmt.Sprintf("GET k%d\r\n", i) + reads // the last that is written comes first
			}
			w, r := l.dial(), l.dial()
			write := func(i int) {
				w.pipeline(strings.ReplaceAll(writes, "#", fmt.Sprint(i)))
				w.expect(slices.Repeat([]string{"OK"}, keys)...)
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
				r.pipeline(fmt.Sprintf("GET cold%d\r\n%s", i, reads))
				r.expect(fmt.Sprint(i))
				var seen []int
				for range keys {
					n, _ := strconv.Atoi(r.read())
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

// Who wants answers again hears so, whatever it has said before.
func TestCLIENTREPLYONIsAnswered(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		for _, before := range []string{"SKIP", "OFF", "OFF SKIP", "SKIP OFF"} {
			c := l.dial()
			for word := range strings.FieldsSeq(before) {
				c.send("CLIENT REPLY " + word)
			}
			c.script("CLIENT REPLY ON -> OK\nECHO a -> a")
		}
		c := l.dial()
		c.send("CLIENT REPLY SKIP")
		c.send("ECHO a")
		c.script("ECHO b -> b")
	})
}

// A message comes before the answer that says that there are no more of them.
func TestNoMessageComesBehindTheEndOfASubscription(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		c := l.dial()
		for last, answer := range map[string]string{"UNSUBSCRIBE": "[unsubscribe ch (0)]", "RESET": "RESET", "HELLO 2": "[server "} {
			c.script("HELLO 3 -> [server*\nSUBSCRIBE ch -> [subscribe ch (1)]")
			c.pipeline("PUBLISH ch a\r\nPUBLISH ch b\r\n" + last + "\r\n")
			c.expect("(1)", "(1)", "[message ch a]", "[message ch b]")
			if got := c.read(); !strings.HasPrefix(got, answer) {
				t.Errorf("%s: %s", last, got)
			}
			c.script("RESET -> RESET")
		}
		// Without an answer they come all the same.
		c.script("HELLO 3 -> [server*\nSUBSCRIBE ch -> [subscribe ch (1)]")
		c.pipeline("PUBLISH ch a\r\nCLIENT REPLY SKIP\r\nUNSUBSCRIBE\r\n")
		c.expect("(1)", "[message ch a]")
	})
}
