package cleave

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/internal/testkit/tally"
)

// At everysec and no a crash of the machine may take back the newest commits,
// but nothing from the middle, and neither versions nor time.
func TestACrashTakesBackTheNewestCommitsOnly(t *testing.T) {
	var did tally.Counts
	for _, d := range []wal.Durability{wal.Always, wal.EverySec, wal.Never} {
		t.Run(d.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seedOf(t), 1))
			for range scaleRounds(1) {
				w := newWorld(t, d, rng, &did)
				l := &numberLog{world: w}
				for range tally.Size(4, 3) { // a crash of each kind
					l.runLife(20 + rng.IntN(80))
				}
				mustClose(t, w.db)
			}
		})
	}
	did.Log(t, "numbers written", "numbers taken back", "crashes keeping 0%")
}

// numberLog is a log of numbers that one client writes, while others write
// elsewhere.
type numberLog struct {
	world   *crashWorld
	last    int
	version uint64
	cursor  Cursor // behind the last
}

// runLife writes numbers, crashes, and looks at what is left.
func (l *numberLog) runLife(numbers int) {
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
					if err := c.addToPair(db); err != nil {
						w.t.Error(err)
					}
				}
			}
		})
	}
	for range numbers {
		l.writeNumber()
	}
	w.checkExpired()
	keep := w.nextKeepPercent()
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

// withTag makes a key of the log: all of them are in one store.
func withTag(key []byte) []byte { return append([]byte("{log}"), key...) }

func (l *numberLog) writeNumber() {
	w := l.world
	l.last++
	ks := w.db.Default()
	must(w.t, ks.Set(ctx, withTag(numberKey(l.last)), make([]byte, w.rng.IntN(2000))))
	version, err := ks.SetWith(ctx, withTag([]byte("last")), fmt.Append(nil, l.last), SetOptions{})
	must(w.t, err)
	if version <= l.version {
		w.t.Fatalf("version %d after %d", version, l.version)
	}
	l.version, l.cursor = version, w.db.Head()
	w.did.Add("numbers written", 1)
}

// check finds every number up to one of them, and none behind it.
func (l *numberLog) check(keep int) {
	w := l.world
	ks := w.db.Default()
	last := 0
	text, err := ks.Get(ctx, withTag([]byte("last")))
	if !errors.Is(err, ErrNotFound) {
		must(w.t, err)
		last, err = strconv.Atoi(string(text))
		must(w.t, err)
	}
	if (w.durability == wal.Always || keep == 100) && last < l.last {
		w.t.Fatalf("%d is the last of %d that were acknowledged", last, l.last)
	}
	there := map[string]bool{}
	for item, err := range ks.Scan(ctx, ScanOptions{KeysOnly: true}) {
		must(w.t, err)
		there[string(item.Key)] = true
	}
	for i := 1; i <= l.last; i++ {
		if i == last+1 {
			continue // it may be there, and its "last" taken back
		}
		if there[string(withTag(numberKey(i)))] != (i <= last) {
			w.t.Fatalf("%d is there: %v, but the last one is %d", i, i > last, last)
		}
	}
	if last < l.last {
		// A reader that had followed the feed is ahead of the store, and gets that error.
		for _, err := range w.db.Feed(ctx, FeedOptions{From: l.cursor}) {
			checkRefused(w.t, "feed from what was taken back", err, ErrGone)
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
			db := mustOpen(t, tinyOptions(d, nil, disks[0].FS(), disks[1].FS()))
			first, second := rangeSpace(t, db, "first"), rangeSpace(t, db, "second")
			for i := range 40 {
				for _, ks := range []*Keyspace{first, second} { // one of them in each store
					must(t, ks.Set(ctx, numberKey(i), make([]byte, 4000)))
				}
			}
			must(t, db.DropKeyspace(ctx, "second"))
			must(t, db.node.GroupHosts()[1].Store.Sync())
			for i := range disks {
				disks[i] = disks[i].Crash(0, rng)
			}
			mustClose(t, db)
			db = mustOpen(t, tinyOptions(d, nil, disks[0].FS(), disks[1].FS()))
			defer db.Close()
			if _, err := db.Keyspace("first"); err != nil {
				t.Errorf("the one that was made: %v", err)
			}
			if _, err := db.Keyspace("second"); !errors.Is(err, ErrNoKeyspace) {
				t.Errorf("the one that was dropped: %v", err)
			}
			for _, name := range []string{"third", "fourth"} {
				if page, err := rangeSpace(t, db, name).ScanPage(ctx, ScanOptions{}); err != nil || len(page.Items) > 0 {
					t.Errorf("a new keyspace has %d keys, %v", len(page.Items), err)
				}
			}
		})
	}
}

