package server

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/internal/reshard/balancer"
	"github.com/cleavekv/cleave/internal/testkit/relief"
	"github.com/cleavekv/cleave/internal/testkit/tally"
	"github.com/cleavekv/cleave/partition"
)

// clientCount is how many there are at once.
const clientCount = 4

// Whatever clients ask for, at once and in whichever order, each is answered as Redis
// would, while shards are split, merged and moved under them.
func TestPipelinesAreAnsweredAsByRedis(t *testing.T) {
	var relieved tally.Counts
	for _, sh := range []struct {
		serverShape
		cold bool
	}{
		{serverShape{name: "in memory", stores: 1, groups: 1}, false}, {serverShape{name: "four groups", stores: 1, groups: 4, loops: 2}, false}, {serverShape{name: "streams", stores: 1, groups: 4, streams: true}, false},
		{serverShape{name: "two stores", stores: 2, groups: 4, loops: 3}, false}, {serverShape{name: "cold", stores: 2, groups: 4, loops: 2}, true},
	} {
		t.Run(sh.name, func(t *testing.T) {
			o, dir, pipelines := sh.options(), "", tally.Size(4, 2)
			if os.Getenv("CLEAVE_SOAK") != "" {
				pipelines *= 30
			}
			if sh.cold {
				pipelines /= 2 // a read of the disk takes long under the race detector
				o.CacheBytes, o.BlockCacheBytes, o.Durability, dir = 64<<10, 64<<10, cleave.EverySec, t.TempDir()
			}
			l := startOn(t, openDB(t, dir, o), sh.serverShape, Options{})
			var counts tally.Counts
			l.compareWithRedis(seedOf(t), pipelines, &counts)
			if counts.Has("jobs of the heat loop") {
				relieved.Add("shapes that the heat loop has changed", 1)
			}
			needed := []string{"pipelines", "changes of the map"}
			if sh.stores == 1 {
				needed = append(needed, "looks at the order")
			}
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
	relieved.Log(t, "shapes that the heat loop has changed")
}

// compareWithRedis lets clients say the same to the server and to Redis, so many pipelines each in a
// round.
func (l *testServer) compareWithRedis(seed uint64, pipelines int, counts *tally.Counts) {
	redis := dialRedis(l.t)
	l.createKeyspaces()
	twins := make([]*twinClient, clientCount)
	for i := range twins {
		twins[i] = &twinClient{requestGenerator: requestGenerator{Rand: rand.New(rand.NewPCG(seed, uint64(i))), id: i}, ours: l.dial(), theirs: redis()}
		if i%2 == 1 {
			twins[i].ours.ask("HELLO 3")
			twins[i].theirs.ask("HELLO 3")
		}
	}
	_ = twins[0].ours.Conn.(*net.TCPConn).SetReadBuffer(256 << 10) // the server waits for it
	ours, theirs := l.dial(), redis()
	for round := range 2 {
		fillCache(ours)
		fillCache(theirs)
		var wg, others sync.WaitGroup
		var stop atomic.Bool
		if len(l.s.node.StoreHosts()) == 1 { // requests of several stores have no order for others
			others.Go(func() { l.checkReadOrder(&stop, counts) })
		}
		others.Go(func() { l.relieveShards(&stop, counts) })
		others.Go(func() { l.moveShardsAtRandom(rand.New(rand.NewPCG(seed, uint64(clientCount+round))), &stop, counts) })
		for _, w := range twins {
			wg.Go(func() {
				for range pipelines {
					if err := w.runPipeline(); err != nil {
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

// createKeyspaces makes the keyspaces: those of clients, of both kinds, one with an index, and one
// that Redis does not have.
func (l *testServer) createKeyspaces() {
	l.t.Helper()
	for name, kind := range map[string]cleave.Kind{"1": cleave.Range, "2": cleave.Hash, "3": cleave.Range, "4": cleave.Hash, "9": cleave.Hash, "order": cleave.Hash} {
		if _, err := l.db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: name, Kind: kind}); err != nil {
			l.t.Fatal(err)
		}
	}
	l.dial().runScript("SELECT 9 -> OK\nCLEAVE.INDEX CREATE letters COLUMNS f -> OK")
}

// fillCache writes more rows than the smallest cache has room for.
func fillCache(c *testConn) {
	for i := range clientCount * 150 {
		c.sendWords("SET", fmt.Sprintf("c%d:%d", i%clientCount, i/clientCount), strings.Repeat("0", 1000))
	}
	c.expectReplies(slices.Repeat([]string{"OK"}, clientCount*150)...)
}

// checkIndex reports whether the index has what Redis has in the hashes of that keyspace.
func (l *testServer) checkIndex(ours, theirs *testConn) {
	l.t.Helper()
	ours.runScript("SELECT 9 -> OK")
	theirs.runScript("SELECT 9 -> OK")
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

func seedOf(t *testing.T) uint64 { return tally.Seed(t, "./internal/server") }

// moveShardsAtRandom splits, merges and moves shards at random, some of them in any case, until
// stop is set.
func (l *testServer) moveShardsAtRandom(rng *rand.Rand, stop *atomic.Bool, counts *tally.Counts) {
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
			cut := cleave.SplitAtSlots(k, rng.IntN(hash.Slots))
			if k.Options().Kind == cleave.Range {
				cut = cleave.SplitAtKeys(k, fmt.Appendf(nil, "c%d:%d", rng.IntN(clientCount), rng.IntN(100)))
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

// relieveShards runs the heat loop as fast as it goes, until stop is set.
func (l *testServer) relieveShards(stop *atomic.Bool, counts *tally.Counts) {
	b, err := balancer.Start(l.s.node, balancer.Options{Manual: true})
	if err != nil {
		l.t.Error(err)
		return
	}
	defer b.Close()
	const maxShardBytes = 100e3 // fewer than some have, so that there is room for moves
	maxShards := l.db.Map().Len() + 30
	if err := relief.Run(ctx, b, l.db.Map, maxShardBytes, maxShards, stop.Load, func(d balancer.ReliefDecision) {
		counts.Add("jobs of the heat loop", 1)
		counts.Add(d.Change+"s of the heat loop", 1)
	}); err != nil {
		l.t.Error(err)
	}
}

// checkReadOrder lets a client write to keys of several groups in one pipeline, and another read
// them one after the other, from the last to the first: none is older than one behind it.
func (l *testServer) checkReadOrder(stop *atomic.Bool, counts *tally.Counts) {
	const keys, depth = 6, 10
	writer, reader := l.dial(), l.dial()
	writer.runScript("SELECT order -> OK")
	reader.runScript("SELECT order -> OK")
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for i := 1; !stop.Load(); i += depth {
			text := ""
			for j := range depth * keys {
				text += fmt.Sprintf("SET o%d %d\r\n", j%keys, i+j/keys)
			}
			writer.sendPipeline(text)
			writer.expectReplies(slices.Repeat([]string{"OK"}, depth*keys)...)
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

// requestTemplates are what a client may say next: requests, with semicolons between. What words in
// angle brackets stand for is drawn: see draws.word.
var requestTemplates = splitList(`
GET <k>|GET <k>|GET <k>|GET <k>|GET <h>|SET <k> <v>|SET <k> <v>|SET <k> <v>|SET <k> <v> NX|SET <k> <v> XX GET|SET <k> <v> KEEPTTL
SET <k> <v> EXAT 4102444800|SET <k> <v> EX 0|SET <k> <v> NO|GETSET <k> <v>|GETDEL <k>|GETEX <k> PERSIST|SETNX <k> <v>|INCR <k>|DECRBY <k> <n>
APPEND <k> <v>|STRLEN <k>|GETRANGE <k> 1 <n>|SETRANGE <k> 3 <v>|MGET <k> <k> <h>|MGET <t> <t>|MSET <k> <v> <k> <v>|MSET <t> <v> <t> <v>
MSETNX <k> <v> <t> <v>|DEL <k>|DEL <k> <k> <h>|EXISTS <k> <k> <k>|EXPIREAT <k> 4102444801|EXPIREAT <h> 1|EXPIRETIME <k>|PERSIST <k>|TYPE <k>|TYPE <h>
RENAME <k> <k>|RENAME <t> <t>|RENAME <h> <h>|COPY <k> <k>|COPY <h> <h> REPLACE|HSET <h> <g> <v> <g> <v>|HSET <h> <f> <n>|HGET <h> <f>
HMGET <h> <f> <f>|HGETALL <h>|HKEYS <h>|HLEN <h>|HDEL <h> <f> <f>|HINCRBY <h> <f> <n>|PING|ECHO <v>|GET|HSET <h> <f>|NOSUCH <k> <v>|SELECT <s>|SELECT <s>
SETNX <w> x; WATCH <w>|WATCH none|UNWATCH|MULTI|MULTI|MULTI; GET <k>; SET <k> <v>; GET <k>; EXEC|MULTI; SET <t> <v>; INCR <t>; HSET <h> f <n>; EXEC; GET <k>
SET <w> <big>; GET <w>; GET <w>; GET <w>; MGET <w> <w>; GET <w>; GET <w>; GET <w>; GET <w>; INCR <t>; GET <w>; DEL <w>
APPEND <l> <v>|APPEND <l> <v>|SETRANGE <l> <o> <v>|SETRANGE <l> <o> <v>|GETRANGE <l> <o> <o>|GETRANGE <l> -20 -1|STRLEN <l>|GET <l>|MGET <l> <k> <l>|SETBIT <l> <b> 1|GETBIT <l> <b>
BITCOUNT <l>|BITPOS <l> 1 <o>|BITFIELD <l> INCRBY u8 <b> 3 GET u16 <b>|GETEX <l> PERSIST|EXPIREAT <l> 4102444801|EXPIRETIME <l>|COPY <l> <l> REPLACE|RENAME <l> <l>|SET <l> <v> GET
GETDEL <l>|DEL <l>|TYPE <l>|INCR <l>|HSET <l> f 1|SETRANGE <l> <o> <v>; GET <l>; APPEND <l> x; STRLEN <l>|MULTI; APPEND <l> <v>; GETRANGE <l> <o> <o>; SETRANGE <l> <o> <n>; GET <l>; EXEC`)

// templatesOutsideMulti are those that are not said in MULTI: there they are executed in the end, or show
// what others have done.
var templatesOutsideMulti = splitList(`INCR shared|INCR shared|SELECT <own>; MSET <many>; FLUSHDB; EXISTS <k>|SELECT <own>; DBSIZE|RESET|EXEC|DISCARD`)

func splitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == '|' || r == '\n' })
}

// requestGenerator draws what one client says. Its keys are its own, but for the one that is shared:
// so its answers do not depend on others.
type requestGenerator struct {
	*rand.Rand
	id      int
	inMulti bool // of MULTI
}

// nextPipeline draws requests that are sent at once.
func (d *requestGenerator) nextPipeline() (requests [][]string) {
	for n := 1 + d.IntN(80); len(requests) < n; {
		saying, key := d.nextTemplate(), d.nextKey("")
		for request := range strings.SplitSeq(saying, ";") {
			var words []string
			for _, w := range strings.Fields(strings.ReplaceAll(request, "<w>", key)) {
				if w == "<many>" {
					words = append(words, d.nextPairs()...)
				} else {
					words = append(words, d.expandWord(w))
				}
			}
			d.inMulti = words[0] == "MULTI" || d.inMulti && !endsMulti(words)
			requests = append(requests, words)
		}
	}
	return requests
}

// endsMulti reports whether a request ends MULTI.
func endsMulti(words []string) bool {
	return slices.Contains([]string{"EXEC", "DISCARD", "RESET"}, words[0])
}

func (d *requestGenerator) nextTemplate() string {
	i := d.IntN(len(requestTemplates) + len(templatesOutsideMulti))
	switch {
	case i < len(requestTemplates) && !(d.inMulti && d.IntN(8) == 0):
		return requestTemplates[i]
	case !d.inMulti:
		return templatesOutsideMulti[i-len(requestTemplates)]
	case d.IntN(6) == 0:
		return "DISCARD"
	}
	return "EXEC"
}

// expandWord draws what a word stands for.
func (d *requestGenerator) expandWord(w string) string {
	switch w {
	case "<k>", "<h>": // keys of strings and of hashes, or so they are meant
		if (w == "<h>") != (d.IntN(15) == 0) {
			return d.nextKey("h")
		}
		return d.nextKey("")
	case "<t>": // keys of one slot
		return fmt.Sprintf("{c%d}%d", d.id, d.IntN(6))
	case "<l>": // keys of strings that grow long
		return fmt.Sprintf("long%d:%d", d.id, d.IntN(3))
	case "<o>": // offsets around those at which a long string is kept in another way
		return strconv.Itoa([]int{8 << 10, 64 << 10, 100_000}[d.IntN(3)] + d.IntN(40) - 20)
	case "<b>":
		return strconv.Itoa(8*(64<<10) + d.IntN(200_000))
	case "<f>":
		return string("fghij"[d.IntN(5)])
	case "<g>": // not f: an index has it, and refuses large ones
		return string("ghij"[d.IntN(4)])
	case "<v>":
		return d.nextValue()
	case "<big>": // at times more than waits for a client that does not read
		if d.IntN(8) == 0 {
			return strings.Repeat("big ", 50_000+d.IntN(30_000))
		}
		return d.nextValue()
	case "<n>":
		return strconv.Itoa(d.IntN(2000) - 1000)
	case "<s>":
		return []string{"0", "9", d.expandWord("<own>")}[d.IntN(3)]
	case "<own>": // the keyspace that no other client uses
		return strconv.Itoa(d.id + 1)
	}
	return w
}

func (d *requestGenerator) nextKey(kind string) string {
	n := 6
	if d.IntN(2) == 0 {
		n = 150 // seldom again: it may be out of memory by then
	}
	return fmt.Sprintf("%sc%d:%d", kind, d.id, d.IntN(n))
}

func (d *requestGenerator) nextValue() string {
	switch d.IntN(80) {
	case 0:
		return strings.Repeat("large ", d.IntN(50_000))
	case 1, 2, 3, 4, 5, 6, 7, 8:
		return strings.Repeat("x", d.IntN(2000))
	}
	return strconv.Itoa(d.IntN(1_000_000))
}

// nextPairs draws keys with values, at times more than are flushed one by one.
func (d *requestGenerator) nextPairs() (words []string) {
	n := 3
	if d.IntN(40) == 0 {
		n = maxClearedKeys + 50
	}
	for i := range n {
		words = append(words, fmt.Sprintf("c%d:%d", d.id, i), "m")
	}
	return words
}

// rawReply is a reply as it was sent, but for the replies in it.
type rawReply struct {
	text  string
	parts []rawReply
}

func (a rawReply) String() string {
	for _, p := range a.parts {
		a.text += p.String()
	}
	return a.text
}

func readRawReply(in *bufio.Reader) (a rawReply, err error) {
	if a.text, err = in.ReadString('\n'); err != nil {
		return a, err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(a.text[1:]))
	switch {
	case (a.text[0] == '$' || a.text[0] == '=') && n >= 0:
		rest := make([]byte, n+2)
		_, err = io.ReadFull(in, rest)
		a.text += string(rest)
	case a.text[0] == '%':
		n *= 2
		fallthrough
	case a.text[0] == '*', a.text[0] == '~', a.text[0] == '>':
		for i := 0; i < n && err == nil; i++ {
			var p rawReply
			p, err = readRawReply(in)
			a.parts = append(a.parts, p)
		}
	}
	return a, err
}

// normalize is an answer without what may differ: in which order a hash has its fields, and
// how often others have counted. Those of EXEC are answers to what was queued.
func (a rawReply) normalize(words []string, queued [][]string) string {
	width := 1
	switch {
	case words[0] == "INCR" && words[1] == "shared" && a.text[0] == ':':
		return "a number"
	case words[0] == "EXEC" && len(a.parts) == len(queued):
		for i, p := range a.parts {
			a.text += p.normalize(queued[i], nil)
		}
		return a.text
	case words[0] == "HGETALL":
		width = 2
	case words[0] != "HKEYS":
		return a.String()
	}
	rows := slices.Collect(slices.Chunk(a.parts, width))
	slices.SortFunc(rows, func(x, y []rawReply) int { return cmp.Compare(x[0].text, y[0].text) })
	return rawReply{a.text, slices.Concat(rows...)}.String()
}

// twinClient is a client of two servers, ours and Redis, that says the same to both.
type twinClient struct {
	requestGenerator
	ours, theirs *testConn
	queued       [][]string // in MULTI
}

// runPipeline sends a pipeline to both servers, and reports where the answers differ.
func (w *twinClient) runPipeline() error {
	requests := w.nextPipeline()
	theirs, err := exchangePipeline(w.theirs, requests, 0, false)
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	ours, err := exchangePipeline(w.ours, requests, w.IntN(500), w.IntN(8) == 0)
	said := ""
	for i, words := range requests {
		said += fmt.Sprintf("%4d  %.150s\n", i, strings.Join(words, " "))
		if i == len(ours) {
			return fmt.Errorf("client %d, answer %d: %w, after\n%s", w.id, i, err, said)
		}
		if got, want := ours[i].normalize(words, w.queued), theirs[i].normalize(words, w.queued); got != want {
			return fmt.Errorf("client %d, answer %d: %.200q, and that of Redis is %.200q, after\n%s", w.id, i, got, want, said)
		}
		if theirs[i].text == "+QUEUED\r\n" {
			w.queued = append(w.queued, words)
		} else if endsMulti(words) {
			w.queued = nil
		}
	}
	return err
}

// exchangePipeline sends requests at once, in two pieces, and reads the answers meanwhile.
func exchangePipeline(c *testConn, requests [][]string, cut int, slowly bool) (answers []rawReply, err error) {
	var text []byte
	for _, words := range requests {
		text = append(text, encodeRequest(words...)...)
	}
	cut = min(cut, len(text))
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	sent := make(chan error, 1)
	go func() {
		_, first := c.Write(text[:cut])
		_, second := c.Write(text[cut:])
		sent <- errors.Join(first, second)
	}()
	for range requests {
		if slowly {
			time.Sleep(100 * time.Microsecond)
		}
		a, err := readRawReply(c.in)
		if err != nil {
			return answers, err
		}
		answers = append(answers, a)
	}
	return answers, <-sent
}

// dialRedis starts a Redis server, and returns what makes connections to it.
func dialRedis(t *testing.T) func() *testConn {
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	cmd := exec.Command("redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", dir)
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: make deps installs it", err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	waitUntil(t, "a Redis server that listens", func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return func() *testConn {
		c, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return &testConn{t, c, bufio.NewReader(c)}
	}
}
