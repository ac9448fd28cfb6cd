package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/server/conn"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/server/stats"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// Requests on rows that only the disk has are answered in their order, whatever else the
// pipeline asks for.
func TestPipelinesOnRowsThatAreNotInMemory(t *testing.T) {
	const clients, keys = 4, 60
	for _, sh := range shapes {
		t.Run(sh.name, func(t *testing.T) {
			l := startCold(t, sh, clients*keys, "n", "read")
			var wg sync.WaitGroup
			for n := range clients {
				c := l.dial()
				wg.Go(func() { coldPipeline(c, n*keys, keys) })
			}
			wg.Wait()
		})
	}
}

// startCold starts a server whose keys, so many of each kind, are not in memory: the value of
// kind7 is 7.
func startCold(t *testing.T, sh serverShape, n int, kinds ...string) *testServer {
	t.Helper()
	return startColdOn(t, sh, func(set func(key, value string)) {
		for i := range n {
			for _, kind := range kinds {
				set(fmt.Sprint(kind, i), fmt.Sprint(i))
			}
		}
	})
}

// startColdOn starts a server whose keys are those of fill, and not in memory.
func startColdOn(t *testing.T, sh serverShape, fill func(set func(key, value string))) *testServer {
	t.Helper()
	dir := t.TempDir()
	options := sh.options()
	options.Durability, options.CacheBytes = cleave.EverySec, 1<<20 // large rows are not kept
	db := openDB(t, dir, options)
	fill(func(key, value string) {
		if err := db.Default().Set(ctx, []byte(key), []byte(value)); err != nil {
			t.Fatal(err)
		}
	})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return startOn(t, openDB(t, dir, options), sh, Options{})
}

// manualClient is a client whose rounds a test makes.
type manualClient struct {
	c       *client
	resumed chan *manualClient
}

func newManualClient(t *testing.T, l *testServer) *manualClient {
	h := &manualClient{resumed: make(chan *manualClient, 1)}
	h.c, _ = l.s.newClient(h, "127.0.0.1:1", "127.0.0.1:2")
	t.Cleanup(func() { l.s.removeClient(h.c) })
	return h
}

// waitIdle waits until the client is not busy.
func (h *manualClient) waitIdle() {
	if h.c.Busy {
		<-h.resumed
		h.c.Busy = false
	}
}

// finishBacklog makes rounds of a worker until all is done for the client.
func (h *manualClient) finishBacklog(w *worker) {
	for first := true; first || h.c.Busy; first = false {
		h.waitIdle()
		w.takeRequests(h.c, nil)
		w.commit()
	}
}

// remainingTasks is what is not done.
func (h *manualClient) remainingTasks() []task {
	if h.c.backlog == nil {
		return nil
	}
	return h.c.backlog.remaining()
}

func (h *manualClient) NotifyOutput() {}
func (h *manualClient) SendOutput()   {}
func (h *manualClient) Resume()       { h.resumed <- h }
func (h *manualClient) NotifyMail()   {}
func (h *manualClient) Close()        {}

// More clients in a round than there is room for are all answered, in their order, with what
// is said in between.
func TestManyClientsReadRowsThatAreNotInMemory(t *testing.T) {
	const clients, keys = 60, 20
	for _, sh := range shapes[:3] { // a worker by hand is neither a loop nor a stream
		t.Run(sh.name, func(t *testing.T) {
			l := startCold(t, sh, clients*keys, "k")
			w := newWorker(l.s, rowKeyBytes)
			back := make(chan *manualClient, clients)
			want := map[*client]string{}
			for n := range clients { // all in one round
				h := &manualClient{resumed: back}
				h.c, _ = l.s.newClient(h, "127.0.0.1:1", "127.0.0.1:2")
				var text string
				text, want[h.c] = expectedReads(n*keys, keys, n == clients-1)
				h.c.In = w.takeRequests(h.c, []byte(text))
			}
			w.commit()
			for answered := 0; answered < clients; w.commit() {
				for wait := true; ; wait = false {
					h := nextIdle(back, wait)
					if h == nil {
						break // the next round
					}
					h.c.Busy = false
					if h.c.In = w.takeRequests(h.c, h.c.In); len(h.c.In) > 0 || h.c.Busy {
						continue
					}
					if got := string(h.c.Out.Bytes); got != want[h.c] {
						t.Errorf("answered was %q, want %q", got, want[h.c])
					}
					answered++
					l.s.removeClient(h.c)
				}
			}
		})
	}
}

