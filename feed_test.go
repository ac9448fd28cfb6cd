package cleave

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
)

// replica is what a reader of the feed makes of it.
type replica struct {
	texts  map[string]string
	hashes map[string]map[string]string
	last   map[string]uint64 // versions
}

func newReplica() *replica {
	return &replica{texts: map[string]string{}, hashes: map[string]map[string]string{}, last: map[string]uint64{}}
}

func (r *replica) apply(t testing.TB, c Change) {
	for _, op := range c.Ops {
		key := op.Keyspace + "/" + string(op.Key)
		switch {
		case op.Field != nil && op.Deleted:
			delete(r.hashes[key], string(op.Field))
		case op.Field != nil:
			if r.hashes[key] == nil {
				r.hashes[key] = map[string]string{}
			}
			r.hashes[key][string(op.Field)] = string(op.Item.Value)
		case op.Deleted:
			delete(r.texts, key)
			delete(r.hashes, key)
		default:
			if op.Item.Version <= r.last[key] {
				t.Errorf("version %d of %s after %d: told twice or out of order", op.Item.Version, key, r.last[key])
			}
			r.last[key] = op.Item.Version
			delete(r.texts, key)
			if op.Item.Value != nil || op.Created {
				delete(r.hashes, key)
			}
			if op.Item.Value != nil {
				r.texts[key] = string(op.Item.Value)
			}
		}
	}
}

// drainFeed reads the feed up to now and returns where it ended. Each change is
// seen in the order of commits.
func (r *replica) drainFeed(t testing.TB, db *DB, from Cursor) Cursor {
	c, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	mark := fmt.Sprint("mark ", rand.Uint64())
	marked := 0
	for _, p := range keyPerStore(db) {
		must(t, db.Default().Set(ctx, p, []byte(mark)))
		marked++
	}
	for change, err := range db.Feed(c, FeedOptions{From: from}) {
		must(t, err)
		r.apply(t, change)
		from = change.After
		for _, op := range change.Ops {
			if string(op.Item.Value) == mark {
				marked--
			}
		}
		if marked == 0 {
			break
		}
	}
	return from
}

// keyPerStore returns a key in each store.
func keyPerStore(db *DB) (keys [][]byte) {
	found := map[any]bool{}
	for i := 0; len(found) < len(db.node.GroupHosts()); i++ {
		key := fmt.Appendf(nil, "mark %d", i)
		p := db.Default().findGroupHost(db.Default().keyspace.AppendPosition(nil, key))
		if !found[p] {
			found[p] = true
			keys = append(keys, key)
		}
	}
	return keys
}

// compareWithStore compares the replica with what the store says.
func (r *replica) compareWithStore(t testing.TB, db *DB) {
	t.Helper()
	texts, hashes := map[string]string{}, map[string]map[string]string{}
	for _, ks := range db.Keyspaces() {
		for item, err := range ks.Scan(ctx, ScanOptions{}) {
			must(t, err)
			key := ks.Name() + "/" + string(item.Key)
			if item.Value != nil {
				texts[key] = string(item.Value)
				continue
			}
			hashes[key] = map[string]string{}
			fields, err := ks.HGetAll(ctx, item.Key)
			must(t, err)
			for _, f := range fields {
				hashes[key][string(f.Name)] = string(f.Value)
			}
		}
	}
	if !maps.Equal(r.texts, texts) {
		t.Errorf("the replica has %d strings, the store %d, or they differ", len(r.texts), len(texts))
	}
	if !maps.EqualFunc(r.hashes, hashes, maps.Equal) {
		t.Errorf("the replica has the hashes %v, the store %v", r.hashes, hashes)
	}
}

// writeRandom writes at random.
func writeRandom(t testing.TB, db *DB, rng *rand.Rand, n int) {
	ks := db.Default()
	for range n {
		key := fmt.Appendf(nil, "key %d", rng.IntN(20))
		var err error
		switch rng.IntN(7) {
		case 0:
			_, err = ks.Delete(ctx, key)
		case 1, 2:
			err = ks.Set(ctx, key, fmt.Appendf(nil, "%d%s", rng.Uint32(), strings.Repeat("x", rng.IntN(500))))
		case 3, 4:
			_, err = ks.HSet(ctx, key, Field{fmt.Appendf(nil, "f%d", rng.IntN(4)), fmt.Append(nil, rng.Uint32())}, Field{[]byte("g"), nil})
		case 5:
			_, err = ks.HDel(ctx, key, []byte("g"), fmt.Appendf(nil, "f%d", rng.IntN(4)))
		case 6:
			err = db.Update(ctx, func(tx *Txn) error {
				_, err := tx.Delete(ks, key)
				if err == nil {
					_, err = tx.HSet(ks, key, Field{[]byte("new"), nil})
				}
				return err
			})
		}
		if err != nil && !errors.Is(err, ErrWrongType) {
			t.Error(err)
		}
	}
}

