package server

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/server/redis"
)

// readCommandStats is what INFO commandstats returns about a command.
func (c *testConn) readCommandStats(name string) (calls, rejected, failed int, micros float64) {
	c.t.Helper()
	line := regexp.MustCompile(`cmdstat_` + regexp.QuoteMeta(name) + `:calls=(\d+),usec=(\d+),usec_per_call=([0-9.]+),rejected_calls=(\d+),failed_calls=(\d+)`).
		FindStringSubmatch(c.ask("INFO commandstats"))
	if line == nil {
		return 0, 0, 0, 0
	}
	number := func(i int) int { n, _ := strconv.Atoi(line[i]); return n }
	return number(1), number(4), number(5), float64(number(2))
}

// Every call is counted once, whether it is refused, fails or is good, however it is executed.
func TestCallsAreCounted(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		c := l.dial()
		c.runScript(`
			CONFIG RESETSTAT -> OK
			SET a x -> OK
			SET h x -> OK
			INCR a -> -ERR value is not*
			INCR -> -ERR wrong number*
			HGET a f -> -WRONGTYPE*
			MULTI -> OK
			SET a y -> QUEUED
			DISCARD -> OK
			MULTI -> OK
			SET a 1 -> QUEUED
			INCR a -> QUEUED
			HGET a f -> QUEUED
			AUTH x -> QUEUED
		`)
		if got := c.ask("EXEC"); !strings.HasPrefix(got, "[OK (2) -WRONGTYPE") || !strings.Contains(got, "-ERR AUTH") {
			t.Error(got)
		}
		c.runScript(`
			EXEC -> -ERR EXEC without MULTI
			MULTI -> OK
			INCR -> -ERR wrong number*
			EXEC -> -EXECABORT*
			MGET a h -> [2 x]
			RENAME none other -> -ERR no such key
			GETRANGE a x 1 -> -ERR value is not*
		`)
		c.sendWords("GET", strings.Repeat("k", 1<<15))
		c.readReply()
		for name, want := range map[string][3]int{
			"set": {3, 0, 0}, "incr": {2, 2, 1}, "hget": {2, 0, 2}, "exec": {3, 0, 2}, "auth": {1, 0, 1}, "mget": {1, 0, 0},
			"rename": {1, 0, 1}, "getrange": {1, 0, 1}, "get": {1, 0, 1}, "discard": {1, 0, 0}, "multi": {3, 0, 0},
		} {
			calls, rejected, failed, _ := c.readCommandStats(name)
			if got := [3]int{calls, rejected, failed}; got != want {
				t.Errorf("%s was called, rejected and has failed %d times, want %d", name, got, want)
			}
		}
		info := c.ask("INFO errorstats")
		for _, want := range []string{"errorstat_ERR:count=8", "errorstat_WRONGTYPE:count=2", "errorstat_EXECABORT:count=1"} {
			if !strings.Contains(info, want) {
				t.Errorf("%s is not in\n%s", want, info)
			}
		}
	})
}

// Every call has taken some time, however it is executed.
func TestCallsAreTimed(t *testing.T) {
	for _, sh := range shapes {
		t.Run(sh.name, func(t *testing.T) {
			t.Parallel()
			l := startCold(t, sh, 200, "k")
			c := l.dial()
			c.runScript("CONFIG RESETSTAT -> OK")
			c.sendPipeline("GET k1\r\nGET k2\r\nGET k2\r\nINCR k3\r\nINCR k3\r\nMGET k4 k5\r\nMGET k4 k5\r\nMULTI\r\nSTRLEN k1\r\nTTL k6\r\nEXEC\r\nPING\r\nCLIENT ID\r\n")
			for range 13 {
				c.readReply()
			}
			for name, want := range map[string]int{"get": 3, "incr": 2, "mget": 2, "strlen": 1, "ttl": 1, "exec": 1, "ping": 1, "client|id": 1} {
				calls, _, _, micros := c.readCommandStats(name)
				if calls != want || micros > 60e6 {
					t.Errorf("%s was called %d times and took %v us, want %d", name, calls, micros, want)
				}
				if got := c.ask("LATENCY HISTOGRAM " + name); !strings.HasPrefix(got, fmt.Sprintf("[%s [calls (%d) histogram_usec [(", name, want)) || !strings.HasSuffix(got, fmt.Sprintf("(%d)]]]", want)) {
					t.Errorf("%s: %s, want %d calls", name, got, want)
				}
			}
			c.runScript(`
				LATENCY HISTOGRAM nosuch -> []
				CONFIG SET latency-tracking-info-percentiles 0.0+100 -> -ERR CONFIG SET failed*
				CONFIG SET latency-tracking-info-percentiles 101 -> -ERR CONFIG SET failed*
				CONFIG SET latency-tracking-info-percentiles 50.0 -> OK
				CONFIG GET latency-tracking-info-percentiles -> [latency-tracking-info-percentiles 50]
				CONFIG SET latency-tracking perhaps -> -ERR CONFIG SET failed*
			`)
			if got := c.ask("INFO latencystats"); !regexp.MustCompile(`latency_percentiles_usec_get:p50=[0-9.]+\r\n`).MatchString(got) {
				t.Error(got)
			}
			c.runScript("CONFIG SET latency-tracking no -> OK\nCONFIG RESETSTAT -> OK\nGET k1 -> 1\nLATENCY HISTOGRAM get -> []")
			if calls, _, _, _ := c.readCommandStats("get"); calls != 1 {
				t.Errorf("%d calls of GET are counted", calls)
			}
		})
	}
}

// What a request has waited for is its time.
func TestATimeHasAllThatWasWaitedFor(t *testing.T) {
	l, disk := startStalling(t, 2000, 8<<20)
	c := l.dial()
	const wait = 20 * time.Millisecond
	key := 0
	for _, name := range []string{"get", "strlen", "exists"} {
		for took := time.Duration(0); took < wait; key++ { // its block was read before
			free := disk.stallReads(t)
			var answered atomic.Bool
			go func() {
				for disk.now.Load() == 0 && !answered.Load() {
					time.Sleep(time.Millisecond)
				}
				time.Sleep(wait) // from when it is asked for on
				free()
			}()
			began := time.Now()
			c.ask(fmt.Sprintf("%s k%d", name, key))
			took = time.Since(began)
			answered.Store(true)
			free()
		}
		spec := redis.SpecByName(name)
		sum := l.s.stats.CountsOf(spec).Took
		if longest := l.s.stats.QuantilesOf(spec, []float64{100})[0]; longest < float64(wait.Microseconds())/2 || sum < wait/2 {
			t.Errorf("%s took %v us at most, and %v in all, though it has waited for %v", name, longest, sum, wait)
		}
	}
}