// A group waits for no disk: what changes a row is given to it when the row is in memory.
func TestAGroupGetsWhatItKnowsTheRowsOf(t *testing.T) {
	l := startCold(t, shapes[1], 1, "k")
	w := newWorker(l.s, rowKeyBytes)
	h := newManualClient(t, l)
	w.takeRequests(h.c, []byte("INCR k0\r\n"))
	if len(w.staged) > 0 || !h.c.Busy {
		t.Fatalf("%d requests are staged, of a row that is not in memory", len(w.staged))
	}
	w.commit()
	h.waitIdle()
	w.takeRequests(h.c, nil)
	at := w.locateKey(h.c, []byte("k0"))
	row, part := at.row, at.groupHost
	if _, known := part.Group.LookupSize(row); len(w.staged) != 1 || !known {
		t.Errorf("%d requests are staged when their rows were fetched", len(w.staged))
	}
	w.commit()
	if got := string(h.c.Out.Bytes); got != ":1\r\n" {
		t.Errorf("answered was %q", got)
	}
}

// So it is with several keys.
func TestAGroupGetsSeveralKeysWhenItKnowsTheirRows(t *testing.T) {
	l := startCold(t, shapes[0], 3, "k")
	w := newWorker(l.s, rowKeyBytes)
	h := newManualClient(t, l)
	const ask, want = "MGET k0 k1\r\n", "*2\r\n$1\r\n0\r\n$1\r\n1\r\n"
	w.takeRequests(h.c, []byte(ask))
	if len(w.staged) > 0 || !h.c.Busy {
		t.Fatalf("%d requests are staged, of rows that are not in memory", len(w.staged))
	}
	w.commit()
	h.waitIdle()
	w.takeRequests(h.c, []byte(ask+"MSET k2 7 new 8\r\n")) // what is set is not looked at
	if len(w.staged) != 2 {
		t.Errorf("%d requests are staged, of rows that are", len(w.staged))
	}
	w.commit()
	if got := string(h.c.Out.Bytes); got != want+want+"+OK\r\n" {
		t.Errorf("answered was %q", got)
	}
}

// A client gets more answers when it has read those that it has, whether their rows were in
// memory or not.
func TestFewAnswersWaitToBeRead(t *testing.T) {
	const n, size = 100, 100 << 10
	value := strings.Repeat("x", size)
	reads := strings.Repeat("GET large\r\n", n)
	for _, c := range []struct {
		name, ask string
		answers   int
	}{
		{"reads", reads, n},
		{"reads behind a write", "INCR n\r\n" + reads, n + 1},
		{"reads before a wrong key", reads + "GET " + strings.Repeat("k", command.MaxKeyBytes+1) + "\r\n" + reads + "INCR n\r\n", 2*n + 2},
		{"reads and writes", strings.Repeat("GET large\r\nINCR n\r\n", n), 2 * n},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := startColdOn(t, shapes[1], func(set func(key, value string)) { set("large", value) })
			w := newWorker(l.s, rowKeyBytes)
			h := newManualClient(t, l)
			most, answers := 0, 0
			h.c.In = []byte(c.ask)
			for answers < c.answers {
				h.c.In = w.takeRequests(h.c, h.c.In)
				w.commit()
				h.waitIdle()
				for _, a := range h.remainingTasks() {
					if a.readRow != nil {
						t.Fatal("what was read on a trip is kept beyond its end")
					}
				}
				most = max(most, len(h.c.Out.Bytes))
				answers += strings.Count(string(h.c.Out.Bytes), value) + strings.Count(string(h.c.Out.Bytes), ":")
				h.c.Out.Bytes = nil // it has read them
			}
			if most > 3*conn.MaxUnreadBytes {
				t.Errorf("%d bytes wait to be read", most)
			}
		})
	}
}

