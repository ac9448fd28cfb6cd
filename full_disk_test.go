package cleave

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/partition"
)

// fullDisk is a disk without room for tables while it is on.
type fullDisk struct {
	vfs.FS
	on atomic.Bool
}

func newFullDisk() *fullDisk {
	f := &fullDisk{}
	f.FS = errorfs.Wrap(vfs.NewMem(), f)
	return f
}

// GetDiskUsage implements [vfs.FS]: a disk in memory would not report it, and count as full only for
// a moment. The log has room.
func (f *fullDisk) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	if f.on.Load() && f.PathBase(path) != "log" {
		return vfs.DiskUsage{}, nil
	}
	return vfs.DiskUsage{AvailBytes: 1 << 40, TotalBytes: 1 << 40}, nil
}

// MaybeError implements [errorfs.Injector].
func (f *fullDisk) MaybeError(op errorfs.Op) error {
	if f.on.Load() && (op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpFileWrite) && strings.HasSuffix(op.Path, ".sst") {
		return syscall.ENOSPC
	}
	return nil
}

func (f *fullDisk) String() string { return "full" }

// fillStore writes keys of a store, which has the disk, until it refuses.
func (f *fullDisk) fillStore(t *testing.T, db *DB, store int) {
	t.Helper()
	f.on.Store(true)
	ks := db.Default()
	var err error
	for i := 0; err == nil; i++ {
		key := fmt.Appendf(nil, "fill %d", i%1000)
		if db.node.GroupHostAt(ks.keyspace.AppendPosition(nil, key)).Host == db.node.StoreHosts()[store] {
			err = ks.Set(ctx, key, make([]byte, 1000+i%50))
		}
	}
	if !errors.Is(err, ErrDiskFull) {
		t.Fatalf("the disk is full: %v", err)
	}
}

// close closes the stores. What the full one had begun may have met that a moment ago: then it
// says that it has to replay.
func (f *fullDisk) close(t *testing.T, db *DB) {
	t.Helper()
	if err := db.Close(); err != nil && !errors.Is(err, ErrDiskFull) {
		t.Error(err)
	}
}

// firstAndLastKey returns the first and the last of some keys of a store.
func firstAndLastKey(db *DB, store int) [2][]byte {
	var keys [][]byte
	at := func(key []byte) partition.Position { return db.Default().keyspace.AppendPosition(nil, key) }
	for i := 0; len(keys) < 100; i++ {
		if key := fmt.Appendf(nil, "end %d", i); db.node.GroupHostAt(at(key)).Host == db.node.StoreHosts()[store] {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b []byte) int { return bytes.Compare(at(a), at(b)) })
	return [2][]byte{keys[0], keys[99]}
}

// A move of shards off a store without room makes some: the job begins, goes on and
// ends, though its record is on that store too. So does the drop of a keyspace or an index.
func TestAJobFreesRoomOnAFullDisk(t *testing.T) {
	f := newFullDisk()
	db := mustOpen(t, tinyOptions(wal.Never, nil, f, store.NewMemFS()))
	ks := db.Default()
	key := firstAndLastKey(db, 0)[0]
	must(t, ks.Set(ctx, key, []byte("0")))
	shard := shardAt(ks, string(key))
	gone := rangeSpace(t, db, "gone")
	must(t, gone.Set(ctx, key, []byte("0")))
	full := db.node.StoreHosts()[0]
	if db.node.GroupHostAt(gone.keyspace.Span().Start).Host != full {
		mustDo(t, db, Move{Shard: shardAt(gone, string(key)), To: groupOnOtherStore(gone, string(key))})
	}
	mustIndex(t, db, IndexOptions{Name: "gone", Keyspace: rangeSpace(t, db, "kept"), Columns: "name"})
	f.fillStore(t, db, 0)
	must(t, db.DropKeyspace(ctx, "gone"))
	must(t, db.DropIndex(ctx, "kept", "gone"))
	limited, cancel := context.WithTimeout(ctx, hangTimeout())
	defer cancel()
	job := mustStart(t, db, Move{Shard: shard, To: groupOnOtherStore(ks, string(key))})
	if s, err := job.Wait(limited); err != nil {
		t.Fatalf("the move: %v: %+v", err, s)
	}
	must(t, ks.Set(limited, key, []byte("1")))
	for _, span := range []partition.Span{db.Map().Find(ks.keyspace.AppendPosition(nil, key)).Span, gone.keyspace.Span()} {
		waitUntil(t, fmt.Sprintf("no row is left in %v", span), func() bool {
			left := 0
			from, to := effect.Rows.SpanBetween(span.Start, span.End)
			must(t, full.Store.Scan(from, to, false, func(_, _ []byte) bool { left++; return true }))
			return left == 0
		})
	}
	last := firstAndLastKey(db, 0)[1]
	if err := ks.Set(ctx, last, nil); !errors.Is(err, ErrDiskFull) {
		t.Errorf("the disk was not full any more: %v", err)
	}
	f.on.Store(false)
	waitUntil(t, "the store has room again", func() bool { return !errors.Is(ks.Set(ctx, last, nil), ErrDiskFull) })
	f.close(t, db)
}

