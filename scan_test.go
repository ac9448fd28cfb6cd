package cleave

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/internal/testkit/tally"
	"github.com/cleavekv/cleave/partition"
)

// A page looks into a few shards first. Most of these are empty, so it has to look
// into more, up to all of them.
func TestAPageIsTheSameWhereverShardsBegin(t *testing.T) {
	db := openSmall(t, 2)
	defer mustClose(t, db)
	ks := rangeSpace(t, db, "pages")
	const shards, every = 300, 40
	var at, keys [][]byte
	for i := range shards {
		if i > 0 {
			at = append(at, numberKey(10*i))
		}
		if i%every == 0 {
			keys = append(keys, numberKey(10*i), numberKey(10*i+1))
			must(t, ks.Set(ctx, numberKey(10*i), nil))
			must(t, ks.Set(ctx, numberKey(10*i+1), nil))
		}
	}
	job, err := db.Start(ctx, SplitAtKeys(ks, at...))
	must(t, err)
	_, err = job.Wait(ctx)
	must(t, err)
	for _, reverse := range []bool{false, true} {
		want := slices.Clone(keys)
		if reverse {
			slices.Reverse(want)
		}
		for _, limit := range []int{1, 3, len(keys), 2000} {
			o := ScanOptions{Limit: limit, Reverse: reverse}
			page, err := ks.ScanPage(ctx, o)
			must(t, err)
			samePage(t, fmt.Sprint("Scan ", o), page.Items, want[:min(limit, len(want))])
			must(t, db.Update(ctx, func(tx *Txn) error {
				var items []Item
				for item, err := range tx.Scan(ks, o) {
					if err != nil {
						return err
					}
					items = append(items, item)
				}
				samePage(t, fmt.Sprint("Txn.Scan ", o), items, want[:min(limit, len(want))])
				return tx.Set(ks, want[0], nil)
			}))
		}
	}
}

func samePage(t *testing.T, what string, got []Item, want [][]byte) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(item Item, key []byte) bool { return bytes.Equal(item.Key, key) }) {
		t.Errorf("%s: %d keys, want %d", what, len(got), len(want))
	}
}

// Fields lie behind the key that is locked for them: a reader of one in a view sees
// what was decided about the key.
func TestAViewSeesFieldsOfDecidedTransactions(t *testing.T) {
	db := openSmall(t, 3)
	defer mustClose(t, db)
	ks, keys := db.Default(), keyPerStore(db)
	name, other := []byte("n"), []byte("o")
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			must(t, db.Update(ctx, func(tx *Txn) error {
				for _, key := range keys {
					if _, err := tx.HAdd(ks, key, name, 1); err != nil {
						return err
					}
					if _, err := tx.HAdd(ks, key, other, 1); err != nil {
						return err
					}
				}
				return nil
			}))
		}
	})
	for range scaleRounds(300) {
		must(t, db.View(ctx, func(tx *Txn) error {
			seen := map[string]bool{}
			for _, key := range keys {
				one, _ := tx.HGet(ks, key, name)
				fields, err := tx.HGetAll(ks, key)
				if err != nil {
					return err
				}
				for _, f := range fields {
					seen[string(f.Value)] = true
				}
				seen[string(one)] = true
			}
			if len(seen) != 1 {
				t.Errorf("a view of several moments: %v", seen)
			}
			return nil
		}))
	}
	close(stop)
	wg.Wait()
}

// A transaction may scan more shards than it may read keys: those of one group count
// as one read.
func TestAScanOfManyShardsIsOneRead(t *testing.T) {
	db := openSmall(t, 2)
	ks := rangeSpace(t, db, "r")
	var at [][]byte
	for i := range 10_000 {
		at = append(at, numberKey(i))
	}
	mustDo(t, db, SplitAtKeys(ks, at...))
	must(t, db.Update(ctx, func(tx *Txn) error {
		for _, err := range tx.Scan(ks, ScanOptions{}) {
			if err != nil {
				return err
			}
		}
		return tx.Set(ks, numberKey(5), nil)
	}))
}