// It gets all of them in the end, in their order.
func TestLargeAnswersThatWaitAreAllRead(t *testing.T) {
	const n, size = 100, 100 << 10
	value := strings.Repeat("x", size)
	var asks string
	var want []string
	for i := range 2 * n {
		asks, want = asks+"GET large\r\n", append(want, value)
		switch i {
		case n / 2:
			asks, want = asks+"INCR n\r\n", append(want, "(1)")
		case n:
			asks, want = asks+"GET "+strings.Repeat("k", command.MaxKeyBytes+1)+"\r\nINCR n\r\n", append(want, "-ERR too large: key of 16385 bytes, at most 16384: split it up", "(2)")
		}
	}
	for _, sh := range shapes {
		t.Run(sh.name, func(t *testing.T) {
			l := startColdOn(t, sh, func(set func(key, value string)) { set("large", value) })
			c := l.dial()
			go c.sendPipeline(asks)
			for i, w := range want {
				if got := c.readReply(); got != w {
					t.Fatalf("answer %d is %.80q, want %.80q", i, got, w)
				}
			}
		})
	}
}

// One client with many requests does not share a read with others, and all are read in the order in which they came.
func TestColdReader_SharesAreOfAFewRequestsOrOneClient(t *testing.T) {
	r := coldReader{s: startServer(t, shapes[0], Options{}).s, readers: maxColdReaders} // others read
	for _, n := range []int{1, 30, 40, 3000, 2, 64, 5} {
		r.enqueue([]*client{{backlog: &backlog{tasks: make([]task, n)}}})
	}
	var got []int
	for share := r.takeShare(); share != nil; share = r.takeShare() {
		got = append(got, countTasks(share))
	}
	if want := []int{31, 40, 3000, 2, 64, 5}; !slices.Equal(got, want) {
		t.Errorf("the shares have %d requests, want %d", got, want)
	}
}

// What is not of the protocol ends a client, behind answers that wait for the disk. The race
// detector looks on.
func TestNonsenseBehindAReadOfTheDisk(t *testing.T) {
	l := startColdOn(t, shapes[0], func(set func(key, value string)) {
		for i := range 30 {
			set(fmt.Sprint("k", i), strings.Repeat("x", 100_000))
		}
	})
	if err := l.s.Configure(map[string]string{"client-output-buffer-limit": "normal 50000 0 0"}); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		c := l.dial()
		c.sendPipeline(fmt.Sprintf("GET k%d\r\n*1\r\n$x\r\n", i))
		if got, err := io.ReadAll(c); err != nil && !errors.Is(err, syscall.ECONNRESET) || strings.Contains(string(got), "xx-ERR") {
			t.Errorf("answered was %.20q … %q, %v", got, got[max(0, len(got)-40):], err)
		}
	}
}

// nextIdle returns a client that is not busy any more, if there is one or it may wait for one.
func nextIdle(back <-chan *manualClient, wait bool) *manualClient {
	if wait {
		return <-back
	}
	select {
	case h := <-back:
		return h
	default:
		return nil
	}
}

// expectedReads are reads of keys, and the answers to them. One that is wrong may be among them.
func expectedReads(from, n int, wrong bool) (requests, answers string) {
	long := strings.Repeat("k", command.MaxKeyBytes+1)
	for i := from; i < from+n; i++ {
		key, value := fmt.Sprint("k", i), fmt.Sprint(i)
		requests += fmt.Sprintf("*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", len(key), key)
		answers += fmt.Sprintf("$%d\r\n%s\r\n", len(value), value)
		if wrong && i == from+n/2 {
			requests += fmt.Sprintf("*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", len(long), long)
			answers += fmt.Sprintf("-ERR too large: key of %d bytes, at most %d: split it up\r\n", len(long), command.MaxKeyBytes)
		}
	}
	return requests, answers
}