// A store without room refuses: no caller gets an unknown outcome, whichever
// store decides, and nothing stays locked on the other.
func TestATransactionOnAFullDiskIsRefusedAndLocksNothing(t *testing.T) {
	f := newFullDisk()
	db := mustOpen(t, tinyOptions(wal.Never, newClock(), f, store.NewMemFS()))
	ks := db.Default()
	full, room := firstAndLastKey(db, 0), firstAndLastKey(db, 1)
	for i := range 2 {
		must(t, ks.Set(ctx, room[i], []byte("0")))
		must(t, ks.Set(ctx, full[i], []byte("0")))
	}
	f.fillStore(t, db, 0)
	for i := range 4 {
		full, room := full[i%2], room[1-i%2] // the first in order decides
		limited, cancel := context.WithTimeout(ctx, hangTimeout())
		err := db.Update(limited, func(tx *Txn) error {
			if _, err := tx.Add(ks, room, 1); err != nil {
				return err
			}
			_, err := tx.Add(ks, full, 1)
			return err
		})
		cancel()
		if !errors.Is(err, ErrDiskFull) || errors.Is(err, ErrUnknown) {
			t.Errorf("the transaction: %v", err)
		}
		// The clock stands still: its locks would stay if the coordinator group had to write that it is aborted.
		limited, cancel = context.WithTimeout(ctx, hangTimeout())
		if err := ks.Set(limited, room, []byte("5")); err != nil {
			t.Errorf("the store that has room: %v", err)
		}
		cancel()
	}
	f.on.Store(false)
	waitUntil(t, "the store has room again", func() bool { return !errors.Is(ks.Set(ctx, full[0], []byte("1")), ErrDiskFull) })
	must(t, db.Update(ctx, func(tx *Txn) error {
		if _, err := tx.Add(ks, room[1], 1); err != nil {
			return err
		}
		_, err := tx.Add(ks, full[0], 1)
		return err
	}))
	waitUnlocked(t, db)
	f.close(t, db)
}

// On a store without room shards go from group to group, where they are read all the time.
func TestAMoveWithinAFullStoreEnds(t *testing.T) {
	f := newFullDisk()
	o := tinyOptions(wal.Never, nil, f, store.NewMemFS())
	o.Groups = 4
	db := mustOpen(t, o)
	ks := db.Default()
	key := string(firstAndLastKey(db, 0)[0])
	must(t, ks.Set(ctx, []byte(key), []byte("0")))
	var to GroupID
	for _, g := range db.Groups() {
		if g.Store == 0 && g.ID != groupAt(ks, key) {
			to = g.ID
		}
	}
	f.fillStore(t, db, 0)
	limited, cancel := context.WithTimeout(ctx, hangTimeout())
	defer cancel()
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 2 { // transactions of several groups that are refused, at the same time
		wg.Go(func() {
			for !stop.Load() {
				var b Batch
				for i := range 10 {
					b.Set(ks, fmt.Appendf(nil, "fill %d", i), nil)
				}
				_ = db.Write(limited, &b)
			}
		})
	}
	for range 5 {
		from := groupAt(ks, key)
		if s, err := mustStart(t, db, Move{Shard: shardAt(ks, key), To: to}).Wait(limited); err != nil {
			t.Fatalf("the move: %v: %+v", err, s)
		}
		if v, err := ks.Get(limited, []byte(key)); err != nil || string(v) != "0" {
			t.Fatalf("%s is %q, %v", key, v, err)
		}
		to = from
	}
	stop.Store(true)
	wg.Wait()
	f.on.Store(false)
	f.close(t, db)
}

// A keyspace that finds no room is not made, and keeps no shard from leaving the full store.
// One that is emptied there is: that makes room. The store opens again as full as it is.
func TestAKeyspaceThatFindsNoRoomIsInNobodysWay(t *testing.T) {
	f := newFullDisk()
	o := tinyOptions(wal.Always, nil, store.NewMemFS(), f) // the catalog has room
	db := mustOpen(t, o)
	ks := db.Default()
	key := string(firstAndLastKey(db, 1)[0])
	must(t, ks.Set(ctx, []byte(key), []byte("0")))
	emptied, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "emptied"})
	must(t, err)
	must(t, emptied.Set(ctx, []byte(key), []byte("0")))
	f.fillStore(t, db, 1)
	if _, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "new"}); !errors.Is(err, ErrDiskFull) {
		t.Errorf("a keyspace is made on a full disk: %v", err)
	}
	must(t, db.node.EmptyKeyspace(ctx, emptied.keyspace))
	limited, cancel := context.WithTimeout(ctx, hangTimeout())
	defer cancel()
	if s, err := mustStart(t, db, Move{Shard: shardAt(ks, key), To: groupOnOtherStore(ks, key)}).Wait(limited); err != nil {
		t.Errorf("a move off the full store: %v: %+v", err, s)
	}
	f.close(t, db)
	db = mustOpen(t, o)
	defer f.close(t, db)
	if emptied, err = db.Keyspace("emptied"); err == nil {
		_, err = emptied.Get(limited, []byte(key))
	}
	if !errors.Is(err, ErrNotFound) {
		t.Errorf("what was emptied: %v", err)
	}
	f.on.Store(false)
}

// Emptying a keyspace makes room, though the catalog is on the full disk too.
func TestAKeyspaceIsEmptiedOnAFullDisk(t *testing.T) {
	f := newFullDisk()
	db := mustOpen(t, tinyOptions(wal.Never, nil, f))
	f.fillStore(t, db, 0)
	must(t, db.node.EmptyKeyspace(ctx, db.Default().keyspace))
	f.on.Store(false)
	f.close(t, db)
}
