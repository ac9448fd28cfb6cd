package serve

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/internal/tally"
	"github.com/cleavekv/cleave/partition"
)

// clients is how many there are at once.
const clients = 4

// Whatever clients ask for, at once and in whichever order, each is answered as Redis
// would, while shards are split, merged and moved under them.
func TestPipelinesAreAnsweredAsByRedis(t *testing.T) {
	for _, sh := range []struct {
		shape
		cold bool
	}{
		{shape{"in memory", 1, 1, false}, false}, {shape{"four groups", 1, 4, false}, false}, {shape{"streams", 1, 4, true}, false},
		{shape{"two stores", 2, 4, false}, false}, {shape{"cold", 2, 4, false}, true},
	} {
		t.Run(sh.name, func(t *testing.T) {
			o, dir, pipelines := sh.options(), "", 4
			if os.Getenv("CLEAVE_SOAK") != "" {
				pipelines *= 30
			}
			if sh.cold {
				pipelines /= 2 // a read of the disk takes long under the race detector
				o.CacheBytes, o.BlockCacheBytes, o.Durability, dir = 64<<10, 64<<10, cleave.EverySec, t.TempDir()
			}
			l := startOn(t, open(t, dir, o), sh.shape, Options{})
			var counts tally.Counts
			l.differ(seedOf(t), pipelines, &counts)
			needed := []string{"pipelines", "looks at the order", "changes of the map"}
			if sh.cold {
				for _, s := range l.db.Metrics().Stores {
					counts.Add("misses", int(s.CacheMisses))
					counts.Add("evictions", int(s.CacheEvictions))
				}
				needed = append(needed, "misses", "evictions")
			}
			counts.Log(t, needed...)
		})
	}
}

// differ lets clients say the same to the server and to Redis, so many pipelines each in a
// round.
func (l *lab) differ(seed uint64, pipelines int, counts *tally.Counts) {
	redis := dialRedis(l.t)
	l.prepare()
	twins := make([]*twin, clients)
	for i := range twins {
		twins[i] = &twin{draws: draws{Rand: rand.New(rand.NewPCG(seed, uint64(i))), id: i}, ours: l.dial(), theirs: redis()}
		if i%2 == 1 {
			twins[i].ours.ask("HELLO 3")
			twins[i].theirs.ask("HELLO 3")
		}
	}
	_ = twins[0].ours.Conn.(*net.TCPConn).SetReadBuffer(256 << 10) // the server waits for it
	ours, theirs := l.dial(), redis()
	for round := range 2 {
		fill(ours)
		fill(theirs)
		var wg, others sync.WaitGroup
		var stop atomic.Bool
		others.Go(func() { l.order(&stop, counts) })
		others.Go(func() { l.unrest(rand.New(rand.NewPCG(seed, uint64(clients+round))), &stop, counts) })
		for _, w := range twins {
			wg.Go(func() {
				for range pipelines {
					if err := w.step(); err != nil {
						l.t.Error(err)
						return
					}
					counts.Add("pipelines", 1)
				}
			})
		}
		wg.Wait()
		stop.Store(true)
		others.Wait()
		if l.t.Failed() {
			return
		}
		l.checkIndex(ours, theirs)
		for _, request := range []string{"SELECT 1", "DBSIZE", "SELECT 9", "DBSIZE", "GET shared", "SELECT 0", "DBSIZE", "GET shared", "FLUSHALL"} {
			if got, want := ours.ask(request), theirs.ask(request); got != want {
				l.t.Errorf("%s in the end: %s, and that of Redis is %s", request, got, want)
			}
		}
	}
}

// prepare makes the keyspaces: those of clients, of both kinds, one with an index, and one
// that Redis does not have.
func (l *lab) prepare() {
	l.t.Helper()
	for name, kind := range map[string]cleave.Kind{"1": cleave.Range, "2": cleave.Hash, "3": cleave.Range, "4": cleave.Hash, "9": cleave.Hash, "order": cleave.Hash} {
		if _, err := l.db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: name, Kind: kind}); err != nil {
			l.t.Fatal(err)
		}
	}
	l.dial().script("SELECT 9 -> OK\nCLEAVE.INDEX CREATE letters COLUMNS f -> OK")
}

