package cleave

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/index"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/internal/testkit/tally"
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
	mustDo(t, db, SplitAtKeys(ks, []byte("there")))
	moveTo(t, ks, "deleted", 1)
	moveTo(t, ks, "there", 0)
	var good atomic.Bool
	x := IndexOptions{Name: "x", Keyspace: ks, Function: "f", Extract: func(r IndexRow) ([]IndexEntry, error) {
		if !good.Load() {
			return nil, errors.New("not yet") // the build stands still
		}
		return extractAll(r)
	}}
	ix, err := db.CreateIndex(ctx, x)
	must(t, err)
	moveTo(t, ix.Entries(), "", 0)
	for _, h := range db.node.StoreHosts() {
		must(t, h.Store.Sync())
	}
	second.slow.Store(true)
	_, err = ks.Delete(ctx, []byte("deleted"))
	must(t, err)
	good.Store(true)
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if at, err := ix.Entries().Get(ctx, index.MetaKey("progress")); err == nil && len(at) == 0 {
			break // else it waits for the slow disk
		}
	}
	must(t, db.node.StoreHosts()[0].Store.Sync()) // as any write of others does
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
	mustVerify(t, ix)
}

// moveTo gives the shard of a key to a group of a store, unless one has it.
func moveTo(t *testing.T, ks *Keyspace, key string, store int) {
	t.Helper()
	if at := ks.Locate([]byte(key)); at.Store != store {
		mustDo(t, ks.db, Move{Shard: at.Shard, To: groupOn(ks.db, store)})
	}
}

// killIndexDir tells a child process where to write rows that have indexes.
const killIndexDir = "CLEAVE_TEST_KILL_INDEX_DIR"

// killTestIndexes are the indexes of these tests, one of each kind. They hold what everything says of
// a row.
func killTestIndexes(ks *Keyspace) (all []IndexOptions) {
	for i, mode := range []IndexMode{Transactional, Asynchronous} {
		all = append(all, IndexOptions{Name: fmt.Sprint("all", i), Keyspace: ks, Mode: mode, Function: "all", Extract: extractAll})
	}
	return append(all, IndexOptions{Name: "mail", Keyspace: ks, Columns: "mail", Unique: true})
}

// After the process was killed, at any moment of writing, building, moving and dropping, every index
// says what its rows say, and every row that was acknowledged is found by its entries.
func TestIndexesAreRightAfterAKill(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(seedOf(t), 1))
	mails := map[string]bool{}
	kills := scaleRounds(1) + 1
	for range kills {
		killIndexes(t, dir, rng, mails)
		db, err := Open(dir, Options{})
		must(t, err)
		if _, err := db.Index("rows", "coming"); err == nil {
			must(t, db.DropIndex(ctx, "rows", "coming"))
		}
		checkKept(t, db, mails)
		mustClose(t, db)
	}
	tally.Add(t, "processes killed", kills)
	if len(mails) == 0 {
		t.Error("nothing was written: the test shows nothing")
	}
}

// killIndexes runs a child until it is killed, and notes what it has acknowledged.
func killIndexes(t *testing.T, dir string, rng *rand.Rand, mails map[string]bool) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), killIndexDir+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	last := 1 + rng.IntN(tally.Size(60, 20))
	for lines, n := bufio.NewScanner(out), 1; lines.Scan(); n++ {
		if n == last {
			time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
			must(t, child.Process.Kill())
		}
		mail, ok := strings.CutPrefix(lines.Text(), "mail ")
		if !ok {
			t.Errorf("the child says %q", lines.Text())
		}
		mails[mail] = true
	}
	_ = child.Wait()
}

// checkKept checks the indexes of a store that was opened again.
func checkKept(t *testing.T, db *DB, mails map[string]bool) {
	t.Helper()
	limited, cancel := context.WithTimeout(ctx, hangTimeout())
	defer cancel()
	ks, err := db.OpenKeyspace(ctx, KeyspaceOptions{Name: "rows", Slots: 64})
	must(t, err)
	for _, o := range killTestIndexes(ks) {
		ix := mustIndex(t, db, o)
		must(t, ix.index.WaitCaughtUp(limited))
		mustVerify(t, ix)
		if o.Mode == Transactional && o.Function != "" {
			_, err := saysAsRows(db, ix, extractAll)
			must(t, err)
		}
	}
	ix, err := db.Index("rows", "mail")
	must(t, err)
	for mail := range mails {
		item, err := ix.Get(ctx, mail)
		if err != nil || string(item.Key) != "of "+mail {
			t.Errorf("%s is that of %q: %v", mail, item.Key, err)
		}
	}
}