// So it is if others were in its way so often that it waits for its turn, and then
// commits in two phases: in one group, and in several.
func TestAScanOfManyShardsInItsTurnIsAReadForEachOwner(t *testing.T) {
	shards := tally.Size(10_000, 2_000)
	for _, apart := range []bool{false, true} {
		db := openSmall(t, 2)
		ks := rangeSpace(t, db, "r")
		var at [][]byte
		for i := range shards {
			at = append(at, numberKey(i))
		}
		mustDo(t, db, SplitAtKeys(ks, at...))
		if apart {
			mustDo(t, db, Move{Shard: shardAt(ks, string(numberKey(shards/2))), To: groupOnOtherStore(ks, string(numberKey(0)))})
		}
		attempts, seen := 0, 0
		must(t, db.Update(ctx, func(tx *Txn) error {
			attempts++
			seen = 0
			for _, err := range tx.Scan(ks, ScanOptions{}) {
				if seen++; err != nil {
					return err
				}
			}
			if attempts <= attemptsBeforeReserve {
				must(t, ks.Set(ctx, numberKey(100+attempts), []byte("in the way")))
			}
			return tx.Set(ks, numberKey(5), nil)
		}))
		if n := db.Metrics().Transactions; attempts != attemptsBeforeReserve+1 || seen != attemptsBeforeReserve || n.TwoPhase == 0 {
			t.Errorf("apart %v: %d keys in attempt %d, %+v", apart, seen, attempts, n)
		}
	}
}

// Whatever a scan has met of shards, and however they are cut before the commit: a key
// that comes into any of them is noticed, whether the commit takes one phase or two.
func TestWhatComesIntoAnyShardOfAScanIsNoticed(t *testing.T) {
	for _, apart := range []bool{false, true} {
		db := openSmall(t, 2)
		ks := rangeSpace(t, db, "r")
		mustDo(t, db, SplitAtKeys(ks, numberKey(100), numberKey(200), numberKey(300)))
		home := groupOnOtherStore(ks, string(numberKey(0)))
		if apart {
			mustDo(t, db, Move{Shard: shardAt(ks, string(numberKey(300))), To: home})
		}
		for i, come := range []int{50, 120, 180, 250, 350} {
			attempts, seen := 0, 0
			must(t, db.Update(ctx, func(tx *Txn) error {
				attempts++
				seen = 0
				for _, err := range tx.Scan(ks, ScanOptions{}) {
					if seen++; err != nil {
						return err
					}
				}
				if attempts == 1 {
					must(t, ks.Set(ctx, numberKey(come), nil))
					mustDo(t, db, SplitAtKeys(ks, numberKey(140+i)))
				}
				return tx.Set(ks, numberKey(999), nil)
			}))
			if want := i + 1 + min(i, 1); attempts < 2 || seen != want {
				t.Errorf("apart %v, %d: %d keys in attempt %d, want %d in a later one", apart, come, seen, attempts, want)
			}
		}
		two := db.Metrics().Transactions.TwoPhase
		if (two > 0) != apart {
			t.Errorf("apart %v: %d transactions took two phases", apart, two)
		}
	}
}

// A map that was cut anew since the scan is no conflict.
func TestAShardThatIsCutIsNoConflictOfAScan(t *testing.T) {
	db := openSmall(t, 2)
	ks := rangeSpace(t, db, "r")
	mustDo(t, db, SplitAtKeys(ks, numberKey(100), numberKey(200)))
	mustDo(t, db, Move{Shard: shardAt(ks, string(numberKey(200))), To: groupOnOtherStore(ks, string(numberKey(0)))})
	attempts := 0
	must(t, db.Update(ctx, func(tx *Txn) error {
		attempts++
		for _, err := range tx.Scan(ks, ScanOptions{}) {
			if err != nil {
				return err
			}
		}
		if attempts == 1 {
			mustDo(t, db, SplitAtKeys(ks, numberKey(150)))
		}
		return tx.Set(ks, numberKey(5), nil)
	}))
	if attempts != 1 {
		t.Errorf("%d attempts", attempts)
	}
}

