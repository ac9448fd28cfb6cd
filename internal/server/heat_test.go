package server

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/heat"
)

// exchange sends requests of so many replies at once and reads these.
func (c *testConn) exchange(requests []byte, replies int) {
	c.t.Helper()
	go func() { _, _ = c.Write(requests) }()
	for range replies {
		if r := c.readReply(); strings.HasPrefix(r, "-") {
			c.t.Fatal(r)
		}
	}
}

// findHot returns what is known of a key by a measure, and its rank.
func findHot(t *testing.T, l *testServer, by heat.Measure, key string) (h heat.HotKey, rank int, total float64) {
	t.Helper()
	l.s.node.CollectHeat()
	top, total := l.s.node.Heat().Top(by, -1)
	p := string(l.s.defaultKeyspace().AppendPosition(nil, []byte(key)))
	rank = slices.IndexFunc(top, func(h heat.HotKey) bool { return h.Key == p })
	if rank < 0 {
		t.Fatalf("%s is not among %d keys", key, len(top))
	}
	return top[rank], rank, total
}

// Whatever way a request takes to its key, the key that is asked for the most is known, with its share, what was asked
// and who has asked.
func TestHeat_HotKey_IsFirstWithItsShareAndItsClient(t *testing.T) {
	const perRound = 1000
	ways := []struct {
		name, command string
		shape         serverShape
		isWrite       bool
		// request is one about a key, with so many replies and keys.
		request               func(key string) []byte
		replies, keys, rounds int
	}{
		{"a read from memory", "get", shapes[1], false, func(k string) []byte { return encodeRequest("GET", k) }, 1, 1, 30},
		{"a write in a batch", "incr", shapes[1], true, func(k string) []byte { return encodeRequest("INCR", k) }, 1, 1, 30},
		{"a stream", "get", shapes[3], false, func(k string) []byte { return encodeRequest("GET", k) }, 1, 1, 30},
		{"MULTI in one group", "incr", shapes[0], true, func(k string) []byte {
			return slices.Concat(encodeRequest("MULTI"), encodeRequest("INCR", k), encodeRequest("EXEC"))
		}, 3, 1, 30},
		{"a transaction of several stores", "mget", shapes[2], false, func(k string) []byte { return encodeRequest("MGET", k, "o1", "o2", "o3", "o4") }, 1, 5, 5},
	}
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			l := startServer(t, w.shape, Options{})
			quiet, loud := l.dial(), l.dial()
			loud.ask("CLIENT SETNAME shop")
			quiet.ask("CLIENT SETINFO LIB-NAME redis-py")
			r := rand.New(rand.NewPCG(1, 2))
			for range w.rounds {
				var hot, others []byte
				for range perRound * 4 / 10 {
					hot = append(hot, w.request("hot")...)
				}
				for range perRound * 6 / 10 {
					others = append(others, w.request(fmt.Sprint("cold ", r.IntN(2000)))...)
				}
				loud.exchange(hot, w.replies*perRound*4/10)
				quiet.exchange(others, w.replies*perRound*6/10)
			}
			h, rank, total := findHot(t, l, heat.ByOps, "hot")
			if want := 0.4 / float64(w.keys); w.keys == 1 && rank != 0 || math.Abs(h.Count/total-want) > (h.Error+6*h.Deviation)/total {
				t.Errorf("it is number %d with %.3f of all, want %.3f; error %.0f, deviation %.0f of %.0f", rank+1, h.Count/total, want, h.Error, h.Deviation, total)
			}
			if h.Deviation == 0 || h.Deviation > h.Count/2 {
				t.Errorf("a count of %.0f has the deviation %.0f", h.Count, h.Deviation)
			}
			if isWrite := h.Writes > h.Ops/2; isWrite != w.isWrite || h.Bytes < h.Ops*10 || h.P99 <= 0 || h.Mean <= 0 {
				t.Errorf("%+v", h)
			}
			for what, names := range map[string][]heat.NameCount{w.command: h.Commands, "shop@127.0.0.1": h.Clients, loud.LocalAddr().String(): h.Addresses} {
				if len(names) == 0 || names[0].Name != what {
					t.Errorf("its names are %v, want %s", names, what)
				}
			}
			top, _ := l.s.node.Heat().Top(heat.ByOps, -1)
			for _, cold := range top {
				if strings.Contains(cold.Key, "cold") && (len(cold.Clients) != 1 || cold.Clients[0].Name != "redis-py@127.0.0.1") {
					t.Errorf("a cold key is asked for by %v", cold.Clients)
				}
			}
		})
	}
}

// Keys that are read from disk, and few that are large, are known too.
func TestHeat_LargeAndColdKeys_AreFound(t *testing.T) {
	l := startServer(t, shapes[1], Options{})
	c := l.dial()
	c.sendWords("SET", "large", strings.Repeat("x", 100_000))
	c.readReply()
	var small []byte
	for i := range 1000 {
		small = append(small, encodeRequest("GET", fmt.Sprint("small ", i))...)
	}
	for range 20 {
		c.exchange(slices.Repeat(encodeRequest("GET", "large"), 10), 10)
		c.exchange(small, 1000)
	}
	if h, rank, total := findHot(t, l, heat.ByBytes, "large"); rank != 0 || h.Count < total*0.9 {
		t.Errorf("200 requests of 100 kB are number %d with %.0f of %.0f bytes", rank+1, h.Count, total)
	}

	cold := startCold(t, shapes[1], 200, "k")
	for range 50 {
		cold.dial().exchange(slices.Repeat(encodeRequest("GET", "k7"), 100), 100)
		cold.dial().exchange(encodeRequest("GET", "k8"), 1)
	}
	findHot(t, cold, heat.ByOps, "k7")
}

func TestHeat_Off_NothingIsKnownAndAllIsServed(t *testing.T) {
	o := shapes[0].options()
	o.HeatOff = true
	l := startOn(t, openDB(t, "", o), shapes[0], Options{})
	c := l.dial()
	c.exchange(slices.Repeat(encodeRequest("INCR", "n"), 2000), 2000)
	if got := c.ask("GET n"); got != "2000" {
		t.Errorf("n is %s", got)
	}
	n := l.s.node
	if n.CollectHeat(); n.Heat() != nil || n.HeatMap() != nil || n.SharedHeat() != nil || n.HeatBytes() != 0 {
		t.Error("something is known all the same")
	}
}
