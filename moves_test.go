package cleave

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/tally"
)

// traffic is clients of a store while something is done to it.
type traffic struct {
	t             *testing.T
	db            *DB
	hash, ordered *Keyspace
	stop          atomic.Bool
	// simple leaves out transactions: a group that has decided some is removed only
	// when nobody can ask for them any more, which takes seconds.
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

// begin lets clients loose, until end.
func (w *traffic) begin(seed uint64) {
	clients := []func(*rand.Rand, int){w.write, w.write, w.read, w.count, w.count, w.look, w.scan}
	if !w.simple {
		clients = append(clients, w.transfer)
	}
	for c, f := range clients {
		rng := rand.New(rand.NewPCG(seed, uint64(c)))
		w.wg.Go(func() {
			for !w.stop.Load() && !w.t.Failed() {
				f(rng, c)
				time.Sleep(50 * time.Microsecond) // others want to work too
			}
		})
	}
}

func (w *traffic) space(rng *rand.Rand) *Keyspace { return []*Keyspace{w.hash, w.ordered}[rng.IntN(2)] }

// write writes a key of this client's own, and reads it back.
func (w *traffic) write(rng *rand.Rand, c int) {
	i := c + 2*rng.IntN(trafficKeys/2) // clients 0 and 1 write
	key, next := trafficKey("register", i), w.acked[i].Load()+1
	for _, ks := range []*Keyspace{w.hash, w.ordered} {
		if err := ks.Set(ctx, key, strconv.AppendInt(nil, next, 10)); err != nil {
			w.t.Errorf("set %s: %v", key, err)
			return
		}
	}
	w.acked[i].Store(next)
	if got, err := w.space(rng).Get(ctx, key); err != nil || string(got) != strconv.FormatInt(next, 10) {
		w.t.Errorf("%s is %q, %v; it was set to %d", key, got, err, next)
	}
	w.did.Add("writes", 1)
}

// read reads what others have written: it is never behind what was acknowledged
// before.
func (w *traffic) read(rng *rand.Rand, _ int) {
	i := rng.IntN(trafficKeys)
	floor := w.acked[i].Load()
	got, err := w.space(rng).Get(ctx, trafficKey("register", i))
	n, bad := strconv.ParseInt(string(got), 10, 64)
	if err = errors.Join(err, bad); err != nil || n < floor || n > w.acked[i].Load()+1 {
		w.t.Errorf("register %d is %d, %v; %d was acknowledged before", i, n, err, floor)
	}
	w.did.Add("reads", 1)
}

// count adds to a counter, each time with an answer.
func (w *traffic) count(rng *rand.Rand, _ int) {
	i := rng.IntN(trafficKeys)
	if _, err := w.space(rng).Add(ctx, trafficKey("counter", i), 1); err != nil {
		w.t.Errorf("add: %v", err)
		return
	}
	w.added[i].Add(1)
	w.did.Add("additions", 1)
}

// look reads several keys at once, those of the ordered keyspace included.
func (w *traffic) look(rng *rand.Rand, _ int) {
	ks := w.space(rng)
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

// scan reads everything in order.
func (w *traffic) scan(rng *rand.Rand, _ int) {
	ks := w.space(rng)
	found, sum := 0, 0
	var last []byte
	for item, err := range ks.All(ctx, ScanOptions{}) {
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
			sum += total(item.Value)
		}
	}
	if found != trafficKeys || sum != 100*trafficKeys {
		w.t.Errorf("a scan of %s found %d of %d keys, and %d of %d in accounts", ks.Name(), found, trafficKeys, sum, 100*trafficKeys)
	}
	w.did.Add("scans", 1)
}

// transfer takes from one account and gives to another.
func (w *traffic) transfer(rng *rand.Rand, _ int) {
	ks := w.space(rng)
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

// end stops the clients and looks at everything.
func (w *traffic) end() {
	w.stop.Store(true)
	w.wg.Wait()
	for i := range trafficKeys {
		sum := int64(0)
		for _, ks := range []*Keyspace{w.hash, w.ordered} {
			got, err := ks.Get(ctx, trafficKey("counter", i))
			if errors.Is(err, ErrNotFound) {
				continue
			}
			sum += int64(total(got))
		}
		if sum != w.added[i].Load() {
			w.t.Errorf("counter %d is %d, want %d", i, sum, w.added[i].Load())
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 4 {
		w.scan(rng, 0)
		w.look(rng, 0)
	}
}

// wish is a change of the map at random.
func wish(rng *rand.Rand, w *traffic) MapChange {
	var shards []ShardID
	m := w.db.Map()
	for s := range m.Shards(w.hash.space.Span()) {
		shards = append(shards, s.ID)
	}
	for s := range m.Shards(w.ordered.space.Span()) {
		shards = append(shards, s.ID)
	}
	groups := w.db.Groups()
	i := rng.IntN(len(shards))
	switch n := rng.IntN(20); {
	case n < 3 && len(shards) < 40:
		return Split{Keyspace: w.hash, Slots: []int{1 + rng.IntN(16383)}}
	case n < 6 && len(shards) < 40:
		sort := []string{"register", "still", "counter", "account"}[rng.IntN(4)]
		return Split{Keyspace: w.ordered, At: [][]byte{trafficKey(sort, rng.IntN(trafficKeys))}}
	case n < 11 && i > 0:
		return Merge{Left: shards[i-1], Right: shards[i]}
	}
	return Move{Shard: shards[i], To: groups[rng.IntN(len(groups))].ID}
}

// Shards are split, merged and moved all the time while clients read, write, count,
// scan and transfer. Nobody notices, and nothing is lost.
func TestNobodyNoticesThatShardsMove(t *testing.T) {
	for _, stores := range []int{1, 2, 3} {
		t.Run(fmt.Sprintf("stores=%d", stores), func(t *testing.T) {
			seed := seedOf(t)
			o := memory(stores)
			o.Groups = 4
			db := mustOpen(t, o)
			defer mustClose(t, db)
			w := newTraffic(t, db)
			w.begin(seed)
			var wg sync.WaitGroup
			for i := range 2 {
				wg.Go(func() { reshape(t, w, rand.New(rand.NewPCG(seed, uint64(99+i))), soaking(12)) })
			}
			wg.Wait()
			w.end()
			w.did.Log(t, "writes", "reads", "additions", "looks", "scans", "transfers", "split", "merge", "move")
		})
	}
}

// reshape makes changes until so many were done, and some of each kind.
func reshape(t *testing.T, w *traffic, rng *rand.Rand, changes int) {
	for done := 0; (done < changes || !w.did.Has("split", "merge", "move")) && !t.Failed(); {
		job, err := w.db.Start(ctx, wish(rng, w))
		if err != nil {
			if !expected(err) {
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

// expected tells whether a change at random may be refused with an error.
func expected(err error) bool {
	for _, e := range []error{ErrBoundary, ErrNoChange, ErrNotNeighbours, ErrDifferentGroups, ErrNoShard, ErrBusy} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
