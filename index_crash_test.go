package cleave

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/wal"
)

// slowSyncs is a disk whose syncs wait while it is slow.
type slowSyncs struct {
	slow    atomic.Bool
	quicker chan struct{}
}

func (s *slowSyncs) String() string { return "slow syncs" }

// MaybeError implements [errorfs.Injector].
func (s *slowSyncs) MaybeError(op errorfs.Op) error {
	if s.slow.Load() && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) {
		<-s.quicker
	}
	return nil
}

// A row whose deletion a crash takes back has its entries, though the index was built
// meanwhile, and had passed its place.
func TestARowThatACrashBringsBackIsIndexed(t *testing.T) {
	disks := newCrashables(2)
	o := disks.options(wal.Never)
	o.Groups = 2
	second := &slowSyncs{quicker: make(chan struct{})}
	all := []store.FS{disks[0].FS(), errorfs.Wrap(disks[1].FS(), second)}
	o.FS = func(i int) store.FS { return all[i] }
	db := mustOpen(t, o)
	ks := rangeSpace(t, db, "rows")
	for _, key := range []string{"deleted", "there"} {
		must(t, ks.Set(ctx, []byte(key), []byte("v")))
	}
	mustDo(t, db, Split{Keyspace: ks, At: [][]byte{[]byte("there")}})
	moveTo(t, ks, "deleted", 1)
	moveTo(t, ks, "there", 0)
	var good atomic.Bool
	x := IndexOptions{Name: "x", Keyspace: ks, Function: "f", Extract: func(r IndexRow) ([]IndexEntry, error) {
		if !good.Load() {
			return nil, errors.New("not yet") // the build stands still
		}
		return everything(r)
	}}
	ix, err := db.CreateIndex(ctx, x)
	must(t, err)
	moveTo(t, ix.entries, "", 0)
	for _, h := range db.node.Hosts() {
		must(t, h.Store.Sync())
	}
	second.slow.Store(true)
	_, err = ks.Delete(ctx, []byte("deleted"))
	must(t, err)
	good.Store(true)
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if at, err := ix.entries.Get(ctx, progress); err == nil && len(at) == 0 {
			break // else it waits for the slow disk
		}
	}
	must(t, db.node.Hosts()[0].Store.Sync()) // as any write of others does
	disks = disks.crash()
	close(second.quicker)
	mustClose(t, db)

	db = mustOpen(t, disks.options(wal.Never))
	defer mustClose(t, db)
	x.Keyspace, err = db.Keyspace("rows")
	must(t, err)
	if _, err := x.Keyspace.Get(ctx, []byte("deleted")); err != nil {
		t.Fatalf("the crash took nothing back: the test shows nothing: %v", err)
	}
	ix, err = db.OpenIndex(ctx, x)
	must(t, err)
	must(t, ix.Wait(ctx))
	verified(t, ix)
}

// moveTo gives the shard of a key to a group of a store, unless one has it.
func moveTo(t *testing.T, ks *Keyspace, key string, store int) {
	t.Helper()
	if at := ks.Locate([]byte(key)); at.Store != store {
		mustDo(t, ks.db, Move{Shard: at.Shard, To: groupOn(ks.db, store)})
	}
}
