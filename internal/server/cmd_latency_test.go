package server

import (
	"strings"
	"testing"
)

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
