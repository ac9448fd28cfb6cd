package cleave

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/cleavekv/cleave/internal/tally"
	"github.com/cleavekv/cleave/internal/wal"
)

// At everysec and no a crash of the machine may take back the newest commits,
// but nothing from the middle, and neither versions nor time.
func TestACrashTakesBackTheNewestCommitsOnly(t *testing.T) {
	var did tally.Counts
	for _, d := range []wal.Durability{wal.Always, wal.EverySec, wal.Never} {
		t.Run(d.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seedOf(t), 1))
			for range soaking(1) {
				w := newWorld(t, d, rng, &did)
				l := &numbered{world: w}
				for range 4 {
					l.life(20 + rng.IntN(80))
				}
				mustClose(t, w.db)
			}
		})
	}
	did.Log(t, "numbers written", "numbers taken back", "crashes keeping 0%")
}

// numbered is a log of numbers that one client writes, while others write
// elsewhere.
type numbered struct {
	world   *world
	last    int
	version uint64
	cursor  Cursor // behind the last
}

// life writes numbers, crashes, and looks at what is left.
func (l *numbered) life(numbers int) {
	w := l.world
	stop := make(chan struct{})
	var others sync.WaitGroup
	db := w.db
	for _, c := range w.clients[:2] {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if err := c.pair(db); err != nil {
						w.t.Error(err)
					}
				}
			}
		})
	}
	for range numbers {
		l.write()
	}
	w.listen()
	keep := w.keep()
	disk := w.disk.Crash(keep, w.rng)
	issued := w.issued.Load()
	close(stop)
	others.Wait()
	mustClose(w.t, w.db)
	w.disk = disk
	w.openOnce() // a crash during open would take back more
	l.check(keep)
	w.checkPair(0, issued)
}

// tagged makes a key of the log: all of them are in one store.
func tagged(key []byte) []byte { return append([]byte("{log}"), key...) }

func (l *numbered) write() {
	w := l.world
	l.last++
	ks := w.db.Default()
	must(w.t, ks.Set(ctx, tagged(number(l.last)), make([]byte, w.rng.IntN(2000))))
	version, err := ks.SetWith(ctx, tagged([]byte("last")), fmt.Append(nil, l.last), SetOptions{})
	must(w.t, err)
	if version <= l.version {
		w.t.Fatalf("version %d after %d", version, l.version)
	}
	l.version, l.cursor = version, w.db.Now()
	w.did.Add("numbers written", 1)
}

// check finds every number up to one of them, and none behind it.
func (l *numbered) check(keep int) {
	w := l.world
	ks := w.db.Default()
	last := 0
	text, err := ks.Get(ctx, tagged([]byte("last")))
	if !errors.Is(err, ErrNotFound) {
		must(w.t, err)
		last, err = strconv.Atoi(string(text))
		must(w.t, err)
	}
	if (w.durability == wal.Always || keep == 100) && last < l.last {
		w.t.Fatalf("%d is the last of %d that were acknowledged", last, l.last)
	}
	there := map[string]bool{}
	for item, err := range ks.All(ctx, ScanOptions{KeysOnly: true}) {
		must(w.t, err)
		there[string(item.Key)] = true
	}
	for i := 1; i <= l.last; i++ {
		if i == last+1 {
			continue // it may be there, and its "last" taken back
		}
		if there[string(tagged(number(i)))] != (i <= last) {
			w.t.Fatalf("%d is there: %v, but the last one is %d", i, i > last, last)
		}
	}
	if last < l.last {
		// Who had followed the feed is ahead of the store, and is told so.
		for _, err := range w.db.Feed(ctx, l.cursor) {
			refused(w.t, "feed from what was taken back", err, ErrGone)
			break
		}
	}
	w.did.Add("numbers taken back", l.last-last)
	l.last = last
}

// A keyspace that was made is there after a crash at any durability: its id is
// in the positions of other stores, and must not be given to another keyspace.
func TestTheCatalogSurvivesACrashAtAnyDurability(t *testing.T) {
	for _, d := range []wal.Durability{wal.EverySec, wal.Never} {
		t.Run(d.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seedOf(t), 1))
			disks := []*crashDisk{newCrashDisk(), newCrashDisk()}
			db := mustOpen(t, tiny(d, nil, disks[0].FS(), disks[1].FS()))
			first, second := rangeSpace(t, db, "first"), rangeSpace(t, db, "second")
			for i := range 40 {
				for _, ks := range []*Keyspace{first, second} { // one of them in each store
					must(t, ks.Set(ctx, number(i), make([]byte, 4000)))
				}
			}
			must(t, db.DropKeyspace(ctx, "second"))
			must(t, db.node.Parts()[1].Store.Sync())
			for i := range disks {
				disks[i] = disks[i].Crash(0, rng)
			}
			mustClose(t, db)
			db = mustOpen(t, tiny(d, nil, disks[0].FS(), disks[1].FS()))
			defer db.Close()
			if _, err := db.Keyspace("first"); err != nil {
				t.Errorf("the one that was made: %v", err)
			}
			if _, err := db.Keyspace("second"); !errors.Is(err, ErrNoKeyspace) {
				t.Errorf("the one that was dropped: %v", err)
			}
			for _, name := range []string{"third", "fourth"} {
				if page, err := rangeSpace(t, db, name).Scan(ctx, ScanOptions{}); err != nil || len(page.Items) > 0 {
					t.Errorf("a new keyspace has %d keys, %v", len(page.Items), err)
				}
			}
		})
	}
}
