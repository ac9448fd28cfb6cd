package server

import (
	"strings"
	"testing"
	"time"
)

func TestLatencyKeepsTheLongestTimeOfEachSecond(t *testing.T) {
	var l latencyMonitor
	at := time.Unix(1000, 0)
	l.record("e", at, time.Hour)
	if len(l.snapshot()) != 0 {
		t.Fatal("it is off")
	}
	l.threshold.Store(int64(10 * time.Millisecond))
	l.record("e", at, 9*time.Millisecond)
	for i := range maxSamples + 5 {
		l.record("e", at.Add(time.Duration(i)*time.Second), 20*time.Millisecond)
		l.record("e", at.Add(time.Duration(i)*time.Second), time.Duration(30+i)*time.Millisecond)
	}
	s := l.snapshot()["e"]
	last := s.samples[len(s.samples)-1]
	if len(s.samples) != maxSamples || s.samples[0].second != 1005 || last.second != 1000+maxSamples+4 || last.took != (30+maxSamples+4)*time.Millisecond || s.max != last.took {
		t.Errorf("%d samples from %v to %v, at most %v", len(s.samples), s.samples[0], last, s.max)
	}
	if l.reset("other") != 0 || l.reset() != 1 || len(l.snapshot()) != 0 {
		t.Error("it is not forgotten")
	}
}

func TestLatencyTellsWhatTookLong(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		c := l.dial()
		c.runScript(`
			LATENCY LATEST -> []
			LATENCY DOCTOR -> Nothing is measured*
			CONFIG SET latency-monitor-threshold 1 -> OK
			ACL SETUSER u on >secret -> OK
			AUTH u wrong -> -WRONGPASS*
			LATENCY HISTORY nosuch -> []
			LATENCY GRAPH command -> -ERR unknown subcommand 'GRAPH'. Try LATENCY HELP.
		`)
		// A wrong password takes ten milliseconds at least.
		if got := c.ask("LATENCY LATEST"); !strings.Contains(got, "[command (") {
			t.Error(got)
		}
		if got := c.ask("LATENCY HISTORY command"); !strings.HasPrefix(got, "[[(") {
			t.Error(got)
		}
		if got := c.ask("LATENCY DOCTOR"); !strings.Contains(got, "command: ") {
			t.Error(got)
		}
		c.runScript("CONFIG SET latency-monitor-threshold 0 -> OK\nLATENCY RESET nosuch -> (0)\nLATENCY RESET command batch -> (*\nLATENCY LATEST -> []")
	})
}
