package table

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
	"github.com/cleavekv/cleave/internal/testkit/smallstore"
	"github.com/cleavekv/cleave/key"
)

// stuckDisk is a disk that answers no read of rows while it is held.
type stuckDisk struct {
	held    sync.RWMutex
	waiting atomic.Int64
}

func (d *stuckDisk) String() string { return "stuck" }

// MaybeError implements errorfs.Injector.
func (d *stuckDisk) MaybeError(op errorfs.Op) error {
	if op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") {
		d.waiting.Add(1)
		d.held.RLock()
		d.waiting.Add(-1)
		d.held.RUnlock()
	}
	return nil
}

// The rows of all salts are on a disk that answers nothing: a read has asked for all of them by then. One after
// another it would have asked for one.
func TestScan_SaltsOnADisk_WaitTogether(t *testing.T) {
	const salts = 24
	disk := new(stuckDisk)
	files := errorfs.Wrap(vfs.NewMem(), disk)
	open := func() (*cleave.DB, *Table) {
		db, err := smallstore.Open("disk", cleave.Options{Stores: 1, Groups: 1, Durability: cleave.Never, BlockCacheBytes: 8 << 20}, files)
		if err != nil {
			t.Fatal(err)
		}
		ks, err := db.OpenKeyspace(background, cleave.KeyspaceOptions{Name: "rows", Kind: cleave.Range, Layout: fmt.Sprintf("salt(%d) | n:int", salts)})
		if err != nil {
			t.Fatal(err)
		}
		return db, must(Open(db, ks, Options{}))
	}
	db, table := open()
	name := fmt.Sprintf("salt(%d)", salts)
	for salt := range salts {
		value := make([]byte, 64<<10) // has a block of its own
		for i := range value {
			value[i] = byte(rand.Uint32()) // which no compression makes small
		}
		if err := table.Append(background, key.Columns{name: salt, "n": salt}, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db, table = open()
	defer db.Close()
	if _, err := table.Get(background, key.Columns{name: 0, "n": 0}); err != nil { // what all reads need is in memory then
		t.Fatal(err)
	}
	disk.held.Lock()
	done := make(chan error)
	go func() {
		rows, err := collectRows(table.Scan(background, Query{}))
		for i, r := range rows {
			if n := must(Column[int64](r, "n")); n != int64(i) {
				err = fmt.Errorf("row %d is number %d", i, n)
			}
		}
		if err == nil && len(rows) != salts {
			err = fmt.Errorf("%d rows", len(rows))
		}
		done <- err
	}()
	const enough = salts / 2 // some may be in one block, or in memory
	if !eventually.Within(eventually.Limit(), func() bool { return disk.waiting.Load() >= enough }) {
		t.Errorf("%d reads wait for the disk, want %d at the same time", disk.waiting.Load(), enough)
	}
	disk.held.Unlock()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