// What has waited for the disk, or is held up, is noted once, with all the time and the place.
func TestRequestsThatWaitBeforeTheirTurnAreNoted(t *testing.T) {
	l := startCold(t, shapes[1], 200, "k")
	if err := l.s.Configure(map[string]string{"slowlog-log-slower-than": "0"}); err != nil {
		t.Fatal(err)
	}
	c := l.dial()
	c.runScript("GET k0 -> 0\nGET k0 -> 0") // the second is in memory
	want := []string{"get k0"}
	var reads string
	for i := 1; i <= maxInlineRows+1; i++ { // too many for the worker: a goroutine reads them
		reads += fmt.Sprintf("GET k%d\r\n", i)
		if i <= stats.MaxSlowlogPerBatch || i > maxBatchTasks {
			want = append(want, fmt.Sprintf("get k%d", i))
		}
	}
	c.sendPipeline(reads)
	for range maxInlineRows + 1 {
		c.readReply()
	}
	const wait = 30 * time.Millisecond
	delayWriters(t, l.s, wait)
	c.runScript("INCR k100 -> (101)")
	want = append(want, "incr k100")
	entries := l.s.Slowlog() // the newest first
	if took := entries[0].Seconds; took < wait.Seconds() {
		t.Errorf("what was held up for %v took %v s", wait, took)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Command+" "+e.Keys[0].String())
		if e.Seconds <= 0 || e.Shard == 0 {
			t.Errorf("%s took %v s in shard %d", e.Command, e.Seconds, e.Shard)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("noted are %q, want %q", got, want)
	}
}

// coldPipeline sends all of its requests before it reads an answer.
func coldPipeline(c *testConn, from, n int) {
	var want []string
	add := func(reply, format string, args ...any) {
		c.send(fmt.Sprintf(format, args...))
		want = append(want, reply)
	}
	for i := from; i < from+n; i++ { // the disk is asked for all of them together
		add(fmt.Sprint(i), "GET read%d", i)
		add("(nil)", "GET absent%d", i)
	}
	for i := from; i < from+n; i++ {
		add(fmt.Sprint(i), "GET n%d", i)
		add(fmt.Sprintf("(%d)", i+1), "INCR n%d", i)
		add(fmt.Sprint(i+1), "GET n%d", i)
		add("(0)", "SETNX n%d x", i)
		add("(1)", "SETNX new%d %d", i, i)
		add("-ERR wrong number of arguments for 'get' command", "GET")
		add(fmt.Sprintf("[%d %d (nil)]", i+1, i), "MGET n%d new%d none%d", i, i, i)
		add("-ERR value is not an integer or out of range", "INCRBY n%d much", i)
		add("(nil)", "GET none%d", i)
		add("PONG", "PING")
		add("(1)", "DEL n%d", i)
		add("(nil)", "GETDEL n%d", i)
	}
	for i, w := range want {
		if got := c.readReply(); got != w {
			c.t.Errorf("answer %d: %s, want %s", i, got, w)
			return
		}
	}
}

// startLarge starts a server with a key that is large, and another that is 1.
func startLarge(t *testing.T, sh serverShape, size int, other string) *testServer {
	t.Helper()
	return startColdOn(t, sh, func(set func(key, value string)) {
		set("large", strings.Repeat("x", size))
		set(other, "1")
	})
}

// becomeUser makes the client one of a new user with all permissions.
func (h *manualClient) becomeUser(t *testing.T, l *testServer, name string) {
	t.Helper()
	l.dial().runScript("ACL SETUSER " + name + " on >p +@all ~* -> OK")
	user, err := l.s.users.Authenticate(name, []byte("p"))
	if err != nil {
		t.Fatal(err)
	}
	h.c.setAccount(user)
}

// So it is with whatever is done later.
func TestWhatIsDoneLaterMustStillBeAllowed(t *testing.T) {
	l := startServer(t, shapes[0], Options{})
	admin, h := l.dial(), newManualClient(t, l)
	admin.runScript("SET k 1 -> OK")
	h.becomeUser(t, l, "u")
	allowed := h.c.account.User()
	later := func() string {
		get := newGetRequest([]byte("k"))
		tasks := []task{
			{request: get, exclusive: true},
			{unit: &unit{c: h.c, items: []unitRequest{{get, h.c.keyspace}}}},
			{request: get, run: func(context.Context) { h.c.WriteReply(nil, func(out *redis.Writer) { out.OK() }) }},
			{run: func(context.Context) { h.c.WriteReply(nil, func(out *redis.Writer) { out.Null() }) }},
		}
		for i := range tasks {
			tasks[i].keyspace, tasks[i].user = h.c.keyspace, allowed
		}
		h.c.backlog, h.c.Out.Bytes = &backlog{tasks: tasks}, nil
		l.s.runBacklog(ctx, h.c)
		return string(h.c.Out.Bytes)
	}
	if got := later(); got != "$1\r\n1\r\n$1\r\n1\r\n+OK\r\n$-1\r\n" {
		t.Errorf("answered was %q", got)
	}
	admin.runScript("ACL SETUSER u -get -> OK")
	if got := later(); strings.Count(got, "-NOPERM") != 3 || !strings.HasSuffix(got, "\r\n$-1\r\n") {
		t.Errorf("what may not be done is answered %q", got)
	}
}

