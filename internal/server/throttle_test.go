package server

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/shard/admission"
)

var delayKey = admission.LimitKey{Source: admission.Move, ID: 1}

// delayWriters lets all writers wait for so long.
func delayWriters(t *testing.T, s *Server, wait time.Duration) {
	t.Helper()
	if err := s.node.WriteLimits().Set(delayKey, admission.WriteLimit{Delay: wait}); err != nil {
		t.Fatal(err)
	}
}

// limitWriters admits so many writes a second to what a limit covers.
func limitWriters(t *testing.T, s *Server, l admission.WriteLimit) {
	t.Helper()
	if err := s.node.WriteLimits().Set(admission.LimitKey{Source: admission.Cap, ID: 1}, l); err != nil {
		t.Fatal(err)
	}
}

// keyLimit covers one key.
func keyLimit(s *Server, key string, perSecond float64) admission.WriteLimit {
	return admission.WriteLimit{Span: s.defaultKeyspace().KeySpan([]byte(key)), PerSecond: perSecond, Reason: "capped"}
}

// What may not be written is refused in its place, whichever way the request goes, and leaves nothing. Reads, and writes of
// other keys, go on.
func TestThrottle_ReadOnlyKey_RefusesItsWritersAlone(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		c := l.dial()
		c.runScript("SET hot 1 -> OK\nSET cool 1 -> OK\nHSET hash f 1 -> (1)")
		limitWriters(t, l.s, keyLimit(l.s, "hot", 0))
		for _, request := range []string{"SET hot 2", "INCR hot", "DEL hot", "MSET hot 2 cool 2", "MSET hot 2 {hot}x 2", "EXPIRE hot 10", "DEL cool hot"} {
			got := c.ask(request)
			if !strings.HasPrefix(got, "-THROTTLED shard ") || !strings.Contains(got, ": capped: retry in ") || !strings.HasSuffix(got, " ms") {
				t.Errorf("%s: %s", request, got)
			}
		}
		c.runScript(`
			GET hot -> 1
			GET cool -> 1
			MULTI -> OK
			SET cool 7 -> QUEUED
			INCR hot -> QUEUED
		`)
		if got := c.ask("EXEC"); !strings.HasPrefix(got, "-THROTTLED ") {
			t.Errorf("EXEC: %s", got)
		}
		for _, request := range []string{"GET cool", "SET hot 3", "INCR cool", "GET hot", "SET hot 4", "INCR cool", "PING"} {
			c.send(request)
		}
		for _, want := range []string{"1", "-THROTTLED", "(2)", "1", "-THROTTLED", "(3)", "PONG"} {
			if got := c.readReply(); !strings.HasPrefix(got, want) {
				t.Errorf("%s, want %s", got, want)
			}
		}
		l.s.node.WriteLimits().Remove(admission.LimitKey{Source: admission.Cap, ID: 1})
		c.runScript("INCR hot -> (2)\nDEL {hot}x -> (0)")
	})
}

// Writers wait for their turn, and of those that would wait too long each is told so: what was acknowledged is there, and
// nothing else.
func TestThrottle_MoreWritersThanTurns_LosesNoAcknowledgedWrite(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		limitWriters(t, l.s, keyLimit(l.s, "n", 200))
		var mu sync.Mutex
		acknowledged, refused := 0, 0
		var clients sync.WaitGroup
		began := time.Now()
		for range 8 {
			c := l.dial()
			clients.Go(func() {
				const requests = 25
				c.sendPipeline(strings.Repeat("INCR n\r\n", requests))
				for range requests {
					got := c.readReply()
					mu.Lock()
					if strings.HasPrefix(got, "(") {
						acknowledged++
					} else if strings.HasPrefix(got, "-THROTTLED ") {
						refused++
					} else {
						t.Errorf("told %s", got)
					}
					mu.Unlock()
				}
			})
		}
		clients.Wait()
		took := time.Since(began)
		if got := l.dial().ask("GET n"); got != strconv.Itoa(acknowledged) {
			t.Errorf("%d were acknowledged, and n is %s", acknowledged, got)
		}
		// Turns of the wait and of the time that it took, and those that are at once.
		if most := int(200*(took+admission.DefaultMaxWait).Seconds()) + 12; acknowledged < 40 || acknowledged > most || refused == 0 {
			t.Errorf("%d were acknowledged and %d refused in %v, at 200 a second", acknowledged, refused, took)
		}
	})
}

// A client that waits for its turn holds up no other, however few loops there are.
func TestThrottle_WriterWaits_HoldsUpNoOtherClient(t *testing.T) {
	const away = 20 * time.Second
	forEachShape(t, func(t *testing.T, l *testServer) {
		limitWriters(t, l.s, keyLimit(l.s, "hot", 1/away.Seconds()))
		l.s.node.WriteLimits().SetMaxWait(2 * away)
		began := time.Now()
		waiting, other := l.dial(), l.dial()
		waiting.runScript("INCR hot -> (1)")
		waiting.send("INCR hot")
		for i := range 100 {
			if got, want := other.ask("INCR cool"), fmt.Sprintf("(%d)", i+1); got != want {
				t.Fatal(got)
			}
		}
		other.runScript("GET hot -> 1")
		if took := time.Since(began); took > away/2 {
			t.Errorf("100 requests took %v", took)
		}
	})
}

// The limit of one slot, as of a shard, covers no other.
func TestThrottle_OtherShards_AreStagedAsEver(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		k := l.s.defaultKeyspace()
		limitWriters(t, l.s, admission.WriteLimit{Span: k.SlotSpan(k.SlotOf([]byte("hot")))})
		c := l.dial()
		for i := range 50 {
			if got := c.ask(fmt.Sprintf("INCR k%d", i)); got != "(1)" {
				t.Fatal(got)
			}
		}
		if got := l.s.node.WriteLimits().Totals(admission.Cap); got.Refused != 0 || got.Waits.Count() != 0 {
			t.Errorf("%+v", got)
		}
		if got := c.ask("INCR hot"); !strings.HasPrefix(got, "-THROTTLED") {
			t.Error(got)
		}
	})
}
