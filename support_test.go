package cleave

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
	"github.com/cleavekv/cleave/internal/testkit/tally"
	"github.com/cleavekv/cleave/partition"
)

var ctx = context.Background()

// scaleRounds multiplies what random tests do.
func scaleRounds(n int) int { return tally.Rounds(n, 15) }

// hangTimeout is how long something may take that hangs if it is wrong.
func hangTimeout() time.Duration { return eventually.Limit() }

func seedOf(t *testing.T) uint64 { return tally.Seed(t, ".") }

// machineClock is a machine's clock that a test turns.
type machineClock struct{ ms atomic.Int64 }

func newClock() *machineClock {
	c := new(machineClock)
	c.ms.Store(1 << 40)
	return c
}

func (c *machineClock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// tinyOptions are options under which segments are filled, applied and recycled all
// the time.
func tinyOptions(d wal.Durability, clock *machineClock, disks ...store.FS) node.Options {
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

// memoryOptions are tiny options in memory.
func memoryOptions(stores int) node.Options {
	disks := make([]store.FS, stores)
	for i := range disks {
		disks[i] = store.NewMemFS()
	}
	o := tinyOptions(wal.Never, nil, disks...)
	o.Store.RetainBytes = 64 << 20
	return o
}

// openSmall opens a store in memory, which is closed with the test.
func openSmall(t testing.TB, stores int) *DB {
	t.Helper()
	db := mustOpen(t, memoryOptions(stores))
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

func numberKey(i int) []byte { return fmt.Appendf(nil, "%06d", i) }

func TestMain(m *testing.M) {
	if os.Getenv(killDir) != "" {
		killedChild() // does not return
	}
	if os.Getenv(killIndexDir) != "" {
		killedIndexChild() // nor does this
	}
	// A store takes long to open and is worth more the longer it is used: fewer
	// runs of more steps, unless the caller says otherwise.
	set := map[string]string{"rapid.checks": "15", "rapid.steps": "100"}
	for name, value := range set {
		if f := flag.Lookup(name); f != nil {
			_ = f.Value.Set(value)
		}
	}
	os.Exit(m.Run())
}

// crashDisk is a disk that crashes. The file system below takes a lock twice
// while it makes a lock file, which a crash in between would turn into a
// deadlock: so the two exclude each other.
type crashDisk struct {
	*store.CrashableFS
	locking sync.Mutex
}

func newCrashDisk() *crashDisk { return &crashDisk{CrashableFS: store.NewCrashableFS()} }

// FS is where a store puts its files.
func (d *crashDisk) FS() store.FS { return crashFS{d.CrashableFS.FS(), &d.locking} }

// Crash returns what a machine finds after a crash now.
func (d *crashDisk) Crash(percent int, rng *rand.Rand) *crashDisk {
	d.locking.Lock()
	defer d.locking.Unlock()
	return &crashDisk{CrashableFS: d.CrashableFS.Crash(percent, rng)}
}

type crashFS struct {
	store.FS
	locking *sync.Mutex
}

func (f crashFS) Lock(name string) (io.Closer, error) {
	f.locking.Lock()
	defer f.locking.Unlock()
	return f.FS.Lock(name)
}

// attemptsBeforeReserve is how often a transaction tries before it asks others to wait, as in package
// engine.
const attemptsBeforeReserve = 3

// txnScanPageKeys is how many keys a scan of a transaction reads ahead, as in package engine.
const txnScanPageKeys = 256

// findGroupHost returns the part of the node that has a position.
func (k *Keyspace) findGroupHost(p partition.Position) *node.GroupHost {
	return k.db.node.GroupHostAt(p)
}