// What waits until answers are read is not done for a user that may not do it any more.
func TestWhatWasAllowedIsNotDoneWhenItIsNoLonger(t *testing.T) {
	const n, size = 100, 200_000
	for _, sh := range shapes {
		t.Run(sh.name, func(t *testing.T) {
			t.Parallel()
			l := startLarge(t, sh, size, "secret")
			admin, user := l.dial(), l.dial()
			admin.runScript("ACL SETUSER u on >p +@all ~* -> OK")
			user.runScript("AUTH u p -> OK")
			user.sendPipeline(strings.Repeat("GET large\r\n", n) + "SET victim 1\r\nGET secret\r\n")
			if got := user.readReply(); len(got) != size {
				t.Fatalf("answered was %.20q", got)
			}
			admin.runScript("ACL SETUSER u -set -get -> OK\nSET secret new -> OK")
			var last string
			for range n + 1 {
				last = user.readReply()
			}
			if !strings.HasPrefix(last, "-NOPERM") {
				t.Errorf("a GET after its permission was taken away: %.20q", last)
			}
			admin.runScript("GET victim -> (nil)")
		})
	}
}

// A client that does not read gets behind each answer what has changed since.
func TestAClientThatDoesNotReadHearsOfAllChanges(t *testing.T) {
	const n, size = 100, 200_000
	for _, sh := range shapes {
		t.Run(sh.name, func(t *testing.T) {
			t.Parallel()
			l := startLarge(t, sh, size, "k")
			listener, reader, writer := l.dial(), l.dial(), l.dial()
			id := strings.Trim(listener.ask("CLIENT ID"), "()")
			listener.runScript("SUBSCRIBE __redis__:invalidate -> [subscribe __redis__:invalidate (1)]")
			reader.runScript("CLIENT TRACKING ON REDIRECT " + id + " -> OK")
			reader.sendPipeline(strings.Repeat("GET large\r\n", n) + "GET k\r\n")
			reader.readReply()
			writer.runScript("SET k 2 -> OK")
			for range n - 1 {
				reader.readReply()
			}
			if got := reader.readReply(); got == "2" {
				listener.readReply() // of 2: it comes before the answer
				writer.runScript("SET k 3 -> OK")
			}
			if got := listener.readReply(); !strings.Contains(got, "[k]") {
				t.Errorf("it hears %s", got)
			}
		})
	}
}

// What waits is done in a keyspace that was emptied meanwhile, and so is what comes behind it.
func TestAPipelineGoesOnInAnEmptiedKeyspace(t *testing.T) {
	for _, sh := range shapes {
		t.Run(sh.name, func(t *testing.T) {
			t.Parallel()
			l := startCold(t, sh, maxClearedKeys+1, "k")
			c, other := l.dial(), l.dial()
			c.runScript("INCR k7 -> (8)\nINCR k8 -> (9)\nGET k9 -> 9\nHGET h f -> (nil)")
			other.runScript("FLUSHALL -> OK")
			_ = c.SetDeadline(time.Now().Add(eventually.Limit()))
			c.sendPipeline("INCR k7\r\nINCR k8\r\nAPPEND k9 x\r\nHSET h f 1\r\nGET k10\r\n")
			c.expectReplies("(1)", "(1)", "(1)", "(1)", "(nil)")
		})
	}
}

