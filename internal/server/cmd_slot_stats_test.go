package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/hash"
)

func TestSlotStats_RefusesWhatRedisDoes(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		l.dial().runScript(`
			CLUSTER SLOT-STATS SLOTSRANGE 0 16384 -> -ERR Invalid or out of range slot
			CLUSTER SLOT-STATS SLOTSRANGE x 1 -> -ERR Invalid or out of range slot
			CLUSTER SLOT-STATS SLOTSRANGE 5 4 -> -ERR Start slot number 5 is greater than end slot number 4
			CLUSTER SLOT-STATS SLOTSRANGE 5 -> -ERR *
			CLUSTER SLOT-STATS ORDERBY -> -ERR *
			CLUSTER SLOT-STATS ORDERBY nothing -> -ERR Unrecognized sort metric for ORDERBY.
			CLUSTER SLOT-STATS ORDERBY cpu-usec -> -ERR Unrecognized sort metric for ORDERBY.
			CLUSTER SLOT-STATS ORDERBY key-count LIMIT 0 -> -ERR Limit has to lie in between 1 and 16384 (maximum number of slots).
			CLUSTER SLOT-STATS ORDERBY key-count LIMIT 1 LIMIT 2 -> -ERR Multiple filters of the same type are disallowed.
			CLUSTER SLOT-STATS ORDERBY key-count ASC DESC -> -ERR Multiple filters of the same type are disallowed.
			CLUSTER SLOT-STATS ORDERBY key-count LIMIT -> -ERR syntax error
			CLUSTER SLOT-STATS ORDERBY key-count UP -> -ERR syntax error
		`)
	})
}

// Each slot has the keys that are in it, and once that is asked for, the bytes of all requests about them.
func TestSlotStats_CountsBySlot(t *testing.T) {
	forEachShape(t, func(t *testing.T, l *testServer) {
		c := l.dial()
		a, b := hash.SlotOf([]byte("a")), hash.SlotOf([]byte("b"))
		c.runScript("SET a 1 -> OK\nSET {a}2 1 -> OK\nSET b 1 -> OK")
		c.runScript(fmt.Sprintf(`
			CLUSTER SLOT-STATS SLOTSRANGE %[1]d %[1]d -> [[(%[1]d) [key-count (2)]]]
			CLUSTER SLOT-STATS ORDERBY key-count LIMIT 2 -> [[(%[1]d) [key-count (2)]] [(%[2]d) [key-count (1)]]]
			CLUSTER SLOT-STATS ORDERBY key-count LIMIT 1 ASC -> [[(0) [key-count (0)]]]
			CONFIG SET cluster-slot-stats-enabled yes -> OK
		`, a, b))
		if all := c.ask("CLUSTER SLOT-STATS SLOTSRANGE 0 16383"); strings.Count(all, "key-count") != hash.Slots {
			t.Errorf("%d slots of all", strings.Count(all, "key-count"))
		}
		in, out := 0, 0
		ask := func(reply int, words ...string) {
			c.sendWords(words...)
			c.readReply()
			in, out = in+len(encodeRequest(words...)), out+reply
		}
		for range 20 {
			ask(len("$1\r\n1\r\n"), "GET", "a")
			ask(len("+OK\r\n"), "SET", "a", "1")
			ask(len("*2\r\n$1\r\n1\r\n$1\r\n1\r\n"), "MGET", "a", "{a}2")
			ask(len("-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"), "HGET", "a", "f")
		}
		got := c.ask(fmt.Sprintf("CLUSTER SLOT-STATS SLOTSRANGE %[1]d %[1]d", a))
		var keys, micros, gotIn, gotOut int
		_, err := fmt.Sscanf(got, fmt.Sprintf("[[(%d) [key-count (%%d) cpu-usec (%%d) network-bytes-in (%%d) network-bytes-out (%%d)]]]", a), &keys, &micros, &gotIn, &gotOut)
		if err != nil || keys != 2 || micros <= 0 || gotIn != in || gotOut != out {
			t.Errorf("%s, %v; want %d bytes in and %d out", got, err, in, out)
		}
		for _, metric := range []string{"cpu-usec", "network-bytes-in", "network-bytes-out"} {
			if got := c.ask("CLUSTER SLOT-STATS ORDERBY " + metric + " LIMIT 1"); !strings.HasPrefix(got, fmt.Sprintf("[[(%d) ", a)) {
				t.Errorf("most %s: %s", metric, got)
			}
		}
		c.runScript("CONFIG RESETSTAT -> OK")
		if got := c.ask("CLUSTER SLOT-STATS ORDERBY network-bytes-in LIMIT 1"); !strings.Contains(got, "network-bytes-in (0)") {
			t.Errorf("after a reset: %s", got)
		}
		c.runScript("CONFIG SET cluster-slot-stats-enabled no -> OK\nCLUSTER SLOT-STATS ORDERBY cpu-usec -> -ERR Unrecognized sort metric for ORDERBY.")
	})
}
