package cleave

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/store"
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
			backups := soaking(3)
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
	value := append(number(n), make([]byte, size)...)
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
		if string(a[:6]) < string(number(n)) {
			t.Errorf("writer %d: %s, but %d was acknowledged before", w, a[:6], n)
		}
	}
	must(t, db.Default().Set(ctx, []byte("own"), []byte("life")))
	fresh := rangeSpace(t, db, "fresh")
	if page, err := fresh.Scan(ctx, ScanOptions{}); err != nil || len(page.Items) > 0 {
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
			must(t, db.Default().Set(ctx, number(i), nil))
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
			must(t, db.Default().Set(ctx, number(i), nil))
		}
		mustClose(t, db)
		place, disk := filepath.Join(dir, part), filepath.Join(t.TempDir(), "disk")
		must(t, os.Rename(place, disk))
		must(t, os.Mkdir(place, 0o700))
		for range 2 { // the second time as well
			db, err := Open(dir, Options{})
			refused(t, "without the disk of "+part, err, ErrCorrupt, place, "mount")
			if err == nil {
				mustClose(t, db)
			}
		}
		if left := listing(t, place); left != place+"\n" {
			t.Errorf("in the place of the disk there is now\n%s", left)
		}
		must(t, os.RemoveAll(place))
		must(t, os.Rename(disk, place))
		db = onDisk(t, dir, 0)
		for i := range 100 {
			if _, err := db.Default().Get(ctx, number(i)); err != nil {
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
		must(t, db.Default().Set(ctx, number(i), nil))
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
	for _, c := range []struct{ name, a, b, says string }{
		{"the first two exchanged", filepath.Join(dir, "0"), filepath.Join(dir, "1"), filepath.Join(dir, "1")},
		{"the last two exchanged", filepath.Join(dir, "1"), filepath.Join(dir, "2"), filepath.Join(dir, "2")},
		{"the first of a backup", filepath.Join(dir, "0"), filepath.Join(copied, "0"), "backup"},
		{"the last of a backup", filepath.Join(dir, "2"), filepath.Join(copied, "2"), "backup"},
		{"the first of a backup that was used", filepath.Join(dir, "0"), filepath.Join(used, "0"), "backup"},
		{"the last of a backup that was used", filepath.Join(dir, "2"), filepath.Join(used, "2"), "backup"},
	} {
		exchange(c.a, c.b)
		for range 2 { // the second time as well
			db, err := Open(dir, Options{})
			refused(t, c.name, err, ErrCorrupt, c.a, c.says)
			if err == nil {
				mustClose(t, db)
			}
		}
		exchange(c.a, c.b)
	}
	for _, whole := range []string{dir, copied, used} {
		db := onDisk(t, whole, 0)
		for i := range 100 {
			if _, err := db.Default().Get(ctx, number(i)); err != nil {
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
	cursor := db.Now()
	mustClose(t, db)
	if db, err = Open(filepath.Join(dir, "copy"), Options{}); err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, db)
	for _, err := range db.Feed(ctx, cursor) {
		if !errors.Is(err, ErrGone) {
			t.Errorf("the copy takes the cursor: %v, want ErrGone", err)
		}
		break
	}
}
