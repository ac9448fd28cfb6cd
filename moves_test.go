package cleave

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/testkit/tally"
)

// traffic is clients of a store while something is done to it.
type traffic struct {
	t             *testing.T
	db            *DB
	hash, ordered *Keyspace
	stop          atomic.Bool
	// simple leaves out transactions: a group that has decided some is removed only
	// when no participant can ask for them any more, which takes seconds.
	simple bool
	wg     sync.WaitGroup
	did    tally.Counts
	added  [trafficKeys]atomic.Int64
	// acked is what each key was last acknowledged to hold, by its one writer.
	acked [trafficKeys]atomic.Int64
}

// trafficKeys is how many keys there are of each sort.
const trafficKeys = 60

func trafficKey(sort string, i int) []byte { return fmt.Appendf(nil, "%s %03d", sort, i) }

// newTraffic fills a store for clients.
func newTraffic(t *testing.T, db *DB) *traffic {
	w := &traffic{t: t, db: db, hash: db.Default()}
	var err error
	w.ordered, err = db.OpenKeyspace(ctx, KeyspaceOptions{Name: "ordered", Kind: Range})
	must(t, err)
	for i := range trafficKeys {
		for _, ks := range []*Keyspace{w.hash, w.ordered} {
			must(t, ks.Set(ctx, trafficKey("register", i), []byte("0")))
			must(t, ks.Set(ctx, trafficKey("still", i), fmt.Append(nil, i)))
			must(t, ks.Set(ctx, trafficKey("account", i), []byte("100")))
		}
	}
	return w
}

// start lets clients loose, until end.
func (w *traffic) start(seed uint64) {
	clients := []func(*rand.Rand, int){w.writeOwnKey, w.writeOwnKey, w.readOthers, w.addToCounter, w.addToCounter, w.readMany, w.scanAll}
	if !w.simple {
		clients = append(clients, w.transferAmount)
	}
	pause := time.Duration(tally.Size(50, 1000)) * time.Microsecond
	for c, f := range clients {
		rng := rand.New(rand.NewPCG(seed, uint64(c)))
		w.wg.Go(func() {
			for !w.stop.Load() && !w.t.Failed() {
				f(rng, c)
				time.Sleep(pause) // others want to work too
			}
		})
	}
}

func (w *traffic) drawKeyspace(rng *rand.Rand) *Keyspace {
	return []*Keyspace{w.hash, w.ordered}[rng.IntN(2)]
}

// writeOwnKey writes a key of this client's own, and reads it back.
func (w *traffic) writeOwnKey(rng *rand.Rand, c int) {
	i := c + 2*rng.IntN(trafficKeys/2) // clients 0 and 1 write
	key, next := trafficKey("register", i), w.acked[i].Load()+1
	for _, ks := range []*Keyspace{w.hash, w.ordered} {
		if err := ks.Set(ctx, key, strconv.AppendInt(nil, next, 10)); err != nil {
			w.t.Errorf("set %s: %v", key, err)
			return
		}
	}
	w.acked[i].Store(next)
	if got, err := w.drawKeyspace(rng).Get(ctx, key); err != nil || string(got) != strconv.FormatInt(next, 10) {
		w.t.Errorf("%s is %q, %v; it was set to %d", key, got, err, next)
	}
	w.did.Add("writes", 1)
}

// readOthers reads what others have written: it is never behind what was acknowledged
// before.
func (w *traffic) readOthers(rng *rand.Rand, _ int) {
	i := rng.IntN(trafficKeys)
	floor := w.acked[i].Load()
	got, err := w.drawKeyspace(rng).Get(ctx, trafficKey("register", i))
	n, bad := strconv.ParseInt(string(got), 10, 64)
	if err = errors.Join(err, bad); err != nil || n < floor || n > w.acked[i].Load()+1 {
		w.t.Errorf("register %d is %d, %v; %d was acknowledged before", i, n, err, floor)
	}
	w.did.Add("reads", 1)
}

// addToCounter adds to a counter, each time with an answer.
func (w *traffic) addToCounter(rng *rand.Rand, _ int) {
	i := rng.IntN(trafficKeys)
	if _, err := w.drawKeyspace(rng).Add(ctx, trafficKey("counter", i), 1); err != nil {
		w.t.Errorf("add: %v", err)
		return
	}
	w.added[i].Add(1)
	w.did.Add("additions", 1)
}

