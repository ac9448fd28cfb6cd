package cleave

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/tally"
)

// killIndexDir tells a child process where to write rows that have indexes.
const killIndexDir = "CLEAVE_TEST_KILL_INDEX_DIR"

// kept are the indexes of these tests, one of each kind. They hold what everything says of
// a row.
func kept(ks *Keyspace) (all []IndexOptions) {
	for i, mode := range []IndexMode{Transactional, Asynchronous} {
		all = append(all, IndexOptions{Name: fmt.Sprint("all", i), Keyspace: ks, Mode: mode, Function: "all", Extract: everything})
	}
	return append(all, IndexOptions{Name: "mail", Keyspace: ks, Columns: "mail", Unique: true})
}

// After the process was killed, at any moment of writing, building, moving and dropping, every index
// says what its rows say, and every row that was acknowledged is found by its entries.
func TestIndexesAreRightAfterAKill(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(seedOf(t), 1))
	mails := map[string]bool{}
	kills := soaking(1) + 1
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
	last := 1 + rng.IntN(60)
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
	limited, cancel := context.WithTimeout(ctx, hanging())
	defer cancel()
	ks, err := db.OpenKeyspace(ctx, KeyspaceOptions{Name: "rows", Slots: 64})
	must(t, err)
	for _, o := range kept(ks) {
		ix := mustIndex(t, db, o)
		must(t, ix.waitNow(limited))
		verified(t, ix)
		if o.Mode == Transactional && o.Function != "" {
			_, err := saysAsRows(db, ix, everything)
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
	for _, o := range kept(ks) {
		_, err := db.OpenIndex(ctx, o)
		fail(err)
	}
	if _, err := db.Index("rows", "coming"); err == nil { // its function is not declared
		fail(db.DropIndex(ctx, "rows", "coming"))
	}
	go func() { // and one that comes and goes
		for i := 0; ; i++ {
			o := kept(ks)[i%2]
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
		_, err := ks.HSet(ctx, []byte("of "+mail), fields("mail", mail)...)
		fail(err)
		_, _ = os.Stdout.WriteString("mail " + mail + "\n")
	}
}

// scribbleForEver writes rows at random, and moves shards.
func scribbleForEver(db *DB, ks *Keyspace, fail func(error)) {
	s := scribbler{db, ks, rand.New(rand.NewPCG(rand.Uint64(), 1)), 100}
	for i := 0; ; i++ {
		fail(s.write())
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
			s := scribbler{db, ks, rand.New(rand.NewPCG(seed, 1)), 100}
			for range 300 {
				must(t, s.write())
			}
			work(func(int) error { time.Sleep(time.Millisecond); return s.write() })
			work(func(i int) error {
				mail := fmt.Sprintf("%d@example.org", i%500) // each index is built with all of them
				_, err := ks.HSet(ctx, []byte("of "+mail), fields("mail", mail)...)
				mu.Lock()
				defer mu.Unlock()
				mails[mail] = err == nil
				time.Sleep(time.Millisecond)
				return err
			})
			for i := range min(soaking(2), 10) {
				for _, o := range kept(ks) {
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
					for _, o := range kept(ks) {
						must(t, db.DropIndex(ctx, "rows", o.Name))
					}
				}
			}
			close(stop)
			writers.Wait()
		})
	}
}
