package server

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
	"github.com/cleavekv/cleave/internal/testkit/smallstore"
	"github.com/cleavekv/cleave/internal/testkit/tally"
	"github.com/cleavekv/cleave/partition"
)

// stallingDisk is a disk that answers no read of rows while it is stuck.
type stallingDisk struct {
	vfs.FS
	mu    sync.RWMutex // held to make it stuck
	reads atomic.Int64 // that were begun
	now   atomic.Int64 // that are not answered
	fails atomic.Bool
	pause atomic.Int64 // how long a read takes
}

func (d *stallingDisk) String() string { return "stuck" }

// MaybeError implements errorfs.Injector.
func (d *stallingDisk) MaybeError(op errorfs.Op) error {
	if op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") {
		d.reads.Add(1)
		d.now.Add(1)
		d.mu.RLock() // until it is not stuck
		d.now.Add(-1)
		d.mu.RUnlock()
		time.Sleep(time.Duration(d.pause.Load()))
		if d.fails.Load() {
			return errorfs.ErrInjected
		}
	}
	return nil
}

// stallReads makes the disk stuck. It ends by itself after a while: a test that waits for the disk
// fails then, instead of waiting for ever.
func (d *stallingDisk) stallReads(t *testing.T) (free func()) {
	d.mu.Lock()
	unlock := sync.OnceFunc(d.mu.Unlock)
	late := time.AfterFunc(eventually.Limit(), func() {
		t.Error("somebody waits for the disk")
		unlock()
	})
	return func() {
		late.Stop()
		unlock()
	}
}

// becomeSlow shows that the disk is slow.
func (d *stallingDisk) becomeSlow(t *testing.T, l *testServer) {
	waitUntil(t, "a slow read before is forgotten", l.s.isStorageFast) // else a goroutine reads, whose time does not count
	free := d.stallReads(t)
	go func() {
		d.awaitReads(1)
		time.AfterFunc(100*time.Millisecond, free)
	}()
	l.dial().ask("GET k0")
	if l.s.isStorageFast() {
		t.Error("a disk that was stuck is near")
	}
}

// awaitReads waits until the disk is asked for so many blocks.
func (d *stallingDisk) awaitReads(blocks int64) bool {
	return eventually.Within(eventually.Limit()/2, func() bool { return d.now.Load() >= blocks }) // before the disk is freed
}

// hashCount is how many there are on a disk that may be stuck.
const hashCount = 10

// startStalling starts a server of one group whose keys are on such a disk.
func startStalling(t *testing.T, keys int, blockCache int64) (*testServer, *stallingDisk) {
	t.Helper()
	return startStallingShape(t, shapes[0], keys, blockCache)
}

// startStallingShape starts a server whose keys, k0 and so on, are not in memory but on
// such a disk, and so are hash0 and so on, each with two fields, with so many bytes of its blocks in memory.
func startStallingShape(t *testing.T, sh serverShape, keys int, blockCache int64) (*testServer, *stallingDisk) {
	t.Helper()
	return startStallingRows(t, sh, keys, 300, blockCache)
}