// readMany reads several keys at once, those of the ordered keyspace included.
func (w *traffic) readMany(rng *rand.Rand, _ int) {
	ks := w.drawKeyspace(rng)
	var keys [][]byte
	for i := range trafficKeys {
		keys = append(keys, trafficKey("still", i))
	}
	values, err := ks.GetMany(ctx, keys...)
	for i := range values {
		if string(values[i]) != strconv.Itoa(i) {
			err = errors.Join(err, fmt.Errorf("still %d is %q", i, values[i]))
		}
	}
	if err != nil {
		w.t.Errorf("many keys of %s: %v", ks.Name(), err)
	}
	w.did.Add("looks", 1)
}

// scanAll reads everything in order.
func (w *traffic) scanAll(rng *rand.Rand, _ int) {
	ks := w.drawKeyspace(rng)
	found, sum := 0, 0
	var last []byte
	for item, err := range ks.Scan(ctx, ScanOptions{}) {
		if err != nil {
			w.t.Errorf("scan of %s: %v", ks.Name(), err)
			return
		}
		if ks == w.ordered && last != nil && string(item.Key) <= string(last) {
			w.t.Errorf("%s came after %s", item.Key, last)
		}
		last = item.Key
		switch string(item.Key[:5]) {
		case "still":
			found++
		case "accou":
			sum += sumDecimals(item.Value)
		}
	}
	if found != trafficKeys || sum != 100*trafficKeys {
		w.t.Errorf("a scan of %s found %d of %d keys, and %d of %d in accounts", ks.Name(), found, trafficKeys, sum, 100*trafficKeys)
	}
	w.did.Add("scans", 1)
}

// transferAmount takes from one account and gives to another.
func (w *traffic) transferAmount(rng *rand.Rand, _ int) {
	ks := w.drawKeyspace(rng)
	from, to := trafficKey("account", rng.IntN(trafficKeys)), trafficKey("account", rng.IntN(trafficKeys))
	err := w.db.Update(ctx, func(tx *Txn) error {
		if _, err := tx.Add(ks, from, -1); err != nil {
			return err
		}
		_, err := tx.Add(ks, to, 1)
		return err
	})
	if err != nil {
		w.t.Errorf("transfer: %v", err)
	}
	w.did.Add("transfers", 1)
}

