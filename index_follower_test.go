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

	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/internal/testkit/tally"
	"github.com/cleavekv/cleave/key"
)

func TestAnIndexThatFollowsIsFreshWhenItSaysSo(t *testing.T) {
	for _, stores := range []int{1, 3} {
		t.Run(fmt.Sprint("stores=", stores), func(t *testing.T) {
			clock := newClock()
			o := memoryOptions(stores)
			o.Wall, o.HousekeepInterval = clock.ms.Load, -1
			db := mustOpen(t, o)
			defer func() { mustClose(t, db) }()
			ks := db.Default()
			_, err := ks.HSet(ctx, []byte("old"), newFields("age", "1")...)
			must(t, err)
			open := func() *Index {
				return mustIndex(t, db, IndexOptions{Name: "age", Mode: Asynchronous, Columns: "age:int", Stored: []string{"name"}})
			}
			ix := open()
			expectFound(t, ix, IndexScanOptions{Fresh: true}, `(1)=old`)
			_, err = ks.HSet(ctx, []byte("a"), newFields("age", "7", "name", "ann")...)
			must(t, err)
			_, err = ks.HSet(ctx, []byte("b"), newFields("age", "7x")...) // it is not refused
			must(t, err)
			must(t, ks.Set(ctx, []byte("c"), nil))
			expectFound(t, ix, IndexScanOptions{Fresh: true}, `(1)=old (7)=a`)
			_, err = ks.HSet(ctx, []byte("a"), newFields("name", "eve")...)
			must(t, err)
			page, err := ix.ScanPage(ctx, IndexScanOptions{Fresh: true, Prefix: key.Tuple{7}, Rows: true})
			if must(t, err); len(page.Items) != 1 || string(page.Items[0].Fields[0].Value) != "eve" || string(page.Items[0].Row.Field("age")) != "7" {
				t.Errorf("found %+v", page.Items)
			}
			var status IndexStatus
			waitUntil(t, "it has read what it writes itself", func() bool {
				status, err = ix.Status()
				must(t, err)
				return status.BehindBytes == 0
			})
			if !status.Ready || status.Err != nil || status.Refused == 0 || status.Behind != 0 || status.BehindBytes != 0 {
				t.Errorf("%+v", status)
			}
			_, err = ks.Expire(ctx, []byte("a"), time.Second)
			must(t, err)
			_, err = ks.Delete(ctx, []byte("old"), []byte("none"))
			must(t, err)
			expectFound(t, ix, IndexScanOptions{Fresh: true}, `(7)=a`)
			mustVerify(t, ix)
			clock.advance(2 * time.Second)
			expectFound(t, ix, IndexScanOptions{Fresh: true}, ``) // the row is not removed yet
			_, err = ks.HSet(ctx, []byte("d"), newFields("age", "4")...)
			must(t, err)
			mustClose(t, db)
			db = mustOpen(t, o)
			expectFound(t, open(), IndexScanOptions{Fresh: true}, `(4)=d`)
			mustVerify(t, open())
		})
	}
}

// A transaction across stores is acknowledged before what it has written is in the feed.
// A scan right after finds it, whatever else happens to the shards.
func TestAnIndexThatFollowsHasWhatATransactionAcrossStoresWrote(t *testing.T) {
	seed := seedOf(t)
	o := memoryOptions(3)
	o.Groups = 5
	db := mustOpen(t, o)
	defer mustClose(t, db)
	ks, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "k", Slots: 64})
	must(t, err)
	ix := mustIndex(t, db, IndexOptions{Name: "round", Keyspace: ks, Mode: Asynchronous, Columns: "round:int"})
	var did tally.Counts
	stop, all := make(chan struct{}), sync.WaitGroup{}
	all.Go(func() { moveShards(t, db, rand.New(rand.NewPCG(seed, 7)), stop, &did) })
	for round := range scaleRounds(300) {
		before := db.Metrics().Transactions.TwoPhase
		must(t, db.Update(ctx, func(tx *Txn) error {
			for i := range 4 {
				if _, err := tx.HSet(ks, fmt.Append(nil, "row", i), newFields("round", strconv.Itoa(round))...); err != nil {
					return err
				}
			}
			return nil
		}))
		did.Add("across stores", int(db.Metrics().Transactions.TwoPhase-before))
		expectFound(t, ix, IndexScanOptions{Fresh: true}, fmt.Sprintf("(%[1]d)=row0 (%[1]d)=row1 (%[1]d)=row2 (%[1]d)=row3", round))
		if t.Failed() {
			break
		}
	}
	close(stop)
	all.Wait()
	did.Log(t, "across stores", "moves")
}