func TestTheFeedRebuildsTheStoreOverRestarts(t *testing.T) {
	for _, stores := range []int{1, 3} {
		t.Run(fmt.Sprintf("stores=%d", stores), func(t *testing.T) {
			seed := seedOf(t)
			o := memoryOptions(stores)
			r, cursor := newReplica(), Cursor("")
			for life := range uint64(3) {
				db := mustOpen(t, o)
				for i := range uint64(3) {
					var wg sync.WaitGroup
					for w := range uint64(3) {
						wg.Go(func() { writeRandom(t, db, rand.New(rand.NewPCG(seed, life<<8|i<<4|w)), scaleRounds(40)) })
					}
					if i == 1 { // while they write
						cursor = r.drainFeed(t, db, cursor)
					}
					wg.Wait()
					cursor = r.drainFeed(t, db, cursor)
					r.compareWithStore(t, db)
				}
				mustClose(t, db)
			}
		})
	}
}

func TestTheFeedGoesOnFromAnyCursor(t *testing.T) {
	db := openSmall(t, 1)
	writeRandom(t, db, rand.New(rand.NewPCG(seedOf(t), 1)), 200)
	last := db.Head()
	var all []Change
	read := func(from Cursor) (changes []Change) {
		for c, err := range db.Feed(ctx, FeedOptions{From: from}) {
			must(t, err)
			changes = append(changes, c)
			if c.After == last {
				break
			}
		}
		return changes
	}
	all = read("")
	if len(all) < 100 {
		t.Fatalf("%d changes: the test shows nothing", len(all))
	}
	for i := 0; i < len(all)-1; i += 1 + len(all)/20 {
		rest := read(all[i].After)
		if !slices.EqualFunc(rest, all[i+1:], func(a, b Change) bool { return a.After == b.After && fmt.Sprint(a) == fmt.Sprint(b) }) {
			t.Fatalf("behind change %d come %d changes, want %d", i, len(rest), len(all)-1-i)
		}
	}
}

func TestTheFeedSaysThatAPlaceIsGone(t *testing.T) {
	db := mustOpen(t, tinyOptions(wal.Never, nil, store.NewMemFS()))
	defer db.Close()
	ks := db.Default()
	must(t, ks.Set(ctx, []byte("first"), nil))
	early := db.Head()
	for i := range 400 {
		must(t, ks.Set(ctx, numberKey(i), make([]byte, 4000)))
	}
	var err error
	for deadline := time.Now().Add(30 * time.Second); !errors.Is(err, ErrGone) && time.Now().Before(deadline); {
		for _, err = range db.Feed(ctx, FeedOptions{From: early}) {
			break
		}
		must(t, ks.Set(ctx, []byte("more"), make([]byte, 4000))) // recycling is in the background
	}
	if !errors.Is(err, ErrGone) {
		t.Fatalf("feed from an early place: %v, want ErrGone", err)
	}
	now := db.Head()
	must(t, ks.Set(ctx, []byte("last"), []byte("v")))
	for c, err := range db.Feed(ctx, FeedOptions{From: now}) {
		must(t, err)
		if string(c.Ops[0].Key) != "last" {
			t.Errorf("behind now comes %s", c.Ops[0].Key)
		}
		break
	}
	for _, bad := range []Cursor{"x", "1-2", "-"} {
		for _, err := range db.Feed(ctx, FeedOptions{From: bad}) {
			if !errors.Is(err, ErrOptions) {
				t.Errorf("cursor %q: %v, want ErrOptions", bad, err)
			}
		}
	}
}

// A reader that takes its time keeps neither the log nor Close waiting, and
// gets the error that the store was closed.
func TestAReaderOfTheFeedDoesNotHoldUpTheStore(t *testing.T) {
	db := openSmall(t, 1)
	ks := db.Default()
	must(t, ks.Set(ctx, []byte("a"), nil))
	inside, goOn, over := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		for _, err := range db.Feed(ctx, FeedOptions{}) {
			if err != nil {
				over <- err
				return
			}
			inside <- struct{}{}
			<-goOn
		}
	}()
	<-inside
	mustClose(t, db) // while the reader is at work
	close(goOn)
	if err := <-over; !errors.Is(err, ErrClosed) {
		t.Errorf("the reader hears %v, want ErrClosed", err)
	}
}