// stopAndCheck stops the clients and looks at everything.
func (w *traffic) stopAndCheck() {
	w.stop.Store(true)
	w.wg.Wait()
	for i := range trafficKeys {
		sum := int64(0)
		for _, ks := range []*Keyspace{w.hash, w.ordered} {
			got, err := ks.Get(ctx, trafficKey("counter", i))
			if errors.Is(err, ErrNotFound) {
				continue
			}
			sum += int64(sumDecimals(got))
		}
		if sum != w.added[i].Load() {
			w.t.Errorf("counter %d is %d, want %d", i, sum, w.added[i].Load())
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 4 {
		w.scanAll(rng, 0)
		w.readMany(rng, 0)
	}
}

// drawChange is a change of the map at random.
func drawChange(rng *rand.Rand, w *traffic) MapChange {
	var shards []ShardID
	m := w.db.Map()
	for s := range m.Shards(w.hash.keyspace.Span()) {
		shards = append(shards, s.ID)
	}
	for s := range m.Shards(w.ordered.keyspace.Span()) {
		shards = append(shards, s.ID)
	}
	groups := w.db.Groups()
	i := rng.IntN(len(shards))
	switch n := rng.IntN(20); {
	case n < 3 && len(shards) < 40:
		if rng.IntN(2) == 0 {
			return SplitAtKeys(w.hash, trafficKey("counter", rng.IntN(trafficKeys)))
		}
		return SplitAtSlots(w.hash, 1+rng.IntN(16383))
	case n < 6 && len(shards) < 40:
		sort := []string{"register", "still", "counter", "account"}[rng.IntN(4)]
		return SplitAtKeys(w.ordered, trafficKey(sort, rng.IntN(trafficKeys)))
	case n < 11 && i > 0:
		return Merge{Left: shards[i-1], Right: shards[i]}
	}
	return Move{Shard: shards[i], To: groups[rng.IntN(len(groups))].ID}
}

// Shards are split, merged and moved all the time while clients read, write, count,
// scan and transfer. No client notices, and nothing is lost.
func TestNobodyNoticesThatShardsMove(t *testing.T) {
	for _, stores := range []int{1, 2, 3} {
		t.Run(fmt.Sprintf("stores=%d", stores), func(t *testing.T) {
			seed := seedOf(t)
			o := memoryOptions(stores)
			o.Groups = 4
			db := mustOpen(t, o)
			defer mustClose(t, db)
			w := newTraffic(t, db)
			w.start(seed)
			var wg sync.WaitGroup
			for i := range 2 {
				wg.Go(func() { makeChanges(t, w, rand.New(rand.NewPCG(seed, uint64(99+i))), scaleRounds(12)) })
			}
			wg.Wait()
			w.stopAndCheck()
			w.did.Log(t, "writes", "reads", "additions", "looks", "scans", "transfers", "split", "merge", "move")
		})
	}
}

// makeChanges makes changes until so many were done, and some of each kind.
func makeChanges(t *testing.T, w *traffic, rng *rand.Rand, changes int) {
	for done := 0; (done < changes || !w.did.Has("split", "merge", "move")) && !t.Failed(); {
		job, err := w.db.Start(ctx, drawChange(rng, w))
		if err != nil {
			if !isExpectedRefusal(err) {
				t.Errorf("start: %v", err)
			}
			continue
		}
		// So that a job that hangs is named: no machine is so busy.
		within, cancel := context.WithTimeout(ctx, 5*time.Minute)
		s, err := job.Wait(within)
		cancel()
		if errors.Is(err, ErrJobUndone) {
			w.did.Add("undone", 1) // the machine is too busy to hand over in time
			continue
		}
		if err != nil {
			s, _ = job.Status(ctx)
			t.Errorf("job %d: %v: %+v", job.ID(), err, s)
			return
		}
		w.did.Add(s.Kind, 1)
		done++
	}
}

// isExpectedRefusal reports whether a change at random may be refused with an error.
func isExpectedRefusal(err error) bool {
	for _, e := range []error{ErrBoundary, ErrNoChange, ErrNotNeighbours, ErrDifferentGroups, ErrNoShard, ErrBusy} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// BenchmarkMove moves a shard of 100 MB from one store to another and back while
// clients read and write it. Reported are how long it took no writes, as the job says
// and as the slowest client noticed, and what was carried in a second. Run it with
//
//	go test -run '^$' -bench '^BenchmarkMove$' -benchtime 20x .
func BenchmarkMove(b *testing.B) {
	const rows, size = 100_000, 1000
	for _, c := range []moveCase{{0, 0, Always}, {8, 10, Always}, {16, 50, Always}, {16, 50, EverySec}} {
		b.Run(c.String(), func(b *testing.B) {
			db, err := Open(b.TempDir(), Options{Stores: 2, Groups: 4, Durability: c.durability})
			must(b, err)
			defer mustClose(b, db)
			ks := rangeSpace(b, db, "big")
			fillRows(b, db, ks, rows, size)
			shard := db.Map().Find(ks.keyspace.Span().Start)
			home := map[GroupID]int{}
			for _, g := range db.Groups() {
				home[g.ID] = g.Store
			}
			load := startLoad(ks, c, rows, size)
			var pauses, freezes []time.Duration
			var bytes uint64
			var spent time.Duration
			for b.Loop() {
				to := GroupID(1)
				now := db.Map().Find(ks.keyspace.Span().Start)
				for _, g := range db.Groups() {
					if g.Store != home[now.Group] {
						to = g.ID
					}
				}
				load.worst.Store(0)
				job, err := db.Start(ctx, Move{Shard: shard.ID, To: to})
				must(b, err)
				s, err := job.Wait(ctx)
				must(b, err)
				pauses = append(pauses, s.Pause)
				freezes = append(freezes, time.Duration(load.worst.Load()))
				bytes, spent = bytes+s.Bytes, spent+s.Ended.Sub(s.Created)
			}
			load.stopClients()
			b.ReportMetric(float64(quantile(pauses, 0.5).Milliseconds()), "p50-pause-ms")
			b.ReportMetric(float64(quantile(pauses, 0.99).Milliseconds()), "p99-pause-ms")
			b.ReportMetric(float64(quantile(freezes, 0.99).Milliseconds()), "p99-slowest-write-ms")
			b.ReportMetric(float64(bytes)/spent.Seconds()/1e6, "MB/s")
			b.ReportMetric(float64(load.writes.Load())/b.Elapsed().Seconds(), "writes/s")
		})
	}
}

// fillRows writes rows of a size.
func fillRows(b *testing.B, db *DB, ks *Keyspace, rows, size int) {
	value := make([]byte, size)
	for i := 0; i < rows; {
		var batch Batch
		for range min(rows-i, 500) {
			binary.LittleEndian.PutUint64(value, rand.Uint64())
			batch.Set(ks, numberKey(i), value)
			i++
		}
		must(b, db.Write(ctx, &batch))
	}
}

// moveCase is what clients do meanwhile: of a hundred operations some are writes.
type moveCase struct {
	clients, writes int
	durability      Durability
}

func (c moveCase) String() string {
	return fmt.Sprintf("%d_clients_%d%%_writes_%v", c.clients, c.writes, c.durability)
}

// moveLoad is clients of a keyspace.
type moveLoad struct {
	stop   atomic.Bool
	wg     sync.WaitGroup
	worst  atomic.Int64
	writes atomic.Int64
}

func startLoad(ks *Keyspace, c moveCase, rows, size int) *moveLoad {
	l := &moveLoad{}
	for range c.clients {
		l.wg.Go(func() {
			value := make([]byte, size)
			for !l.stop.Load() {
				key := numberKey(rand.IntN(rows))
				if rand.IntN(100) >= c.writes {
					_, _ = ks.Get(ctx, key)
					continue
				}
				begun := time.Now()
				if ks.Set(ctx, key, value) != nil {
					return
				}
				l.writes.Add(1)
				for took := int64(time.Since(begun)); ; {
					if worst := l.worst.Load(); took <= worst || l.worst.CompareAndSwap(worst, took) {
						break
					}
				}
			}
		})
	}
	return l
}

func (l *moveLoad) stopClients() {
	l.stop.Store(true)
	l.wg.Wait()
}

func quantile(of []time.Duration, q float64) time.Duration {
	slices.SortFunc(of, func(a, b time.Duration) int { return cmp.Compare(a, b) })
	return of[min(int(q*float64(len(of))), len(of)-1)]
}

// A slot of which one shard cannot serve all the traffic is cut at a key, and its halves go
// to different stores, while clients write to both.
func TestSplit_AtAKeyOfAHashKeyspace_CutsItsSlot(t *testing.T) {
	const keys, cut = 60, 25
	db := openWatched(t, 2, nil)
	ks, names := db.Default(), make([][]byte, keys)
	for i := range names {
		names[i] = fmt.Appendf(nil, "{hot}%02d", i)
		must(t, ks.Set(ctx, names[i], []byte("0")))
	}
	slot := ks.Locate(names[0]).Slot
	var added [keys]int64
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for round := 0; ; round++ {
			select {
			case <-stop:
				return
			default:
			}
			i, j := round%keys, (round*7+cut)%keys
			if _, err := ks.Add(ctx, names[i], 1); err != nil {
				t.Errorf("add: %v", err)
				return
			}
			err := db.Update(ctx, func(tx *Txn) error {
				_, err1 := tx.Add(ks, names[i], 1)
				_, err2 := tx.Add(ks, names[j], 1)
				return errors.Join(err1, err2)
			})
			if err != nil {
				t.Errorf("update: %v", err)
				return
			}
			added[i] += 2
			added[j]++
		}
	}()
	left, right := string(names[cut-1]), string(names[cut])
	home := groupAt(ks, left)
	mustDo(t, db, SplitAtKeys(ks, names[cut]))
	mustDo(t, db, Move{Shard: shardAt(ks, right), To: groupOnOtherStore(ks, left)})
	if a, b := ks.Locate(names[cut-1]), ks.Locate(names[cut]); a.Slot != slot || b.Slot != slot || a.Store == b.Store {
		t.Errorf("the halves of slot %d are at %+v and %+v", slot, a, b)
	}
	shards, err := db.Shards(ctx)
	must(t, err)
	for _, s := range shards {
		if s.ID == shardAt(ks, left) && s.LastSlot != slot || s.ID == shardAt(ks, right) && s.FirstSlot != slot {
			t.Errorf("%v, want one that shares slot %d", s, slot)
		}
	}
	check := func() {
		t.Helper()
		i := 0
		for item, err := range ks.Scan(ctx, ScanOptions{}) {
			must(t, err)
			if i >= keys || !bytes.Equal(item.Key, names[i]) {
				t.Fatalf("key %d of the scan is %q", i, item.Key)
			}
			i++
		}
		got, err := ks.GetMany(ctx, names...)
		must(t, err)
		for i := range got {
			if n := sumDecimals(got[i]); int64(n) != added[i] {
				t.Errorf("%s is %d, want %d", names[i], n, added[i])
			}
		}
		if i != keys {
			t.Errorf("a scan found %d keys of %d", i, keys)
		}
	}
	close(stop)
	<-ended
	check()
	mustDo(t, db, Move{Shard: shardAt(ks, right), To: home})
	mustDo(t, db, Merge{Left: shardAt(ks, left), Right: shardAt(ks, right)})
	check()
}