// An index whose function is not declared stands still and says so; writes to the rows
// of a transactional one are refused.
func TestFunctionsHaveToBeDeclaredAgain(t *testing.T) {
	o := memoryOptions(1)
	db := mustOpen(t, o)
	late := IndexOptions{Name: "late", Mode: Asynchronous, Function: "all", Version: "1", Extract: extractAll}
	now := IndexOptions{Name: "now", Function: "all", Version: "1", Extract: extractAll}
	mustIndex(t, db, late)
	mustIndex(t, db, now)
	must(t, db.Default().Set(ctx, []byte("a"), []byte("1")))
	mustClose(t, db)
	db = mustOpen(t, o)
	defer func() { mustClose(t, db) }()
	ks := db.Default()
	if err := ks.Set(ctx, []byte("a"), []byte("2")); !errors.Is(err, ErrUndeclared) {
		t.Errorf("Set: %v", err)
	}
	if err := db.Update(ctx, func(tx *Txn) error { return tx.Set(ks, []byte("b"), []byte("2")) }); !errors.Is(err, ErrUndeclared) {
		t.Errorf("Update: %v", err)
	}
	if value, err := ks.Get(ctx, []byte("a")); string(value) != "1" {
		t.Errorf("a is %q: %v", value, err)
	}
	ix, err := db.Index("default", "late")
	must(t, err)
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if err := toPublicError(ix.index.WaitCaughtUp(short)); !errors.Is(err, ErrUndeclared) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("WaitFresh: %v", err)
	}
	if status, err := ix.Status(); err != nil || !errors.Is(status.Err, ErrUndeclared) {
		t.Errorf("%+v: %v", status, err)
	}
	ready, err := db.Index("default", "now")
	must(t, err)
	if status, err := ready.Status(); err != nil || !errors.Is(status.Err, ErrUndeclared) {
		t.Errorf("the one that commits: %+v: %v", status, err)
	}
	other := now
	other.Version, other.Keyspace = "2", ks
	if _, err := db.OpenIndex(ctx, other); !errors.Is(err, ErrIndexExists) {
		t.Errorf("another version: %v", err)
	}
	ix = mustIndex(t, db, now)
	must(t, ks.Set(ctx, []byte("a"), []byte("2")))
	expectFound(t, ix, IndexScanOptions{}, `("value", "2")=a`)
	must(t, db.DropIndex(ctx, "default", "now"))
	must(t, ks.Set(ctx, []byte("a"), []byte("3")))
	expectFound(t, mustIndex(t, db, late), IndexScanOptions{Fresh: true}, `("value", "3")=a`)
}

// An index that was away for longer than the feed is kept is built anew, by itself.
func TestAnIndexThatTheFeedHasLeftBehindIsBuiltAnew(t *testing.T) {
	o := tinyOptions(wal.Never, nil, store.NewMemFS())
	o.HousekeepInterval = -1
	db := mustOpen(t, o)
	options := IndexOptions{Name: "all", Mode: Asynchronous, Function: "all", Extract: extractAll}
	mustIndex(t, db, options)
	must(t, db.Default().Set(ctx, []byte("gone"), []byte("1")))
	must(t, db.Default().Set(ctx, []byte("stays"), []byte("2")))
	ix := mustIndex(t, db, options)
	expectFound(t, ix, IndexScanOptions{Fresh: true}, `("value", "1")=gone ("value", "2")=stays`)
	mustClose(t, db)
	db = mustOpen(t, o) // without declaring the function
	defer func() { mustClose(t, db) }()
	_, err := db.Default().Delete(ctx, []byte("gone"))
	must(t, err)
	for i := range 2000 {
		must(t, db.Default().Set(ctx, numberKey(i%3), make([]byte, 1000)))
	}
	ix = mustIndex(t, db, options)
	limited, cancel := context.WithTimeout(ctx, hangTimeout())
	defer cancel()
	must(t, ix.index.WaitCaughtUp(limited))
	status, err := ix.Status()
	if must(t, err); status.Rebuilt != 1 {
		t.Errorf("%+v", status)
	}
	expectFound(t, ix, IndexScanOptions{Prefix: key.Tuple{"value", "1"}}, ``)
	expectFound(t, ix, IndexScanOptions{Prefix: key.Tuple{"value", "2"}}, `("value", "2")=stays`)
	mustVerify(t, ix)
}

// While an index is built more is written than the feed keeps. It is built once, also over
// a restart, and has what became of the rows meanwhile.
func TestAnIndexIsBuiltOnceHoweverMuchIsWritten(t *testing.T) {
	o := memoryOptions(1)
	written := tally.Size(8<<10, 2<<10) // for each row
	o.Store.RetainBytes = int64(128 * written)
	db := mustOpen(t, o)
	defer func() { mustClose(t, db) }()
	rangeSpace(t, db, "other")
	const rows = 500
	var b Batch
	for i := range rows {
		b.Set(db.Default(), numberKey(i), numberKey(i))
	}
	must(t, db.Write(ctx, &b))
	var built atomic.Bool
	options := IndexOptions{Name: "all", Mode: Asynchronous, Function: "all"}
	writer := func() func(IndexRow) ([]IndexEntry, error) {
		n, ks := 0, db.Default()
		other, err := db.Keyspace("other")
		must(t, err)
		return func(r IndexRow) ([]IndexEntry, error) {
			// As much for each row that is looked at: so it does not matter which is faster.
			if n++; !built.Load() {
				err := other.Set(ctx, []byte("key"), make([]byte, written))
				if n%16 == 0 && err == nil {
					if _, err = ks.Delete(ctx, numberKey(3*n%rows)); err == nil {
						err = ks.Set(ctx, numberKey(7*n%rows), []byte("new"))
					}
				}
				if err != nil && !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			}
			return extractAll(r)
		}
	}
	for life, until := range []func(IndexStatus) bool{
		func(s IndexStatus) bool { return s.Built > rows/2 },
		func(s IndexStatus) bool { return s.Ready },
	} {
		if life > 0 {
			mustClose(t, db)
			db = mustOpen(t, o)
		}
		options.Keyspace, options.Extract = db.Default(), writer()
		ix, err := db.OpenIndex(ctx, options)
		must(t, err)
		var status IndexStatus
		waitUntil(t, "the index gets so far", func() bool {
			status, err = ix.Status()
			must(t, err)
			return until(status) || status.Rebuilt > 0
		})
		// The second looks at half of the rows, and at the records of all.
		if status.Rebuilt > 0 || life > 0 && status.Built > rows/2+rows {
			t.Fatalf("in life %d it begins anew: %+v", life, status)
		}
	}
	built.Store(true)
	mustVerify(t, mustIndex(t, db, options))
}