// Maps from before may have a shard with what comes before the first slot of a hash keyspace, which
// is nothing. A transaction that has scanned the keyspace leaves no lock there.
func TestAScanOfAHashKeyspaceBeginsWithItsFirstSlot(t *testing.T) {
	db := openSmall(t, 2)
	ks, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "h", Slots: 1})
	must(t, err)
	must(t, ks.Set(ctx, numberKey(0), nil))
	begin, first := ks.keyspace.Span().Start, ks.keyspace.SlotSpan(0).Start
	ordered := partition.Keyspace{ID: ks.keyspace.ID, Kind: Range} // of a hash keyspace it would be refused
	job, err := db.node.StartJob(ctx, mover.Request{
		Kind: mover.Split, Shard: db.node.Map().Find(begin).ID, In: &ordered, At: []partition.Position{first},
	})
	must(t, err)
	_, err = job.Wait(ctx)
	must(t, err)
	mustDo(t, db, Move{Shard: db.node.Map().Find(first).ID, To: groupOnOtherStore(ks, string(numberKey(0)))})
	for i := range 2 {
		must(t, db.Update(ctx, func(tx *Txn) error {
			for _, err := range tx.Scan(ks, ScanOptions{}) {
				if err != nil {
					return err
				}
			}
			return tx.Set(db.Default(), keyOn(db, i), nil)
		}))
	}
	must(t, db.node.ResolveDecided(ctx))
	for _, p := range db.node.GroupHosts() {
		for _, l := range p.Group.ListLocks() {
			t.Errorf("%v is locked in %v, and nobody ends that", l.Span(), p.ID)
		}
	}
}

// Too many scans are open, which is an error of the caller that opens another one. A shard that
// changes hands meanwhile is served all the same.
func TestAShardIsTakenOverBesideTooManyScans(t *testing.T) {
	o := tinyOptions(wal.Never, nil, store.NewMemFS())
	o.Groups = 2
	var db *DB
	var held []*store.Snapshot
	o.OnJob = func(j mover.Job) {
		for j.Phase == mover.Releasing {
			snap, err := db.node.StoreHosts()[0].Store.Snapshot()
			if errors.Is(err, store.ErrTooManySnapshots) {
				return
			}
			must(t, err)
			held = append(held, snap)
			for i := range 40 {
				must(t, db.Default().Set(ctx, fmt.Appendf(nil, "fill %d", i), make([]byte, 10<<10)))
			}
		}
	}
	db = mustOpen(t, o)
	ks := db.Default()
	must(t, ks.Set(ctx, []byte("k"), []byte("0")))
	limited, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	s, err := mustStart(t, db, Move{Shard: shardAt(ks, "k"), To: 3 - groupAt(ks, "k")}).Wait(limited)
	if err != nil || len(held) == 0 {
		t.Fatalf("the move, with %d snapshots: %v: %+v", len(held), err, s)
	}
	if v, err := ks.Get(limited, []byte("k")); err != nil || string(v) != "0" {
		t.Errorf("it is %q, %v", v, err)
	}
	if err := ks.Set(limited, []byte("k"), nil); err != nil {
		t.Error(err)
	}
	for _, snap := range held {
		snap.Close()
	}
	mustClose(t, db)
}

// valueSizes are short ones, and those around the sizes of what a scan copies together.
var valueSizes = []int{0, 1, 12, 100, 1<<10 - 1, 1 << 10, 1<<10 + 1, 4 << 10, 12 << 10}

func TestItemsOfAScanAreTheCallersOwn(t *testing.T) {
	db := openSmall(t, 1)
	k := rangeSpace(t, db, "own")
	const rows = 200
	value := func(i int) []byte {
		return bytes.Repeat([]byte{byte(i)}, valueSizes[i%len(valueSizes)])
	}
	for i := range rows {
		must(t, k.Set(ctx, numberKey(i), value(i)))
	}
	var items []Item
	for item, err := range k.Scan(ctx, ScanOptions{}) {
		must(t, err)
		items = append(items, item)
	}
	for i := 0; i < len(items); i += 2 { // every other one is spoiled
		_ = append(items[i].Key, "more"...)
		clear(items[i].Key)
		_ = append(items[i].Value, "more"...)
		clear(items[i].Value)
	}
	page, err := k.ScanPage(ctx, ScanOptions{})
	must(t, err)
	if len(items) != rows || len(page.Items) != rows {
		t.Fatalf("%d and %d rows, want %d", len(items), len(page.Items), rows)
	}
	for i, item := range page.Items {
		if i%2 != 0 && (!bytes.Equal(items[i].Key, item.Key) || !bytes.Equal(items[i].Value, item.Value)) {
			t.Errorf("item %d changed with its neighbours", i)
		}
		if !bytes.Equal(item.Key, numberKey(i)) || item.Value == nil || !bytes.Equal(item.Value, value(i)) {
			t.Errorf("row %d is %q with %d bytes", i, item.Key, len(item.Value))
		}
	}
}
