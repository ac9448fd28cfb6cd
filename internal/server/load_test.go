package server

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/shard/load"
	"github.com/cleavekv/cleave/partition"
)

// loadTruth is what clients know that they have asked for.
type loadTruth struct {
	mu     sync.Mutex
	total  load.OpCounts
	shards map[partition.ShardID]load.OpCounts // reads and writes alone
}

// record counts a request that is about some keys.
func (tr *loadTruth) record(l *testServer, writes bool, keys ...string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, key := range keys {
		id := l.shardOf(key)
		c := tr.shards[id]
		if writes {
			c.Writes, tr.total.Writes = c.Writes+1, tr.total.Writes+1
		} else {
			c.Reads, tr.total.Reads = c.Reads+1, tr.total.Reads+1
		}
		tr.shards[id] = c
	}
}

// shardOf returns the shard of a key.
func (l *testServer) shardOf(key string) partition.ShardID {
	return l.s.node.Map().Find(l.s.defaultKeyspace().AppendPosition(nil, []byte(key))).ID
}

// byteCounter counts what is read through it.
type byteCounter struct {
	io.Reader
	n uint64
}

func (c *byteCounter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += uint64(n)
	return n, err
}

// runLoadClient sends pipelines of all kinds of requests about keys.
func runLoadClient(l *testServer, tr *loadTruth, seed uint64) {
	c, r := l.dial(), rand.New(rand.NewPCG(seed, 1))
	received := &byteCounter{Reader: c.Conn}
	c.in = bufio.NewReader(received)
	var counts load.OpCounts
	overhead := uint64(0) // bytes of replies that are those of no key
	for range 40 {
		var pipeline []byte
		var isUnit []bool
		countCross := func(n int, keys ...string) {
			for _, key := range keys[1:] {
				if l.shardOf(key) != l.shardOf(keys[0]) {
					counts.CrossShard += uint64(n)
					return
				}
			}
		}
		add := func(writes bool, keys []string, words ...string) {
			request := encodeRequest(words...)
			pipeline = append(pipeline, request...)
			counts.BytesIn += uint64(len(request))
			tr.record(l, writes, keys...)
		}
		for range 1 + r.IntN(60) {
			key := func() string { return fmt.Sprint("k", r.IntN(300)) }
			a, b, value := key(), key(), strings.Repeat("1", 1+r.IntN(30))
			unit := false
			switch r.IntN(13) {
			default:
				add(false, []string{a}, "GET", a)
			case 5:
				add(true, []string{a}, "SET", a, value)
			case 6:
				add(true, []string{a}, "INCR", a)
			case 7:
				add(false, []string{a}, "HGET", a, "field")
			case 8:
				add(false, []string{a, b, a}, "MGET", a, b, a)
				countCross(3, a, b)
			case 9:
				add(true, []string{a, b}, "MSET", a, value, b, "2")
				countCross(2, a, b)
			case 10:
				add(true, []string{a, b}, "DEL", a, b)
				countCross(2, a, b)
			case 11:
				add(true, []string{a}, "APPEND", a, "3")
			case 12:
				unit = true
				pipeline = append(pipeline, encodeRequest("MULTI")...)
				add(true, []string{a}, "SET", a, value)
				add(false, []string{a, b}, "EXISTS", a, b)
				add(false, []string{a}, "HGET", a, "field")
				countCross(4, a, b)
				pipeline = append(pipeline, encodeRequest("EXEC")...)
				overhead += uint64(len("+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n"))
			}
			isUnit = append(isUnit, unit)
		}
		if _, err := c.Write(pipeline); err != nil {
			l.t.Error(err)
			return
		}
		for _, unit := range isUnit {
			for range 4 {
				if unit {
					if _, err := readReply(c.in); err != nil {
						l.t.Error(err)
						return
					}
				}
			}
			reply, err := readReply(c.in)
			if err != nil {
				l.t.Error(err)
				return
			}
			if strings.HasPrefix(reply, "-") || unit && strings.Contains(reply, "-WRONGTYPE") {
				counts.Errors++
			}
		}
	}
	counts.BytesOut = received.n - overhead
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.total.Add(counts)
}

// runLoadClients runs some clients, and returns what the server has counted for them.
func runLoadClients(l *testServer, during func()) (counted *load.Loads, tr *loadTruth) {
	tr = &loadTruth{shards: map[partition.ShardID]load.OpCounts{}}
	var clients sync.WaitGroup
	for i := range 3 {
		clients.Go(func() { runLoadClient(l, tr, uint64(i)) })
	}
	during()
	clients.Wait()
	return l.s.node.Meter().Read(), tr
}

