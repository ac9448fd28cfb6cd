package cleave

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/tally"
	"github.com/cleavekv/cleave/internal/wal"
)

var ctx = context.Background()

// soaking multiplies what random tests do.
func soaking(n int) int {
	if os.Getenv("CLEAVE_SOAK") != "" {
		return 15 * n
	}
	if testing.Short() {
		return max(n/4, 1)
	}
	return n
}

// hanging is how long something may take that hangs if it is wrong.
func hanging() time.Duration {
	if os.Getenv("CLEAVE_PLANT") != "" {
		return 3 * time.Second // the bug is there: say so
	}
	return time.Minute
}

func seedOf(t *testing.T) uint64 { return tally.Seed(t, ".") }

// machineClock is a machine's clock that a test turns.
type machineClock struct{ ms atomic.Int64 }

func newClock() *machineClock {
	c := new(machineClock)
	c.ms.Store(1 << 40)
	return c
}

func (c *machineClock) pass(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// tiny are options under which segments are filled, applied and recycled all
// the time.
func tiny(d wal.Durability, clock *machineClock, disks ...store.FS) node.Options {
	o := node.Options{
		Stores: len(disks), Durability: d, FS: func(i int) store.FS { return disks[i] },
		Store: store.Options{
			SegmentBytes: 64 << 10, CacheBytes: 64 << 10, BlockCacheBytes: 64 << 10,
			RetainBytes: -1, FlushBytes: 128 << 10,
		},
	}
	if clock != nil {
		o.Wall = clock.ms.Load
	}
	return o
}

// memory are tiny options in memory.
func memory(stores int) node.Options {
	disks := make([]store.FS, stores)
	for i := range disks {
		disks[i] = store.Memory()
	}
	o := tiny(wal.Never, nil, disks...)
	o.Store.RetainBytes = 64 << 20
	return o
}

// small opens a store in memory, which is closed with the test.
func small(t testing.TB, stores int) *DB {
	t.Helper()
	db := mustOpen(t, memory(stores))
	t.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
	return db
}

func mustOpen(t testing.TB, o node.Options) *DB {
	t.Helper()
	db, err := openNode(o)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func mustClose(t testing.TB, db *DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func rangeSpace(t testing.TB, db *DB, name string) *Keyspace {
	t.Helper()
	ks, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: name, Kind: Range})
	if err != nil {
		t.Fatal(err)
	}
	return ks
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func number(i int) []byte { return fmt.Appendf(nil, "%06d", i) }
