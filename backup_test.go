package cleave

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/internal/testkit/tally"
)

// onDisk opens a store with small segments in a real directory.
func onDisk(t testing.TB, dir string, stores int) *DB {
	t.Helper()
	return mustOpen(t, node.Options{Dir: dir, Stores: stores, Store: store.Options{SegmentBytes: 64 << 10, CacheBytes: 64 << 10}})
}

// Pairs of keys are written together while backups are taken. In each backup
// the two are the same, and all that was acknowledged before it is there.
func TestABackupUnderLoadIsConsistent(t *testing.T) {
	for _, stores := range []int{1, 3} {
		t.Run(fmt.Sprintf("stores=%d", stores), func(t *testing.T) {
			dir := t.TempDir()
			db := onDisk(t, filepath.Join(dir, "db"), stores)
			defer db.Close()
			const writers = 3
			var acknowledged [writers]int
			var mu sync.Mutex
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(w), 1))
					for n := 1; ; n++ {
						select {
						case <-stop:
							return
						default:
						}
						must(t, writeTogether(db, w, n, rng.IntN(3000)))
						mu.Lock()
						acknowledged[w] = n
						mu.Unlock()
					}
				})
			}
			backups := scaleRounds(3)
			for b := range backups {
				mu.Lock()
				known := acknowledged
				mu.Unlock()
				// A keyspace that is made meanwhile is whole or not there at all.
				made := rangeSpace(t, db, fmt.Sprint("made", b))
				must(t, made.Set(ctx, []byte("k"), nil))
				to := filepath.Join(dir, fmt.Sprint("backup", b))
				must(t, db.Backup(ctx, to))
				checkBackup(t, to, known[:])
			}
			close(stop)
			wg.Wait()
			t.Logf("%d backups while %v pairs were written", backups, acknowledged)
		})
	}
}

// pairOf are two keys of a writer, most of them on different stores if there are some.
func pairOf(writer int) [2][]byte {
	return [2][]byte{fmt.Appendf(nil, "%d a", writer), fmt.Appendf(nil, "%d z", writer)}
}