// killDir and killDurability tell a child process where to write, and how.
const (
	killDir        = "CLEAVE_TEST_KILL_DIR"
	killDurability = "CLEAVE_TEST_KILL_DURABILITY"
)

// What a process has acknowledged is there after it was killed, whatever the
// durability: the system goes on and has it.
func TestWhatWasAcknowledgedOutlivesTheProcess(t *testing.T) {
	for _, d := range []Durability{Always, EverySec, Never} {
		t.Run(d.String(), func(t *testing.T) {
			dir := t.TempDir()
			rng := rand.New(rand.NewPCG(seedOf(t), 1))
			acknowledged := 0
			kills := scaleRounds(2)
			for range kills {
				acknowledged = killOne(t, dir, d, rng, acknowledged)
				acknowledged = checkKilled(t, dir, acknowledged)
			}
			tally.Add(t, "processes killed", kills)
			tally.Add(t, "writes acknowledged", acknowledged)
			if acknowledged == 0 {
				t.Error("nothing was written: the test shows nothing")
			}
		})
	}
}

// killOne runs a child that goes on counting until it is killed, and returns
// the last number that it acknowledged.
func killOne(t *testing.T, dir string, d Durability, rng *rand.Rand, from int) int {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), killDir+"="+dir, killDurability+"="+d.String())
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	last, stop := from, from+1+rng.IntN(200)
	killed := false
	for lines := bufio.NewScanner(out); lines.Scan(); { // also what was in the pipe at the end
		n, err := strconv.Atoi(lines.Text())
		if err != nil || n != last+1 {
			t.Fatalf("the child says %q after %d", lines.Text(), last)
		}
		last = n
		if last >= stop && !killed {
			time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
			must(t, child.Process.Kill())
			killed = true
		}
	}
	_ = child.Wait()
	if !killed {
		t.Fatalf("the child ended by itself after %d", last)
	}
	return last
}

// checkKilled returns the last number that is there.
func checkKilled(t *testing.T, dir string, acknowledged int) int {
	db, err := Open(dir, Options{})
	must(t, err)
	defer db.Close()
	for i := 1; i <= acknowledged; i++ {
		if value, err := db.Default().Get(ctx, numberKey(i)); err != nil || string(value) != strconv.Itoa(i) {
			t.Fatalf("%d of %d acknowledged is %q, %v", i, acknowledged, value, err)
		}
	}
	for {
		if _, err := db.Default().Get(ctx, numberKey(acknowledged+1)); errors.Is(err, ErrNotFound) {
			return acknowledged
		}
		acknowledged++ // written, but killed before it could say so
	}
}

// killedChild writes numbered keys and says so after each, for ever.
func killedChild() {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	d, err := ParseDurability(os.Getenv(killDurability))
	fail(err)
	db, err := Open(os.Getenv(killDir), Options{Durability: d})
	fail(err)
	n := 0
	for {
		if _, err := db.Default().Get(ctx, numberKey(n+1)); err != nil {
			break
		}
		n++
	}
	for {
		n++
		fail(db.Default().Set(ctx, numberKey(n), []byte(strconv.Itoa(n))))
		fmt.Println(n)
	}
}

// After a crash a key lives exactly as long as set, by the machine's clock: one that was
// written before it does not vanish early, so that a lock has one holder, and one that is written
// after it does not stay longer. All groups agree.
func TestExpiry_OverCrash_FollowsTheMachinesClock(t *testing.T) {
	for _, c := range []struct{ stores, groups int }{{1, 1}, {1, 4}, {1, 16}, {3, 3}, {3, 8}} {
		for _, d := range []wal.Durability{wal.Always, wal.EverySec, wal.Never} {
			t.Run(fmt.Sprintf("stores=%d/groups=%d/%v", c.stores, c.groups, d), func(t *testing.T) {
				testExpiryOverCrash(t, c.stores, c.groups, d)
			})
		}
	}
}