// Of what a client sends at once not more is taken than is brought into memory together, and that is
// counted among its buffers.
func TestWhatIsLeftToDoIsBounded(t *testing.T) {
	const n = 5000
	l, disk := startStalling(t, 10, 8<<20)
	disk.becomeSlow(t, l)
	w, h := newWorker(l.s, rowKeyBytes), newManualClient(t, l)
	h.c.In = []byte(strings.Repeat("STRLEN k1\r\n", n))
	for len(h.c.In) > 0 || h.c.Busy {
		h.waitIdle()
		had := len(h.remainingTasks())
		h.c.In = w.takeRequests(h.c, h.c.In)
		if left := len(h.remainingTasks()); left > max(had, maxBacklogTasks) {
			t.Fatalf("%d requests are left to do at once", left)
		}
		w.commit()
	}
	if got := strings.Count(string(h.c.Out.Bytes), ":300\r\n"); got != n {
		t.Errorf("%d of %d requests are answered", got, n)
	}
	much := strings.Repeat("x", 60_000)
	for _, asks := range [][]byte{
		slices.Concat(encodeRequest("APPEND", "k2", much), encodeRequest("APPEND", "k3", much)),
		encodeRequest("MSETNX", "k4", much, "k5", much),
		encodeRequest(append([]string{"WATCH", "k6"}, slices.Repeat([]string{much[:12_000]}, 10)...)...),
	} {
		h, before := newManualClient(t, l), l.s.clients.UsedBytes.Load()
		free := disk.stallReads(t)
		w.takeRequests(h.c, asks)
		w.commit()
		if counted := l.s.clients.UsedBytes.Load() - before; counted < 120_000 {
			t.Errorf("%d bytes are counted for what is left to do of %.20q", counted, asks)
		}
		free()
		h.finishBacklog(w)
	}
}

// What is answered is sent, though more is left to do.
func TestTheFirstOfManyAnswersDoesNotWaitForTheLast(t *testing.T) {
	const n = 300
	l, disk := startStalling(t, 6000, 128<<10)
	c := l.dial()
	disk.becomeSlow(t, l)
	disk.pause.Store(int64(2 * time.Millisecond))
	began := time.Now()
	for i := range n {
		c.send(fmt.Sprint("STRLEN k", 17*i))
	}
	c.readReply()
	first := time.Since(began)
	for range n - 1 {
		c.readReply()
	}
	if last := time.Since(began); first > last/2 {
		t.Errorf("the first answer came after %v, the last after %v", first, last)
	}
}

// blockingCommand is a command that keeps its group.
type blockingCommand struct{ begun, end chan struct{} }

func (h *blockingCommand) Eval(*command.Env) command.Reply {
	close(h.begun)
	<-h.end
	return command.Reply{Kind: command.OK}
}