// startStallingRows does so with rows of a size.
func startStallingRows(t *testing.T, sh serverShape, keys, size int, blockCache int64) (*testServer, *stallingDisk) {
	t.Helper()
	disk := new(stallingDisk)
	disk.FS = errorfs.Wrap(vfs.NewMem(), disk)
	o := sh.options()
	o.Durability = cleave.Never
	o.BlockCacheBytes = blockCache
	o.HeatOff = true // nobody measures shards on that disk
	reopen := func() *cleave.DB {
		db, err := smallstore.Open("disk", o, disk.FS)
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := reopen()
	var b cleave.Batch
	for i := range keys {
		b.Set(db.Default(), fmt.Appendf(nil, "k%d", i), []byte(strings.Repeat("7", size)))
	}
	for i := range hashCount {
		b.HSet(db.Default(), fmt.Appendf(nil, "hash%d", i), cleave.Field{Name: []byte("field"), Value: []byte("1")},
			cleave.Field{Name: []byte("a"), Value: make([]byte, 16<<10)}) // so that the other is not in the block of the hash
	}
	if err := db.Write(ctx, &b); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return startOn(t, reopen(), sh, Options{}), disk
}

// A worker waits for no disk, whatever it is asked for: it would hold up all its clients.
func TestAWorkerWaitsForNoDisk(t *testing.T) {
	l, disk := startStalling(t, 2000, 8<<20)
	w := newWorker(l.s, rowKeyBytes)
	known := newManualClient(t, l)
	w.takeRequests(known.c, []byte("SET known 1\r\n"))
	w.commit()
	known.finishBacklog(w)
	asks := []string{
		"STRLEN k%d\r\n", "INCR k%d\r\n", "SETNX k%d 1\r\n", "MGET k%d k0\r\n", "EXISTS k%d k0\r\n",
		"DEL k%d none\r\n", "MSETNX none 1 k%d 1\r\n", "RENAME k%d other\r\n", "COPY k%d another\r\n",
		"MULTI\r\nINCR known\r\nINCR k%d\r\nEXEC\r\n", "WATCH k%d\r\n", "HGETALL k%d\r\n", "TTL k%d\r\n",
		strings.Repeat("GET k%d\r\n", maxInlineRows+1),
	}
	before := disk.reads.Load()
	for i, ask := range asks {
		ask = strings.ReplaceAll(ask, "%d", fmt.Sprint(100+i))
		free := disk.stallReads(t)
		h := newManualClient(t, l)
		w.takeRequests(h.c, []byte(ask))
		w.commit()
		known.c.Out.Bytes = nil
		w.takeRequests(known.c, []byte("INCR known\r\n"))
		w.commit()
		if got := string(known.c.Out.Bytes); !strings.HasPrefix(got, ":") {
			t.Errorf("beside %q another is answered %q", ask, got)
		}
		free()
		h.finishBacklog(w)
		if len(h.c.Out.Bytes) == 0 {
			t.Errorf("%q is not answered", ask)
		}
		if t.Failed() {
			return // the others would take as long
		}
	}
	if reads := disk.reads.Load() - before; reads < int64(len(asks))/2 {
		t.Errorf("the disk was read %d times: the rows are in memory", reads)
	}
}

// So it is with fields of hashes that are in memory without them, once the disk has shown that it is slow.
func TestAWorkerWaitsForNoField(t *testing.T) {
	l, disk := startStalling(t, 10, 8<<20)
	disk.becomeSlow(t, l)
	w := newWorker(l.s, rowKeyBytes)
	say := func(text string) *manualClient {
		h := newManualClient(t, l)
		w.takeRequests(h.c, []byte(text))
		w.commit()
		return h
	}
	say("SET known 100\r\n").finishBacklog(w)
	for i, c := range []struct{ ask, want string }{
		{"HGET hash%d field\r\n", "$1\r\n1\r\n"},
		{"HEXISTS hash%d field\r\nHSET hash%d field 2\r\nHGET hash%d field\r\n", ":1\r\n:0\r\n$1\r\n2\r\n"},
		{"HMGET hash%d none field\r\n", "*2\r\n$-1\r\n$1\r\n1\r\n"},
		{"HSTRLEN hash%d field\r\nHDEL hash%d field\r\nHLEN hash%d\r\n", ":1\r\n:1\r\n:1\r\n"},
		{"HSET hash%d field 2\r\nHINCRBY hash%d field 3\r\n", ":0\r\n:5\r\n"},
		{"HGET hash%d field\r\nSTRLEN k%d\r\n", "$1\r\n1\r\n:300\r\n"},
		{"HDEL hash%d field\r\nHLEN hash%d\r\n", ":1\r\n:1\r\n"},
		{"MULTI\r\nHINCRBY hash%d field 1\r\nSTRLEN known\r\nEXEC\r\n", "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:2\r\n:3\r\n"},
		{"MULTI\r\nHGET hash%d field\r\nSTRLEN known\r\nEXEC\r\n", "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$1\r\n1\r\n:3\r\n"},
	} {
		ask := strings.ReplaceAll(c.ask, "%d", fmt.Sprint(i))
		say(fmt.Sprintf("TTL hash%d\r\n", i)).finishBacklog(w)
		free := disk.stallReads(t)
		h := say(ask)
		if got := string(say("INCR known\r\n").c.Out.Bytes); !strings.HasPrefix(got, ":") {
			t.Errorf("beside %q another is answered %q", ask, got)
		}
		free()
		h.finishBacklog(w)
		if got := string(h.c.Out.Bytes); got != c.want {
			t.Errorf("%q is answered %q, want %q", ask, got, c.want)
		}
	}
}

// Writes that were refused for what is not in memory come back together, and share a write of the log.
func TestWritesThatWereRefusedComeBackTogether(t *testing.T) {
	l, disk := startStalling(t, 10, 8<<20)
	disk.becomeSlow(t, l)
	w, h := newWorker(l.s, rowKeyBytes), newManualClient(t, l)
	var known, asks, want string
	for i := range hashCount {
		known += fmt.Sprintf("TTL hash%d\r\n", i)
		asks += fmt.Sprintf("HINCRBY hash%d field %d\r\nHGET hash%d field\r\n", i, i, i)
		want += fmt.Sprintf(":%d\r\n$%d\r\n%d\r\n", i+1, len(fmt.Sprint(i+1)), i+1)
	}
	w.takeRequests(h.c, []byte(known))
	w.commit()
	h.finishBacklog(w)
	h.c.Out.Bytes = nil
	w.takeRequests(h.c, []byte(asks))
	if len(w.staged) != 2*hashCount {
		t.Fatalf("%d requests are staged", len(w.staged))
	}
	w.commit()
	h.waitIdle()
	if got := string(h.c.Out.Bytes); got != "" {
		t.Errorf("without the disk they are answered %q", got)
	}
	w.takeRequests(h.c, nil)
	if len(w.staged) != 2*hashCount {
		t.Errorf("%d of %d requests come back together", len(w.staged), 2*hashCount)
	}
	w.commit()
	h.finishBacklog(w)
	if got := string(h.c.Out.Bytes); got != want {
		t.Errorf("answered was %q, want %q", got, want)
	}
}

// A disk that is slow is asked for much at once, and by a bounded number of goroutines.
func TestASlowDiskIsAskedForMuchAtOnce(t *testing.T) {
	const rounds, clients = 10, 60
	l, disk := startStalling(t, 6000, 8<<20) // some hundred blocks
	w := newWorker(l.s, rowKeyBytes)
	disk.becomeSlow(t, l)
	defer disk.stallReads(t)()
	for round := range rounds {
		for i := range clients {
			w.takeRequests(newManualClient(t, l).c, fmt.Appendf(nil, "STRLEN k%d\r\n", 1+round*clients+i))
		}
		w.commit()
		if round == 0 && !disk.awaitReads(maxColdReaders/2) || round == rounds-1 && !disk.awaitReads(maxColdReaders*3/4) { // some wait for the same block
			t.Errorf("after %d requests the disk is asked for %d blocks at once", (1+round)*clients, disk.now.Load())
		}
		l.s.coldReader.mu.Lock()
		if l.s.coldReader.readers > maxColdReaders {
			t.Errorf("%d goroutines read", l.s.coldReader.readers)
		}
		l.s.coldReader.mu.Unlock()
	}
}

// Rows that are too large to be kept in memory are read for one request a few times, however many wait
// behind it.
func TestLargeRowsAreReadAFewTimes(t *testing.T) {
	const size = 600_000
	keys := tally.Size(60, 24)
	l, disk := startStallingRows(t, shapes[0], keys, size, 128<<10)
	reads := func(n int) int64 {
		before, c := disk.reads.Load(), l.dial()
		for i := range n {
			c.send(fmt.Sprint("STRLEN k", i))
		}
		for i := range n {
			if got, want := c.readReply(), fmt.Sprintf("(%d)", size); got != want {
				t.Errorf("k%d is %s, want %s", i, got, want)
			}
		}
		return disk.reads.Load() - before
	}
	if few, many := reads(4), reads(keys); many > int64(keys)/4*few*2 {
		t.Errorf("4 requests took %d reads, and %d of them %d", few, keys, many)
	}
}

// A server that ends reads no more for clients that get no answer.
func TestAServerThatEndsReadsNoMore(t *testing.T) {
	const clients, each = 8, 1000
	l, disk := startStalling(t, clients*each, 128<<10)
	free := disk.stallReads(t)
	for i := range clients {
		c := l.dial()
		var b strings.Builder
		for j := range each {
			fmt.Fprintf(&b, "STRLEN k%d\r\n", j*clients+i)
		}
		c.sendPipeline(b.String())
	}
	if !disk.awaitReads(1) {
		t.Error("the disk is not asked for anything")
	}
	ended := make(chan bool)
	go func() {
		l.s.Close()
		close(ended)
	}()
	<-l.s.ctx.Done()
	free()
	<-ended
	if n := disk.reads.Load(); n > clients*each/4 {
		t.Errorf("the disk was read %d times", n)
	}
}

// lockKey locks a key, as a transaction does that is not decided.
func (l *testServer) lockKey(key string) (unlock func()) {
	l.t.Helper()
	p := l.s.defaultKeyspace().AppendPosition(nil, []byte(key))
	part := l.s.node.GroupHostAt(p)
	do := func(c command.Command) {
		l.t.Helper()
		if reply, err := part.Group.Execute(ctx, group.Request{Command: c}); err != nil || reply.Err != nil {
			l.t.Fatal(err, reply.Err)
		}
	}
	lock := &txn.Prepare{
		ID: txn.ID{1}, CoordinatorGroup: part.ID, DeadlineMS: part.Group.NowMS() + 60_000,
		Participant: txn.Participant{Span: partition.Span{Start: p, End: append(p[:len(p):len(p)], 0)}, Writes: []command.Command{&command.Set{Key: p, Value: []byte("new")}}},
	}
	do(lock)
	return func() {
		do(&txn.Decide{ID: lock.ID, CoordinatorGroup: lock.CoordinatorGroup, DeadlineMS: lock.DeadlineMS})
	}
}

// A request is allowed when it is staged: if it meets a lock then, and its user may not make it any more
// when that is gone, it is not executed.
func TestWhatMeetsALockMustStillBeAllowed(t *testing.T) {
	l := startServer(t, shapes[0], Options{})
	admin, h := l.dial(), newManualClient(t, l)
	admin.runScript("SET locked 1 -> OK")
	h.becomeUser(t, l, "u")
	unlock := l.lockKey("locked")
	w := newWorker(l.s, rowKeyBytes)
	w.takeRequests(h.c, []byte("APPEND locked 2\r\n"))
	admin.runScript("ACL SETUSER u -@all -> OK")
	w.commit()
	unlock()
	h.finishBacklog(w)
	if got := string(h.c.Out.Bytes); !strings.HasPrefix(got, "-NOPERM") {
		t.Errorf("answered was %q", got)
	}
}

// A request that meets a lock delays no other request that waits for the disk.
func TestALockHoldsUpNobodyElse(t *testing.T) {
	const clients = 8
	l := startCold(t, shapes[0], clients, "k")
	unlock := l.lockKey("locked")
	w := newWorker(l.s, rowKeyBytes)
	meets := newManualClient(t, l)
	w.takeRequests(meets.c, []byte("SET locked 1\r\nSTRLEN k0\r\n"))
	var others []*manualClient
	for i := 1; i < clients; i++ {
		h := newManualClient(t, l)
		w.takeRequests(h.c, fmt.Appendf(nil, "STRLEN k%d\r\n", i))
		others = append(others, h)
	}
	w.commit()
	for _, h := range others {
		select {
		case <-h.resumed:
		case <-time.After(eventually.Limit()):
			t.Error("one waits for the lock of another")
		}
	}
	select {
	case <-meets.resumed:
		t.Error("a lock holds up nobody")
	default:
	}
	unlock()
	meets.finishBacklog(w)
	if got := string(meets.c.Out.Bytes); got != "+OK\r\n:1\r\n" {
		t.Errorf("answered was %q", got)
	}
}

// What needs a row that cannot be read says so, and changes nothing.
func TestADiskThatCannotBeReadChangesNothing(t *testing.T) {
	for _, sh := range shapes {
		t.Run(sh.name, func(t *testing.T) {
			t.Parallel()
			l, disk := startStallingShape(t, sh, 4000, 128<<10)
			c := l.dial()
			old := c.ask("GET k0")
			c.ask("TTL hash0") // it is in memory then, without its field
			for i, ask := range []string{
				"MGET near far", "EXISTS near far", "DEL near far", "MSETNX near 1 far 2", "RENAME near far", "COPY near far REPLACE", "RENAME far near",
				"MULTI|GET far|EXEC", "MULTI|APPEND near 1|APPEND far 1|EXEC", "MULTI|SET near 1|GET far|EXEC", "MULTI|APPEND near 1|HGET hash0 field|EXEC", "STRLEN far", "APPEND far 1", "GETDEL far", "GET far",
			} {
				near, far := fmt.Sprint("k", 100+i), fmt.Sprint("k", 2000+100*i)
				c.ask("STRLEN " + near) // its row is in memory then
				disk.fails.Store(true)
				var got string
				for _, line := range strings.Split(strings.NewReplacer("near", near, "far", far).Replace(ask), "|") {
					got = c.ask(line)
				}
				disk.fails.Store(false)
				if !strings.HasPrefix(got, "-") {
					t.Errorf("%s: %.40s", ask, got)
				}
				for _, key := range []string{near, far} {
					if now := c.ask("GET " + key); now != old {
						t.Errorf("after %s, which could not read a row, another is %.40q", ask, now)
					}
				}
			}
		})
	}
}

// What deleted hashes have left on a disk is removed without holding up their group.
func TestWhatIsSweptHoldsUpNobody(t *testing.T) {
	l, disk := startStalling(t, 10, 64<<10)
	disk.becomeSlow(t, l)
	c, other := l.dial(), l.dial()
	other.ask("SET known 1")
	for i := range hashCount {
		c.ask(fmt.Sprint("TTL hash", i)) // then their rows are in memory, and their fields are not
	}
	free := disk.stallReads(t)
	for i := range hashCount {
		c.send(fmt.Sprint("DEL hash", i))
	}
	if !disk.awaitReads(1) {
		t.Error("nobody looks for what is left of the hashes")
	}
	for i := range 5 {
		if got := other.ask("INCR known"); got != fmt.Sprintf("(%d)", 2+i) {
			t.Errorf("INCR is answered by %s", got)
		}
	}
	free()
}

// Writers of a range that is moved are held up if they are faster than the move: else it
// would never get there.
func TestWritersOfARangeThatIsMovedAreHeldUp(t *testing.T) {
	const wait = 300 * time.Millisecond
	forEachShape(t, func(t *testing.T, l *testServer) {
		c := l.dial()
		c.runScript(`
			SET n 1 -> OK
			SET m 1 -> OK
		`)
		delayWriters(t, l.s, wait)
		for _, request := range []string{"INCR n", "SET m 2", "MSET n 7 {n}x 8"} {
			began := time.Now()
			if got := c.ask(request); got[0] == '-' {
				t.Errorf("%s: %s", request, got)
			}
			if took := time.Since(began); took < 200*time.Millisecond {
				t.Errorf("%s was answered after %v, and held up for %v", request, took, wait)
			}
		}
		for _, request := range []string{"INCR n", "GET n", "GET m", "INCR m", "GET m", "PING"} {
			c.send(request)
		}
		for _, want := range []string{"(8)", "8", "2", "(3)", "3", "PONG"} {
			if got := c.readReply(); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		l.s.node.WriteLimits().Remove(delayKey)
		c.runScript(`
			INCR n -> (9)
		`)
	})
}

// They are behind a read that waits for the disk, too.
func TestWritersBehindAReadOfTheDiskAreHeldUp(t *testing.T) {
	const wait = 50 * time.Millisecond
	l := startCold(t, shapes[1], 2, "k")
	delayWriters(t, l.s, wait)
	c := l.dial()
	began := time.Now()
	c.sendPipeline("GET k0\r\nINCR k1\r\n")
	c.expectReplies("0", "(2)")
	if took := time.Since(began); took < wait {
		t.Errorf("answered after %v, and held up for %v", took, wait)
	}
}
