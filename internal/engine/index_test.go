package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/index"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/partition"
)

var ctx = context.Background()

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// memoryOptions are options of a small store in memory, which outlives the engine.
func memoryOptions() node.Options {
	disk := store.NewMemFS()
	return node.Options{
		Stores: 1, Durability: wal.Never, FS: func(int) store.FS { return disk },
		Store: store.Options{SegmentBytes: 64 << 10, CacheBytes: 64 << 10, BlockCacheBytes: 64 << 10, RetainBytes: 64 << 20, FlushBytes: 128 << 10},
	}
}

func mustOpen(t testing.TB, o node.Options) (*DB, *node.Keyspace) {
	t.Helper()
	db, err := Open(o)
	must(t, err)
	k, err := db.Node().Keyspace(node.DefaultKeyspace)
	must(t, err)
	return db, k
}

// mustIndex makes an index, or declares the function of the one that there is.
func mustIndex(t testing.TB, db *DB, k *node.Keyspace, d index.Definition, extract index.Extractor) *Index {
	t.Helper()
	d.Keyspace = k.Name
	d.NormalizeColumns()
	if extract == nil {
		var err error
		extract, err = index.NewExtractor(&d, k.Layout)
		must(t, err)
	}
	x, err := db.Node().Index(k.Name, d.Name)
	var ix *Index
	if errors.Is(err, node.ErrNoIndex) {
		ix, err = db.CreateIndex(ctx, k, d, extract)
	} else if err == nil {
		ix, err = db.DeclareIndex(x, extract)
	}
	must(t, err)
	return ix
}

// listRows returns the keys of the rows that an index finds.
func listRows(t testing.TB, ix *Index) (rows []string) {
	t.Helper()
	must(t, ix.WaitCaughtUp(ctx))
	x, err := ix.Readable(false)
	must(t, err)
	start, end := index.EntriesSpan()
	must(t, ix.Scan(ctx, x, IndexScan{ScanOptions: ScanOptions{Span: KeyRange(ix.Entries(), start, end)}}, func(e IndexEntry) bool {
		rows = append(rows, string(e.RowKey))
		return true
	}))
	return rows
}

// What a function is still looking at when the store is closed is looked at again.
func TestAnIndexThatFollowsSkipsNothingOverARestart(t *testing.T) {
	o := memoryOptions()
	db, k := mustOpen(t, o)
	entered, slow := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d := index.Definition{Name: "all", Mode: index.Asynchronous, Function: "all"}
	extract := index.ExtractFunc(func(r *index.Row) ([]index.FuncEntry, error) {
		once.Do(func() {
			close(entered)
			<-slow
		})
		return []index.FuncEntry{{Tuple: key.Tuple{string(r.Value)}}}, nil
	})
	mustIndex(t, db, k, d, extract)
	p := k.AppendPosition(nil, []byte("a"))
	if _, err := db.Execute(ctx, k, p, [16]byte{}, &command.Set{Key: p, Value: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	<-entered
	closed := make(chan error)
	go func() { closed <- db.Close() }()
	<-db.indexWorkers.ctx.Done()
	close(slow)
	must(t, <-closed)
	db, k = mustOpen(t, o)
	defer db.Close()
	if rows := listRows(t, mustIndex(t, db, k, d, extract)); !slices.Equal(rows, []string{"a"}) {
		t.Errorf("it finds %q", rows)
	}
}

// The worker of an index that was dropped ends, and nothing is kept of it.
func TestNobodyLooksAfterADroppedIndex(t *testing.T) {
	db, _ := mustOpen(t, memoryOptions())
	defer db.Close()
	for i := range 6 {
		k, err := db.Node().CreateKeyspace(ctx, partition.Keyspace{Name: "k", Kind: partition.Range})
		must(t, err)
		mustIndex(t, db, k, index.Definition{Name: "i", Mode: index.Mode(i % 2), Columns: "a"}, nil)
		if i < 3 {
			must(t, db.DropIndex(ctx, "k", "i"))
		}
		must(t, db.DropKeyspace(ctx, "k"))
	}
	db.indexWorkers.mu.Lock()
	defer db.indexWorkers.mu.Unlock()
	if n := len(db.indexWorkers.byEntries); n > 0 {
		t.Errorf("%d are looked after still", n)
	}
}

// One row after the other has a name, and expires, as those of leases do: what they have left
// is not read by all that come after them.
func TestANameThatManyRowsHadIsNoDearer(t *testing.T) {
	var nowMS atomic.Int64
	nowMS.Store(1 << 40)
	o := memoryOptions()
	o.Wall = nowMS.Load
	db, k := mustOpen(t, o)
	defer db.Close()
	ix := mustIndex(t, db, k, index.Definition{Name: "name", Columns: "name", Unique: true}, nil)
	must(t, ix.Wait(ctx))
	take := func(tx *Txn, row byte) error {
		p := k.AppendPosition(nil, []byte{row})
		if _, err := tx.Write(k, p, &command.HSet{Key: p, Fields: []command.FieldValue{{Field: []byte("name"), Value: []byte("n")}}}, true); err != nil {
			return err
		}
		_, err := tx.Write(k, p, &command.Expire{Key: p, Expiry: command.ExpireIn(1000)}, true)
		return err
	}
	for i := range byte(20) {
		reads := 0
		must(t, db.Update(ctx, func(tx *Txn) error {
			if err := take(tx, i); err != nil || i < 19 {
				return err
			}
			if err := tx.maintainIndexes(); err != nil {
				return err
			}
			err := tx.checkUnique()
			reads = len(tx.reads)
			return err
		}))
		if reads > 5 {
			t.Errorf("after %d rows another one reads %d", i, reads)
		}
		nowMS.Add(2000)
	}

	// The last one comes back while another finds that it is gone.
	attempts := 0
	err := db.Update(ctx, func(tx *Txn) error {
		if attempts++; attempts == 1 {
			must(t, take(tx, 20))
			must(t, tx.maintainIndexes())
			must(t, tx.checkUnique())
			return db.Update(ctx, func(tx *Txn) error { return take(tx, 19) })
		}
		return take(tx, 20)
	})
	if !errors.Is(err, ErrUnique) {
		t.Errorf("a name that was taken again: %v", err)
	}
	if rows := listRows(t, ix); !slices.Equal(rows, []string{"\x13"}) {
		t.Errorf("it finds %q", rows)
	}
}