// fill writes more rows than the smallest cache has room for.
func fill(c *conn) {
	for i := range clients * 150 {
		c.sendWords("SET", fmt.Sprintf("c%d:%d", i%clients, i/clients), strings.Repeat("0", 1000))
	}
	c.expect(slices.Repeat([]string{"OK"}, clients*150)...)
}

// checkIndex tells whether the index has what Redis has in the hashes of that keyspace.
func (l *lab) checkIndex(ours, theirs *conn) {
	l.t.Helper()
	ours.script("SELECT 9 -> OK")
	theirs.script("SELECT 9 -> OK")
	var want []string
	for _, key := range strings.Fields(strings.Trim(theirs.ask("KEYS *"), "[]")) {
		if value := theirs.ask("HGET " + key + " f"); value != "(nil)" && !strings.HasPrefix(value, "-WRONGTYPE") {
			want = append(want, fmt.Sprintf("[%s [%s] []]", key, value))
		}
	}
	got := ours.ask("CLEAVE.INDEX SCAN letters LIMIT 10000")
	for _, entry := range want {
		if !strings.Contains(got, entry) {
			l.t.Errorf("the index does not have %s", entry)
		}
	}
	if n := strings.Count(got, "] []]"); n != len(want) {
		l.t.Errorf("the index has %d entries, and Redis %d: %s", n, len(want), got)
	}
}

func seedOf(t *testing.T) uint64 { return tally.Seed(t, "./internal/serve") }

// unrest splits, merges and moves shards at random, some of them in any case, until it is
// told to stop.
func (l *lab) unrest(rng *rand.Rand, stop *atomic.Bool, counts *tally.Counts) {
	groups := l.db.Groups()
	for made := 0; made < 3 || !stop.Load(); time.Sleep(3 * time.Millisecond) {
		shards := slices.Collect(l.db.Map().Shards(partition.Whole))
		at := rng.IntN(len(shards) - 1)
		var change cleave.MapChange = cleave.Move{Shard: shards[at].ID, To: groups[rng.IntN(len(groups))].ID}
		what := "moves"
		switch rng.IntN(4) {
		case 0:
			change, what = cleave.Merge{Left: shards[at].ID, Right: shards[at+1].ID}, "merges"
		case 1:
			k := l.db.Keyspaces()[rng.IntN(len(l.db.Keyspaces()))]
			cut := cleave.Split{Keyspace: k, Slots: []int{rng.IntN(hash.Slots)}}
			if k.Options().Kind == cleave.Range {
				cut = cleave.Split{Keyspace: k, At: [][]byte{fmt.Appendf(nil, "c%d:%d", rng.IntN(clients), rng.IntN(100))}}
			}
			change, what = cut, "splits"
		}
		job, err := l.db.Start(ctx, change)
		if err != nil {
			continue // it was a bad idea
		}
		if _, err := job.Wait(ctx); err != nil {
			l.t.Errorf("%+v: %v", change, err)
		}
		made++
		counts.Add(what, 1)
		counts.Add("changes of the map", 1)
	}
}

// order lets a client write to keys of several groups in one pipeline, and another read
// them one after the other, from the last to the first: none is older than one behind it.
func (l *lab) order(stop *atomic.Bool, counts *tally.Counts) {
	const keys, depth = 6, 10
	writer, reader := l.dial(), l.dial()
	writer.script("SELECT order -> OK")
	reader.script("SELECT order -> OK")
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for i := 1; !stop.Load(); i += depth {
			text := ""
			for j := range depth * keys {
				text += fmt.Sprintf("SET o%d %d\r\n", j%keys, i+j/keys)
			}
			writer.pipeline(text)
			writer.expect(slices.Repeat([]string{"OK"}, depth*keys)...)
			time.Sleep(time.Millisecond) // others want the processor too
		}
	})
	for !stop.Load() && !l.t.Failed() {
		last := 0
		for k := keys - 1; k >= 0; k-- {
			n, _ := strconv.Atoi(reader.ask(fmt.Sprintf("GET o%d", k)))
			if n < last {
				l.t.Errorf("o%d is %d, and one that is written later is %d", k, n, last)
			}
			last = n
		}
		counts.Add("looks at the order", 1)
	}
}