func testExpiryOverCrash(t *testing.T, stores, groups int, d wal.Durability) {
	const ttl = 3500 * time.Millisecond
	keys := tally.Size(64, 32)
	clock, disk := newClock(), newCrashDisk()
	open := func() *DB {
		o := tinyOptions(d, clock, slices.Repeat([]store.FS{disk.FS()}, stores)...)
		o.Groups = groups
		return mustOpen(t, o)
	}
	db := open()
	key := func(round, i int) []byte { return fmt.Appendf(nil, "%d of round %d", i, round) }
	write := func(round int) {
		for i := range keys {
			if _, err := db.Default().SetWith(ctx, key(round, i), nil, SetOptions{IfAbsent: true, TTL: ttl}); err != nil {
				t.Fatal(err)
			}
		}
	}
	// A group whose batch is being written down stands at the time of that batch. The clock of
	// the test does not go on meanwhile, so a key that lives too long is there for good.
	alive := func(round int, want bool) {
		t.Helper()
		for i := range keys {
			_, err := db.Default().Get(ctx, key(round, i))
			for begun := time.Now(); !want && err == nil && time.Since(begun) < 30*time.Second; time.Sleep(time.Millisecond) {
				_, err = db.Default().Get(ctx, key(round, i))
			}
			if want && err != nil || !want && !errors.Is(err, ErrNotFound) {
				t.Fatalf("%s: %v, want it alive: %v", key(round, i), err, want)
			}
		}
	}
	// The process is killed: what is with the operating system stays.
	crash := func() {
		crashed := disk.Crash(100, rand.New(rand.NewPCG(1, 1)))
		mustClose(t, db)
		disk = crashed
		clock.advance(100 * time.Millisecond)
		db = open()
	}
	for round := range tally.Size(3, 1) {
		write(2 * round)
		clock.advance(time.Second)
		alive(2*round, true)
		crash()
		write(2*round + 1)                                              // 1.1 seconds later
		clock.advance(ttl - 1100*time.Millisecond - 1*time.Millisecond) // the first one lives for a millisecond more
		alive(2*round, true)
		clock.advance(time.Millisecond)
		alive(2*round, false)
		alive(2*round+1, true)
		clock.advance(1100*time.Millisecond - time.Millisecond)
		alive(2*round+1, true)
		clock.advance(time.Millisecond)
		alive(2*round+1, false)
		crash()
		alive(2*round, false)
		alive(2*round+1, false)
	}
	mustClose(t, db)
}

// A key that was seen expired stays so though the machine's clock is set back, in every class of
// durability when the process is killed, and time goes on when that clock has caught up.
func TestExpiry_ClockSetBackOverCrash_StaysExpired(t *testing.T) {
	for _, d := range []wal.Durability{wal.Always, wal.EverySec, wal.Never} {
		t.Run(d.String(), func(t *testing.T) {
			clock, disk := newClock(), newCrashDisk()
			open := func() *DB { return mustOpen(t, tinyOptions(d, clock, disk.FS())) }
			db := open()
			key := []byte("key")
			if _, err := db.Default().SetWith(ctx, key, nil, SetOptions{TTL: time.Second}); err != nil {
				t.Fatal(err)
			}
			clock.advance(time.Second)
			expectGone := func() {
				t.Helper()
				if _, err := db.Default().Get(ctx, key); !errors.Is(err, ErrNotFound) {
					t.Fatalf("the key is alive: %v", err)
				}
			}
			expectGone()
			crashed := disk.Crash(100, rand.New(rand.NewPCG(1, 1)))
			mustClose(t, db)
			disk = crashed
			clock.advance(-10 * time.Minute)
			db = open()
			expectGone()
			if _, err := db.Default().SetWith(ctx, key, nil, SetOptions{TTL: time.Second}); err != nil {
				t.Fatal(err)
			}
			clock.advance(10*time.Minute + 2*time.Second)
			expectGone()
			mustClose(t, db)
		})
	}
}

// Nothing is logged for the sake of the clock where no key expires, however long reads go on.
func TestExpiry_NothingExpires_ClockWritesNothing(t *testing.T) {
	clock := newClock()
	o := tinyOptions(wal.Always, clock, store.NewMemFS())
	o.HousekeepInterval = -1
	db := mustOpen(t, o)
	defer mustClose(t, db)
	ks := db.Default()
	if _, err := ks.SetWith(ctx, []byte("key"), nil, SetOptions{TTL: 24 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	part := db.node.GroupHosts()[0]
	tend := func() {
		t.Helper()
		if _, err := part.Group.Housekeep(ctx); err != nil {
			t.Fatal(err)
		}
	}
	tend() // it looks for keys that expire
	settled := part.Store.Position()
	for range 1000 {
		clock.advance(10 * time.Second)
		if _, err := ks.Get(ctx, []byte("key")); err != nil {
			t.Fatal(err)
		}
		if _, err := ks.ScanPage(ctx, ScanOptions{}); err != nil {
			t.Fatal(err)
		}
		tend()
	}
	if now := part.Store.Position(); now != settled {
		t.Errorf("the log went from %d to %d", settled, now)
	}
}