// checkTotal compares what was counted with the truth.
func (tr *loadTruth) checkTotal(t *testing.T, counted *load.Loads) {
	t.Helper()
	total := counted.Total()
	tr.total.Busy, tr.total.Conflicts, tr.total.InGroup = total.Busy, total.Conflicts, total.InGroup // those differ from run to run
	if total.OpCounts != tr.total {
		t.Errorf("counted\n%+v, want\n%+v", total.OpCounts, tr.total)
	}
	if ops, service, wait := total.Ops(), total.Service.Count(), total.Wait.Count(); service != ops || wait != ops {
		t.Errorf("%d times and %d waits of %d operations", service, wait, ops)
	}
	if total.Busy <= 0 || total.Service.SumNS < uint64(total.Busy) {
		t.Errorf("busy for %v with what has taken %d ns", total.Busy, total.Service.SumNS)
	}
}

// Reads in memory and on disk, writes, requests of several keys and transactions are each counted once, for the right
// shard.
func TestLoad_EveryRequestIsCountedOnceForItsShard(t *testing.T) {
	for _, sh := range shapes {
		t.Run(sh.name, func(t *testing.T) {
			t.Parallel()
			l := startCold(t, sh, 200, "k")
			before := l.s.node.Meter().Read().Total()
			if before.Ops() > 0 {
				t.Fatalf("%d operations before the first", before.Ops())
			}
			counted, tr := runLoadClients(l, func() {})
			tr.checkTotal(t, counted)
			for id, want := range tr.shards {
				if got := counted.Of(id); got.Reads != want.Reads || got.Writes != want.Writes {
					t.Errorf("%v: %d reads and %d writes, want %d and %d", id, got.Reads, got.Writes, want.Reads, want.Writes)
				}
			}
		})
	}
}

// While shards are split, moved and merged nothing is lost, and nothing counted twice.
func TestLoad_MapChanges_LoseNothing(t *testing.T) {
	for _, sh := range shapes {
		t.Run(sh.name, func(t *testing.T) {
			t.Parallel()
			l := startCold(t, sh, 200, "k")
			counted, tr := runLoadClients(l, func() {
				for slot := 1000; slot < 16000; slot += 3000 {
					job, err := l.db.Start(ctx, cleave.SplitAtSlots(l.db.Default(), slot))
					if err == nil {
						_, err = job.Wait(ctx)
					}
					if err != nil {
						t.Error(err)
						return
					}
					at := l.s.defaultKeyspace().SlotSpan(uint16(slot)).Start
					groups := l.db.Groups()
					for _, g := range groups {
						if shard := l.s.node.Map().Find(at); g.ID != shard.Group {
							if job, err = l.db.Start(ctx, cleave.Move{Shard: shard.ID, To: g.ID}); err == nil {
								_, err = job.Wait(ctx)
							}
							if err != nil {
								t.Error(err)
							}
							break
						}
					}
				}
			})
			tr.total.CrossShard = counted.Total().CrossShard // by the map of the moment
			tr.checkTotal(t, counted)
		})
	}
}

// What only looks at a server does not make its shards look hot: requests that name no key are reads of none.
func TestLoad_RequestsWithoutKeys_AreOfNoShard(t *testing.T) {
	l := startServer(t, shapes[1], Options{})
	c := l.dial()
	for i := range 20 {
		c.runScript(fmt.Sprintf("SET key:%d 1 -> OK", i))
	}
	count := func() load.OpCounts {
		loads := l.s.node.ReadLoads()
		total := loads.Total()
		return total.OpCounts
	}
	before := count()
	for _, request := range []string{"DBSIZE", "INFO", "INFO keyspace", "PING", "CLUSTER COUNTKEYSINSLOT 5", "CONFIG GET maxmemory", "CLIENT LIST", "COMMAND COUNT"} {
		c.ask(request)
		if after := count(); after != before {
			t.Errorf("%s counts: %+v before, %+v after", request, before, after)
			before = after
		}
	}
	if c.ask("SCAN 0 COUNT 100"); count().ScanReads != before.ScanReads+20 {
		t.Errorf("a SCAN of 20 keys counts %d reads", count().ScanReads-before.ScanReads)
	}
}