func writeTogether(db *DB, writer, n, size int) error {
	value := append(numberKey(n), make([]byte, size)...)
	return db.Update(ctx, func(tx *Txn) error {
		for _, key := range pairOf(writer) {
			if err := tx.Set(db.Default(), key, value); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkBackup opens a backup as a store of its own.
func checkBackup(t *testing.T, dir string, known []int) {
	db := onDisk(t, dir, 0)
	defer db.Close()
	for w, n := range known {
		pair := pairOf(w)
		a, errA := db.Default().Get(ctx, pair[0])
		b, errB := db.Default().Get(ctx, pair[1])
		if n == 0 && errA != nil && errB != nil {
			continue
		}
		must(t, errA)
		must(t, errB)
		if string(a) != string(b) {
			t.Errorf("writer %d: %s in one key and %s in the other", w, a[:6], b[:6])
		}
		if string(a[:6]) < string(numberKey(n)) {
			t.Errorf("writer %d: %s, but %d was acknowledged before", w, a[:6], n)
		}
	}
	must(t, db.Default().Set(ctx, []byte("own"), []byte("life")))
	fresh := rangeSpace(t, db, "fresh")
	if page, err := fresh.ScanPage(ctx, ScanOptions{}); err != nil || len(page.Items) > 0 {
		t.Errorf("a new keyspace of the backup has %d keys, %v", len(page.Items), err)
	}
}

func TestABackupIsRefusedWhereItWouldDoHarm(t *testing.T) {
	dir := t.TempDir()
	db := onDisk(t, filepath.Join(dir, "db"), 1)
	defer db.Close()
	must(t, db.Default().Set(ctx, []byte("a"), nil))
	full := filepath.Join(dir, "full")
	must(t, os.Mkdir(full, 0o700))
	must(t, os.WriteFile(filepath.Join(full, "mine"), nil, 0o600))
	for name, to := range map[string]string{
		"a directory with something in it": full,
		"the store itself":                 filepath.Join(dir, "db"),
	} {
		if err := db.Backup(ctx, to); !errors.Is(err, fs.ErrExist) {
			t.Errorf("to %s: %v, want fs.ErrExist", name, err)
		}
	}
	if err := db.Backup(ctx, filepath.Join(full, "mine")); err == nil {
		t.Error("to a file: no error")
	}
	if entries, _ := os.ReadDir(full); len(entries) != 1 {
		t.Errorf("a refused backup has left %d entries", len(entries))
	}
	if err := openMemoryBackup(t, filepath.Join(dir, "mem")); !errors.Is(err, ErrOptions) {
		t.Errorf("of a store in memory: %v, want ErrOptions", err)
	}
	// One that is cut short leaves nothing, and can be repeated.
	ended, cancel := context.WithCancel(ctx)
	cancel()
	to := filepath.Join(dir, "cut")
	if err := db.Backup(ended, to); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	must(t, db.Backup(ctx, to))
	checkBackup(t, to, nil)
}

func openMemoryBackup(t *testing.T, to string) error {
	db, err := OpenMemory(Options{})
	must(t, err)
	defer db.Close()
	return db.Backup(ctx, to)
}

// Part of a backup is no store.
func TestAStoreThatLacksAPartIsDamaged(t *testing.T) {
	for _, part := range []string{"0", "1", "2"} {
		dir := filepath.Join(t.TempDir(), "db")
		db := onDisk(t, dir, 3)
		for i := range 100 {
			must(t, db.Default().Set(ctx, numberKey(i), nil))
		}
		mustClose(t, db)
		must(t, os.RemoveAll(filepath.Join(dir, part)))
		for range 2 { // the second time as well
			if _, err := Open(dir, Options{}); !errors.Is(err, ErrCorrupt) {
				t.Errorf("without part %s: %v, want ErrCorrupt", part, err)
			}
		}
	}
}

// Where a disk is not mounted there is an empty directory. It is not taken for a new store,
// nothing is written to it, and with the disk all is there again.
func TestAStoreWhoseDiskIsNotMountedIsRefusedAndLeftAlone(t *testing.T) {
	for i, part := range []string{"0", "1", "2", "0"} {
		dir := filepath.Join(t.TempDir(), "db")
		stores := 3
		if i == 3 {
			stores = 1
		}
		db := onDisk(t, dir, stores)
		for i := range 100 {
			must(t, db.Default().Set(ctx, numberKey(i), nil))
		}
		mustClose(t, db)
		place, disk := filepath.Join(dir, part), filepath.Join(t.TempDir(), "disk")
		must(t, os.Rename(place, disk))
		must(t, os.Mkdir(place, 0o700))
		for range 2 { // the second time as well
			db, err := Open(dir, Options{})
			checkRefused(t, "without the disk of "+part, err, ErrCorrupt, place, "mount")
			if err == nil {
				mustClose(t, db)
			}
		}
		if left := listFiles(t, place); left != place+"\n" {
			t.Errorf("in the place of the disk there is now\n%s", left)
		}
		must(t, os.RemoveAll(place))
		must(t, os.Rename(disk, place))
		db = onDisk(t, dir, 0)
		for i := range 100 {
			if _, err := db.Default().Get(ctx, numberKey(i)); err != nil {
				t.Errorf("with the disk of %s again, key %d: %v", part, i, err)
			}
		}
		mustClose(t, db)
	}
}

// Disks that are mounted in each other's place, or one directory of a backup among those of
// the present, are refused: keys would seem to be gone, and transactions half done.
func TestStoresOutOfPlaceAreRefused(t *testing.T) {
	top := t.TempDir()
	dir, copied, used := filepath.Join(top, "db"), filepath.Join(top, "copy"), filepath.Join(top, "used")
	db := onDisk(t, dir, 3)
	for i := range 100 {
		must(t, db.Default().Set(ctx, numberKey(i), nil))
	}
	must(t, db.Backup(ctx, copied))
	must(t, db.Backup(ctx, used))
	mustClose(t, db)
	mustClose(t, onDisk(t, used, 0))
	exchange := func(a, b string) {
		aside := filepath.Join(top, "aside")
		must(t, os.Rename(a, aside))
		must(t, os.Rename(b, a))
		must(t, os.Rename(aside, b))
	}
	for i, c := range []struct{ name, a, b, says string }{
		{"the first two exchanged", filepath.Join(dir, "0"), filepath.Join(dir, "1"), filepath.Join(dir, "1")},
		{"the last two exchanged", filepath.Join(dir, "1"), filepath.Join(dir, "2"), filepath.Join(dir, "2")},
		{"the first of a backup", filepath.Join(dir, "0"), filepath.Join(copied, "0"), "backup"},
		{"the last of a backup", filepath.Join(dir, "2"), filepath.Join(copied, "2"), "backup"},
		{"the first of a backup that was used", filepath.Join(dir, "0"), filepath.Join(used, "0"), "backup"},
		{"the last of a backup that was used", filepath.Join(dir, "2"), filepath.Join(used, "2"), "backup"},
	} {
		exchange(c.a, c.b)
		for range tally.Size(2, 2-i%2) { // the second time as well
			db, err := Open(dir, Options{})
			checkRefused(t, c.name, err, ErrCorrupt, c.a, c.says)
			if err == nil {
				mustClose(t, db)
			}
		}
		exchange(c.a, c.b)
	}
	for _, whole := range []string{dir, copied, used} {
		db := onDisk(t, whole, 0)
		for i := range 100 {
			if _, err := db.Default().Get(ctx, numberKey(i)); err != nil {
				t.Errorf("%s, key %d: %v", whole, i, err)
			}
		}
		mustClose(t, db)
	}
}

// A restored copy writes other changes at the positions of the original, so a cursor
// of the one says nothing of the other.
func TestACursorOfTheOriginalIsNotOneOfTheCopy(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(filepath.Join(dir, "original"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	must(t, db.Default().Set(ctx, []byte("k"), nil))
	must(t, db.Backup(ctx, filepath.Join(dir, "copy")))
	cursor := db.Head()
	mustClose(t, db)
	if db, err = Open(filepath.Join(dir, "copy"), Options{}); err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, db)
	for _, err := range db.Feed(ctx, FeedOptions{From: cursor}) {
		if !errors.Is(err, ErrGone) {
			t.Errorf("the copy takes the cursor: %v, want ErrGone", err)
		}
		break
	}
}

// A backup that is made while shards go from store to store, and keyspaces are made,
// has every key once.
func TestABackupIsWholeWhileShardsMove(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(filepath.Join(dir, "data"), Options{Stores: 2, Groups: 4, Durability: Never})
	must(t, err)
	ks := rangeSpace(t, db, "r")
	const keys = 300
	backups := min(scaleRounds(2), 10)
	for i := range keys {
		must(t, ks.Set(ctx, numberKey(i), []byte("v")))
	}
	var stop atomic.Bool
	moved := make(chan error, 1)
	go func() {
		for i := 0; !stop.Load(); i++ {
			job, err := db.Start(ctx, Move{Shard: shardAt(ks, "0"), To: groupOnOtherStore(ks, "0")})
			if err == nil {
				_, err = job.Wait(ctx)
			}
			if err == nil && i < 30 {
				_, err = db.CreateKeyspace(ctx, KeyspaceOptions{Name: fmt.Sprint("made", i), Kind: Range})
			}
			if err != nil {
				moved <- err
				return
			}
		}
		moved <- nil
	}()
	for i := range backups {
		must(t, db.Backup(ctx, filepath.Join(dir, fmt.Sprint(i))))
	}
	stop.Store(true)
	must(t, <-moved)
	mustClose(t, db)
	for i := range backups {
		db, err := Open(filepath.Join(dir, fmt.Sprint(i)), Options{})
		must(t, err)
		for _, k := range db.Keyspaces() {
			must(t, k.Set(ctx, []byte("z"), []byte("z")))
		}
		ks, err := db.Keyspace("r")
		must(t, err)
		for i := range keys {
			if v, err := ks.Get(ctx, numberKey(i)); err != nil || string(v) != "v" {
				t.Fatalf("key %d: %q, %v", i, v, err)
			}
		}
		jobs, err := db.Jobs(ctx)
		must(t, err)
		for _, s := range jobs {
			job, err := db.Job(ctx, s.ID)
			must(t, err)
			_, err = job.Wait(ctx)
			must(t, err)
		}
		noLeftovers(t, db, ks)
		mustClose(t, db)
	}
}

// A backup that waits for a range on its way heeds its context, and leaves nothing behind
// that blocks another call.
func TestABackupThatWaitsForAJobMayBeLeft(t *testing.T) {
	frozen, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	o, err := Options{Stores: 2}.toNodeOptions(t.TempDir())
	must(t, err)
	o.OnJob = func(j mover.Job) {
		if j.Phase == mover.Finishing {
			once.Do(func() { close(frozen); <-goOn })
		}
	}
	db := mustOpen(t, o)
	defer mustClose(t, db)
	ks, key := db.Default(), string(keyOn(db, 1))
	job := mustStart(t, db, Move{Shard: shardAt(ks, key), To: groupOnOtherStore(ks, key)})
	<-frozen
	limited, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	checkRefused(t, "a backup", db.Backup(limited, filepath.Join(t.TempDir(), "b")), context.DeadlineExceeded)
	close(goOn)
	_, err = job.Wait(ctx)
	must(t, err)
	must(t, db.Backup(ctx, filepath.Join(t.TempDir(), "b")))
}

// putBack replaces a directory by a copy.
func putBack(t *testing.T, copied, dir string) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(copied))); err != nil {
		t.Fatal(err)
	}
}

// awaitWitnesses waits until every store has noted how far the others are.
func awaitWitnesses(t *testing.T, db *DB) {
	t.Helper()
	fresh := func() bool {
		for _, witness := range db.node.StoreHosts() {
			seen := witness.Store.PeerEnds()
			if !slices.EqualFunc(db.node.StoreHosts(), seen, func(h *node.StoreHost, end wal.Position) bool { return h.Store.LogEnd() == end }) {
				return false
			}
		}
		return true
	}
	waitUntil(t, "the stores have noted how far the others are", fresh)
}

// One store of several is put back to an older copy: after a clean end, and after one
// that was not. A half of what was committed together would be gone.
func TestStores_OnePutBack_IsRefused(t *testing.T) {
	for store, clean := range map[string]bool{"0": true, "1": false} {
		t.Run(fmt.Sprintf("clean %v", clean), func(t *testing.T) {
			dir, aside := filepath.Join(t.TempDir(), "data"), t.TempDir()
			open := func(o Options) (*DB, error) {
				no, err := o.toNodeOptions(dir)
				if err != nil {
					return nil, err
				}
				no.Store.SegmentBytes = 64 << 10 // copies are small
				return openNode(no)
			}
			write := func(db *DB, from, to int) {
				for i := from; i < to; i++ {
					if err := db.Default().Set(t.Context(), fmt.Appendf(nil, "key%d", i), []byte("value")); err != nil {
						t.Fatal(err)
					}
				}
			}
			db, err := open(Options{Stores: 2})
			if err != nil {
				t.Fatal(err)
			}
			write(db, 0, 50)
			if err := errors.Join(db.Close(), os.CopyFS(filepath.Join(aside, "old"), os.DirFS(dir))); err != nil {
				t.Fatal(err)
			}
			if db, err = open(Options{}); err != nil {
				t.Fatal(err)
			}
			write(db, 50, 250)
			if !clean {
				awaitWitnesses(t, db)
				// Nothing is written, so a copy is what a kill leaves.
				if err := os.CopyFS(filepath.Join(aside, "killed"), os.DirFS(dir)); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if !clean {
				putBack(t, filepath.Join(aside, "killed"), dir)
			}
			putBack(t, filepath.Join(aside, "old", store), filepath.Join(dir, store))
			db, err = open(Options{})
			if err == nil {
				lost := 0
				for i := range 250 {
					if _, err := db.Default().Get(t.Context(), fmt.Appendf(nil, "key%d", i)); err != nil {
						lost++
					}
				}
				t.Fatalf("store %s was put back, %d writes are gone, and Open is content: %v", store, lost, db.Close())
			}
			if !errors.Is(err, ErrDataLoss) || !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), filepath.Join(dir, store)) {
				t.Errorf("store %s: %v", store, err)
			}
			var log bytes.Buffer
			db, err = open(Options{AcceptDataLoss: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatalf("store %s, with AcceptDataLoss: %v", store, err)
			}
			if !strings.Contains(log.String(), "accepted data loss") || !strings.Contains(log.String(), filepath.Join(dir, store)) {
				t.Errorf("store %s: it logs %q", store, log.String())
			}
			other := filepath.Join(dir, map[string]string{"0": "1", "1": "0"}[store])
			if !strings.Contains(log.String(), "transactions across stores") || !strings.Contains(log.String(), "the stores in "+other+" may keep") {
				t.Errorf("store %s: it does not say that transactions with %s may be there in part: %q", store, other, log.String())
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if db, err = open(Options{}); err != nil {
				t.Fatalf("store %s, when the loss was accepted: %v", store, err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			// The stores of one moment are whole, however old.
			putBack(t, filepath.Join(aside, "old"), dir)
			if db, err = open(Options{}); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