func TestAReaderThatWaitsHearsThatTheStoreWasClosed(t *testing.T) {
	db := openSmall(t, 2)
	over := make(chan error)
	go func() {
		for _, err := range db.Feed(ctx, FeedOptions{From: db.Head()}) {
			over <- err
			return
		}
	}()
	time.Sleep(20 * time.Millisecond) // most of the time it waits by now
	mustClose(t, db)
	select {
	case err := <-over:
		if !errors.Is(err, ErrClosed) {
			t.Errorf("it hears %v, want ErrClosed", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("it hears nothing")
	}
}

// brokenFS is a file system on which files cannot be renamed any more, as the
// log does with each segment.
type brokenFS struct {
	store.FS
	broken *atomic.Bool
}

func (f brokenFS) Rename(from, to string) error {
	if f.broken.Load() {
		return errors.New("the disk is gone")
	}
	return f.FS.Rename(from, to)
}

// A reader that waits for a store that has failed would wait for ever.
func TestAReaderThatWaitsHearsThatTheStoreHasFailed(t *testing.T) {
	var broken atomic.Bool
	db := mustOpen(t, tinyOptions(wal.Always, nil, brokenFS{store.NewMemFS(), &broken}))
	defer db.Close()
	over := make(chan error, 1)
	go func() {
		for _, err := range db.Feed(ctx, FeedOptions{From: db.Head()}) {
			if err != nil {
				over <- err
				return
			}
		}
	}()
	broken.Store(true)
	ks := db.Default()
	var err error
	for i := 0; err == nil && i < 2000; i++ {
		err = ks.Set(ctx, []byte("a"), make([]byte, 10_000))
	}
	checkRefused(t, "a write", err, ErrFailed)
	select {
	case err := <-over:
		checkRefused(t, "the reader", err, ErrFailed)
	case <-time.After(30 * time.Second):
		t.Error("the reader hears nothing")
	}
}

// A hash that is made anew where one had expired has none of its fields.
func TestTheFeedTellsAHashThatIsMadeAnew(t *testing.T) {
	clock := newClock()
	o := memoryOptions(1)
	o.Wall, o.HousekeepInterval = clock.ms.Load, -1
	db := mustOpen(t, o)
	defer db.Close()
	ks := db.Default()
	hset := func(name string) {
		_, err := ks.HSet(ctx, []byte("h"), Field{Name: []byte(name), Value: []byte("v")})
		must(t, err)
	}
	hset("old")
	_, err := ks.Expire(ctx, []byte("h"), time.Second)
	must(t, err)
	clock.advance(2 * time.Second)
	hset("new")
	hset("newer")
	r := newReplica()
	cursor := r.drainFeed(t, db, "")
	r.compareWithStore(t, db)
	for more := true; more; { // sweeps
		more, err = db.node.StoreHosts()[0].GroupHosts()[0].Group.Housekeep(ctx)
		must(t, err)
	}
	r.drainFeed(t, db, cursor)
	r.compareWithStore(t, db)
}

// A transaction across stores is reported in the order in which it wrote, whichever store has
// the hash: what it deleted is gone.
func TestTheFeedTellsATransactionInItsOrder(t *testing.T) {
	for n := range 2 {
		db := openSmall(t, 2)
		ks := db.Default()
		h, other := firstAndLastKey(db, n)[0], firstAndLastKey(db, 1-n)[0]
		_, err := ks.HSet(ctx, h, Field{[]byte("old"), nil})
		must(t, err)
		must(t, db.Update(ctx, func(tx *Txn) error {
			if _, err := tx.HSet(ks, h, Field{[]byte("field"), nil}); err != nil {
				return err
			}
			if _, err := tx.Delete(ks, h); err != nil {
				return err
			}
			return tx.Set(ks, other, nil)
		}))
		_, err = db.StableHead(ctx)
		must(t, err)
		r := newReplica()
		r.drainFeed(t, db, "")
		r.compareWithStore(t, db)
	}
}

// What a write costs while others read the feed, and wait for more.
func BenchmarkFeedReaders(b *testing.B) {
	for _, readers := range []int{0, 1, 10, 100} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			db, err := OpenMemory(Options{})
			must(b, err)
			defer db.Close()
			c, cancel := context.WithCancel(ctx)
			var wg sync.WaitGroup
			for range readers {
				wg.Go(func() {
					for _, err := range db.Feed(c, FeedOptions{From: db.Head()}) {
						if err != nil {
							return
						}
					}
				})
			}
			value := make([]byte, 100)
			for i := 0; b.Loop(); i++ {
				must(b, db.Default().Set(ctx, numberKey(i%1000), value))
			}
			cancel()
			wg.Wait()
		})
	}
}

// What a change costs a reader that is far behind.
func BenchmarkFeedBehind(b *testing.B) {
	db, err := OpenMemory(Options{})
	must(b, err)
	defer db.Close()
	value := make([]byte, 100)
	const changes = 100_000
	from := db.Head()
	for i := range changes {
		must(b, db.Default().Set(ctx, numberKey(i%1000), value))
	}
	to := db.Head()
	for b.Loop() {
		for _, err := range db.Feed(ctx, FeedOptions{From: from, Until: to}) {
			must(b, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/changes, "ns/change")
}