// A request that is in the queue of a group when the server ends is executed as it was sent, although
// no client waits for it.
func TestMemoryOfWhatIsUnderWayIsNotUsedAgain(t *testing.T) {
	const mine = "mineminemine"
	for range 10 {
		l := startLarge(t, shapes[0], 600_000, "other") // it is not kept in memory
		w, h := newWorker(l.s, rowKeyBytes), newManualClient(t, l)
		part := l.s.node.GroupHostAt(l.s.defaultKeyspace().AppendPosition(nil, []byte("large")))
		w.takeRequests(h.c, []byte("APPEND large "+mine+"\r\n"))
		w.commit()
		h.waitIdle()
		block := &blockingCommand{make(chan struct{}), make(chan struct{})}
		go func() { _, _ = part.Group.Execute(ctx, group.Request{Command: block}) }()
		<-block.begun
		w.takeRequests(h.c, nil)
		w.commit() // it is executed by itself
		for began := time.Now(); part.Group.Metrics().QueueDepth == 0 && time.Since(began) < eventually.Limit(); {
			time.Sleep(time.Millisecond)
		}
		l.s.cancel()
		h.waitIdle()
		var others sync.WaitGroup
		for range 32 { // on all processors: each has some of what is used again
			others.Go(func() {
				b := backlogPool.Get().(*backlog)
				b.add(h.c, redis.Request{Spec: setSpec, Args: [][]byte{[]byte("SET"), []byte("other"), []byte("of another")}}, nil)
				for began := time.Now(); time.Since(began) < 100*time.Microsecond; {
				}
			})
		}
		others.Wait()
		close(block.end)
		if _, err := part.Group.Execute(ctx, group.Request{Command: &command.Exists{}}); err != nil { // behind it
			t.Fatal(err)
		}
		v, err := l.db.Default().Get(ctx, []byte("large"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(string(v), "x"+mine) {
			t.Fatalf("the value ends with %q", v[len(v)-30:])
		}
	}
}

// A read that is executed by itself does not need a turn of its group, however much there is to read.
func TestAReadByItselfTakesNoTurn(t *testing.T) {
	l, disk := startStalling(t, 10, 8<<20)
	disk.becomeSlow(t, l)
	h := newManualClient(t, l)
	part := l.s.node.GroupHostAt(l.s.defaultKeyspace().AppendPosition(nil, []byte("hash0")))
	block := &blockingCommand{make(chan struct{}), make(chan struct{})}
	var held sync.WaitGroup
	held.Go(func() { _, _ = part.Group.Execute(ctx, group.Request{Command: block}) })
	<-block.begun
	late := time.AfterFunc(eventually.Limit(), func() {
		t.Error("a read by itself waits for its turn")
		close(block.end)
	})
	l.s.runExclusive(ctx, h.c, &task{request: redis.Request{Spec: redis.SpecByName("hgetall"), Args: [][]byte{[]byte("HGETALL"), []byte("hash0")}}, keyspace: h.c.keyspace})
	if late.Stop() {
		close(block.end)
	}
	held.Wait()
	if got := string(h.c.Out.Bytes); !strings.HasPrefix(got, "*4\r\n") {
		t.Errorf("answered was %q", got)
	}
}

// What a user may do no more when what was asked for before it is committed is refused, however it is done.
func TestWhatIsForbiddenWhileOthersAreCommittedIsRefused(t *testing.T) {
	for _, asks := range []string{"SET known 1\r\nMGET k1 k2\r\n", "SET known 1\r\nWATCH k1\r\n"} {
		t.Run(asks, func(t *testing.T) {
			l, _ := startStalling(t, 10, 8<<20)
			w, h := newWorker(l.s, rowKeyBytes), newManualClient(t, l)
			h.becomeUser(t, l, "u")
			w.takeRequests(h.c, []byte("SET known 0\r\n"))
			w.commit()
			h.finishBacklog(w)
			part := l.s.node.GroupHostAt(l.s.defaultKeyspace().AppendPosition(nil, []byte("known")))
			block := &blockingCommand{make(chan struct{}), make(chan struct{})}
			var busy sync.WaitGroup
			busy.Go(func() { _, _ = part.Group.Execute(ctx, group.Request{Command: block}) })
			<-block.begun
			busy.Go(func() { w.takeRequests(h.c, []byte(asks)) })
			for began := time.Now(); part.Group.Metrics().QueueDepth == 0 && time.Since(began) < eventually.Limit(); {
				time.Sleep(time.Millisecond)
			}
			if err := l.s.users.Set("u", "resetkeys", "~known"); err != nil {
				t.Fatal(err)
			}
			close(block.end)
			busy.Wait()
			w.commit()
			h.finishBacklog(w)
			if got := string(h.c.Out.Bytes); !strings.HasPrefix(got, "+OK\r\n+OK\r\n-NOPERM") {
				t.Errorf("answered was %q", got)
			}
		})
	}
}

// A read is of the user that was asked when it came, though the next one of the pipeline is of another.
func TestAReadThatWaitsIsOfTheUserThatWasAsked(t *testing.T) {
	l, _ := startStalling(t, 10, 8<<20)
	w, h := newWorker(l.s, rowKeyBytes), newManualClient(t, l)
	h.becomeUser(t, l, "u")
	w.dispatch(h.c, getSpec, [][]byte{[]byte("GET"), []byte("k1")}, nil)
	if err := l.s.users.Set("u", "resetkeys", "~k2"); err != nil {
		t.Fatal(err)
	}
	w.dispatch(h.c, getSpec, [][]byte{[]byte("GET"), []byte("k2")}, nil)
	w.commit()
	h.finishBacklog(w)
	if got := string(h.c.Out.Bytes); !strings.HasPrefix(got, "-NOPERM") || !strings.Contains(got, "$300\r\n777") {
		t.Errorf("answered was %.100q", got)
	}
}