// killedIndexChild writes, and says so, for ever.
func killedIndexChild() {
	fail := func(err error) {
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	db, err := Open(os.Getenv(killIndexDir), Options{Stores: 2, Groups: 3})
	fail(err)
	ks, err := db.OpenKeyspace(ctx, KeyspaceOptions{Name: "rows", Slots: 64})
	fail(err)
	for _, o := range killTestIndexes(ks) {
		_, err := db.OpenIndex(ctx, o)
		fail(err)
	}
	if _, err := db.Index("rows", "coming"); err == nil { // its function is not declared
		fail(db.DropIndex(ctx, "rows", "coming"))
	}
	go func() { // and one that comes and goes
		for i := 0; ; i++ {
			o := killTestIndexes(ks)[i%2]
			o.Name = "coming"
			_, err := db.OpenIndex(ctx, o)
			fail(err)
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
			fail(db.DropIndex(ctx, "rows", "coming"))
		}
	}()
	go scribbleForEver(db, ks, fail)
	for i := 0; ; i++ {
		mail := fmt.Sprintf("%d-%d@example.org", os.Getpid(), i)
		_, err := ks.HSet(ctx, []byte("of "+mail), newFields("mail", mail)...)
		fail(err)
		_, _ = os.Stdout.WriteString("mail " + mail + "\n")
	}
}

// scribbleForEver writes rows at random, and moves shards.
func scribbleForEver(db *DB, ks *Keyspace, fail func(error)) {
	s := randomWriter{db, ks, rand.New(rand.NewPCG(rand.Uint64(), 1)), 100}
	for i := 0; ; i++ {
		fail(s.writeRandom())
		if i%50 == 0 {
			shards, err := db.Shards(ctx)
			fail(err)
			groups := db.Groups()
			// That it cannot be moved now is no mistake.
			_, _ = db.Start(ctx, Move{Shard: shards[rand.IntN(len(shards))].ID, To: groups[rand.IntN(len(groups))].ID})
		}
	}
}

// A backup that is taken while rows are written and indexes built opens as a store whose
// indexes are right, and has all that was acknowledged before.
func TestABackupHasIndexesThatAreRight(t *testing.T) {
	if testing.Short() {
		t.Skip("writes for long")
	}
	for _, stores := range []int{1, 3} {
		t.Run(fmt.Sprintf("stores=%d", stores), func(t *testing.T) {
			dir, seed := t.TempDir(), seedOf(t)
			db, err := Open(filepath.Join(dir, "db"), Options{Stores: stores})
			must(t, err)
			defer mustClose(t, db)
			ks, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "rows", Slots: 64})
			must(t, err)
			var mu sync.Mutex
			mails := map[string]bool{}
			stop, writers := make(chan struct{}), sync.WaitGroup{}
			work := func(f func(i int) error) {
				writers.Go(func() {
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						default:
							if err := f(i); err != nil {
								t.Error(err)
								return
							}
						}
					}
				})
			}
			s := randomWriter{db, ks, rand.New(rand.NewPCG(seed, 1)), 100}
			for range 300 {
				must(t, s.writeRandom())
			}
			work(func(int) error { time.Sleep(time.Millisecond); return s.writeRandom() })
			work(func(i int) error {
				mail := fmt.Sprintf("%d@example.org", i%500) // each index is built with all of them
				_, err := ks.HSet(ctx, []byte("of "+mail), newFields("mail", mail)...)
				mu.Lock()
				defer mu.Unlock()
				mails[mail] = err == nil
				time.Sleep(time.Millisecond)
				return err
			})
			for i := range min(scaleRounds(2), 10) {
				for _, o := range killTestIndexes(ks) {
					_, err := db.OpenIndex(ctx, o)
					must(t, err)
				}
				known := map[string]bool{}
				mu.Lock()
				for mail, written := range mails {
					if written {
						known[mail] = true
					}
				}
				mu.Unlock()
				to := filepath.Join(dir, fmt.Sprint("backup", i))
				must(t, db.Backup(ctx, to))
				restored := mustOpen(t, node.Options{Dir: to})
				checkKept(t, restored, known)
				must(t, restored.Default().Set(ctx, []byte("k"), nil))
				mustClose(t, restored)
				if i%2 == 0 { // the next one is of indexes that are being built
					for _, o := range killTestIndexes(ks) {
						must(t, db.DropIndex(ctx, "rows", o.Name))
					}
				}
			}
			close(stop)
			writers.Wait()
		})
	}
}
