package store

import (
	"bufio"
	"encoding/binary"
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

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/storage/wal"
)

// counterLoad is a load of writers, each of which counts up in two rows that are
// always written together, and what is known about each count.
type counterLoad struct {
	writers []counterWriter
}

type counterWriter struct {
	issued, acknowledged, read atomic.Uint64
}

func newCounterLoad(writers int) *counterLoad {
	return &counterLoad{writers: make([]counterWriter, writers)}
}

func counterKey(writer int, second bool) []byte {
	half := byte('a')
	if second {
		half = 'z'
	}
	// The two halves lie far apart, so that they are in different tables.
	return effect.Rows.AppendKey(nil, fmt.Appendf(nil, "%c%03d", half, writer))
}

// commitNext counts writer up once.
func (l *counterLoad) commitNext(s *Store, writer int, rng *rand.Rand) error {
	w := &l.writers[writer]
	n := w.issued.Add(1)
	value := binary.BigEndian.AppendUint64(nil, n)
	value = append(value, make([]byte, rng.IntN(2000))...)
	var b effect.Builder
	b.Reset(effect.Header{Seq: n})
	b.Put(counterKey(writer, false), value)
	b.Put(counterKey(writer, true), value)
	// A row that comes and goes must not come back.
	ghost := append(counterKey(writer, false), 'g')
	if n%2 == 0 {
		b.Delete(ghost)
	} else {
		b.Put(ghost, value[:8])
	}
	// Others come in between, so that the cache forgets.
	for range 4 {
		b.Put(effect.Rows.AppendKey(nil, fmt.Appendf(nil, "m%03d", rng.IntN(1000))), value[:min(len(value), 300)])
	}
	if _, err := s.Commit(false, wal.Entry{Group: uint64(writer), Payload: b.Bytes()}); err != nil {
		return err
	}
	w.acknowledged.Store(n)
	return nil
}

// readCount reads a writer's first row.
func (l *counterLoad) readCount(s *Store, writer int) error {
	w := &l.writers[writer]
	before := max(w.read.Load(), w.acknowledged.Load())
	v, ok, err := s.Get(counterKey(writer, false), nil)
	if err != nil {
		return err
	}
	n := parseCount(v, ok)
	if n < before {
		return fmt.Errorf("writer %d: read %d after %d was read or acknowledged", writer, n, before)
	}
	for old := w.read.Load(); n > old && !w.read.CompareAndSwap(old, n); {
		old = w.read.Load()
	}
	return nil
}

func parseCount(v []byte, ok bool) uint64 {
	if !ok {
		return 0
	}
	return binary.BigEndian.Uint64(v)
}

// knownCounts is what must be in a store from here on.
func (l *counterLoad) knownCounts() []uint64 {
	known := make([]uint64, len(l.writers))
	for i := range known {
		known[i] = max(l.writers[i].acknowledged.Load(), l.writers[i].read.Load())
	}
	return known
}

// checkCounts compares what a reader shows with what must be there.
func (l *counterLoad) checkCounts(s rowReader, known []uint64) error {
	for i := range l.writers {
		a, okA, errA := s.Get(counterKey(i, false), nil)
		b, okB, errB := s.Get(counterKey(i, true), nil)
		_, ghost, errG := s.Get(append(counterKey(i, false), 'g'), nil)
		if errA != nil || errB != nil || errG != nil {
			return fmt.Errorf("writer %d: %v, %v, %v", i, errA, errB, errG)
		}
		n := parseCount(a, okA)
		switch {
		case okA != okB || string(a) != string(b):
			return fmt.Errorf("writer %d: %d in one row and %d in the other, which are always written together", i, n, parseCount(b, okB))
		case n < known[i]:
			return fmt.Errorf("writer %d: %d, but %d was acknowledged or read", i, n, known[i])
		case n > l.writers[i].issued.Load():
			return fmt.Errorf("writer %d: %d was never written", i, n)
		case ghost != (n%2 == 1):
			return fmt.Errorf("writer %d: at %d the row that comes and goes is there: %v", i, n, ghost)
		}
	}
	return nil
}

// resumeFrom makes the ledger go on from what survived a crash.
func (l *counterLoad) resumeFrom(s rowReader) error {
	for i := range l.writers {
		v, ok, err := s.Get(counterKey(i, false), nil)
		if err != nil {
			return err
		}
		w := &l.writers[i]
		n := parseCount(v, ok)
		w.issued.Store(n)
		w.acknowledged.Store(n)
		w.read.Store(n)
	}
	return nil
}

// run commits and reads until stop is closed.
func (l *counterLoad) run(s *Store, seed uint64, stop <-chan struct{}, did *testCounts) (wait func() error) {
	var wg sync.WaitGroup
	failure := make(chan error, 2*len(l.writers))
	loop := func(step func(*rand.Rand) error, what string, stream uint64) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, stream))
			n := 0
			defer func() { did.add(what, n) }()
			for ; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := step(rng); err != nil {
					failure <- err
					return
				}
			}
		})
	}
	for i := range l.writers {
		loop(func(rng *rand.Rand) error { return l.commitNext(s, i, rng) }, "commits", uint64(2*i))
	}
	loop(func(rng *rand.Rand) error { return l.readCount(s, rng.IntN(len(l.writers))) }, "reads", 1)
	return func() error {
		wg.Wait()
		close(failure)
		return <-failure
	}
}

func TestWhatWasAcknowledgedOrReadSurvivesCrashes(t *testing.T) {
	var did testCounts
	for _, seed := range testSeeds(t, 3) {
		rng := newRNG(t, seed)
		fsys := vfs.NewCrashableMem()
		l := newCounterLoad(6)
		s := mustOpen(t, randomOptions(fsys, rng))
		for range max(2, 8/slowdown) {
			stop := make(chan struct{})
			wait := l.run(s, rng.Uint64(), stop, &did)
			for target := l.sumAcknowledged() + uint64(20+rng.IntN(600/slowdown)); l.sumAcknowledged() < target; {
				if err := l.readCount(s, 0); err != nil {
					t.Fatal(err)
				}
			}
			known := l.knownCounts()
			keep := []int{0, 50, 100}[rng.IntN(3)]
			crashed := fsys.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: keep, RNG: rng})
			close(stop)
			if err := wait(); err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
			fsys = crashed
			s = mustOpen(t, randomOptions(fsys, rng))
			if err := l.checkCounts(s, known); err != nil {
				t.Fatalf("after a crash that kept %d%% of what was not synced: %v", keep, err)
			}
			if err := l.resumeFrom(s); err != nil {
				t.Fatal(err)
			}
			did.add(fmt.Sprintf("crashes keeping %d%%", keep), 1)
		}
		mustClose(t, s)
	}
	did.logAll(t)
}

// sumAcknowledged counts all acknowledged commits.
func (l *counterLoad) sumAcknowledged() (n uint64) {
	for i := range l.writers {
		n += l.writers[i].acknowledged.Load()
	}
	return n
}

// A store that dies soon after it was opened, again and again, does not fill the disk with what each
// of its lives has written.
func TestCrashesDoNotPileUp(t *testing.T) {
	const crashes = 60
	fsys := vfs.NewCrashableMem()
	var most int
	for i := range crashes {
		s := mustOpen(t, tinyOptions(fsys))
		m := s.log.Metrics()
		most = max(most, m.Needed+m.Retained)
		mustCommit(t, s, rowWrite{fmt.Appendf(nil, "k%d", i), []byte("1")})
		crashed := fsys.CrashClone(vfs.CrashCloneCfg{})
		mustClose(t, s)
		fsys = crashed
	}
	// What may be unflushed, what is applied with the last of it, the one in use, and what comes while
	// a slow machine flushes: a few, however many crashes there were.
	if most > crashes/3 {
		t.Errorf("after %d crashes up to %d segments were kept", crashes, most)
	}
	s := mustOpen(t, tinyOptions(fsys))
	defer mustClose(t, s)
	for i := range crashes {
		if value, ok := mustGetRow(t, s, fmt.Appendf(nil, "k%d", i)); !ok || string(value) != "1" {
			t.Errorf("k%d is %q, %v", i, value, ok)
		}
	}
}

// crashInjector takes the state of the disk before the operation of that number.
type crashInjector struct {
	fs          *vfs.MemFS
	keepPercent int
	rng         *rand.Rand
	writesLeft  atomic.Int64
	image       atomic.Pointer[vfs.MemFS]
	writes      atomic.Int64
}

func (c *crashInjector) String() string { return "crash" }

func (c *crashInjector) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
		return nil
	}
	c.writes.Add(1)
	if c.writesLeft.Add(-1) == 0 {
		c.image.Store(c.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: c.keepPercent, RNG: c.rng}))
	}
	return nil
}

// crashDuring runs work on a copy of base, crashes it before one of its writes
// to the disk, and returns what the disk was then; nil if work had fewer.
func crashDuring(base *vfs.MemFS, rng *rand.Rand, at int64, work func(vfs.FS)) (image *vfs.MemFS, writes int64) {
	c := &crashInjector{rng: rng, keepPercent: []int{0, 50, 100}[rng.IntN(3)]}
	c.fs = base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
	c.writesLeft.Store(at)
	work(errorfs.Wrap(c.fs, c))
	return c.image.Load(), c.writes.Load()
}

// unapplied leaves a disk with rows in Pebble, in a log that was not applied,
// and in segments that could be recycled.
func makeCrashedDisk(t *testing.T, rng *rand.Rand) (*vfs.MemFS, model) {
	fsys := vfs.NewCrashableMem()
	s := mustOpen(t, randomOptions(fsys, rng))
	m := model{}
	for range 120 {
		ws := testWrites(rng, 200)
		mustCommit(t, s, ws...)
		m.apply(ws...)
	}
	image := fsys.CrashClone(vfs.CrashCloneCfg{})
	mustClose(t, s)
	return image, m
}

func TestACrashAtAnyWriteOfOpenWorkAndCloseLosesNothing(t *testing.T) {
	var did testCounts
	for _, seed := range testSeeds(t, 2) {
		rng := newRNG(t, seed)
		base, m := makeCrashedDisk(t, rng)
		work := func(fsys vfs.FS) {
			s := mustOpen(t, tinyOptions(fsys))
			mustClose(t, s)
		}
		_, writes := crashDuring(base, rng, 0, work)
		for range max(3, 24/slowdown) {
			image, _ := crashDuring(base, rng, 1+rng.Int64N(writes), work)
			if image == nil {
				continue
			}
			did.add("crashes in Open, apply, flush, recycling and Close", 1)
			s := mustOpen(t, randomOptions(image, rng))
			if err := m.compareRows(s, nil, nil, false); err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
		}
		did.add("writes that could be hit", int(writes))
	}
	did.logAll(t)
}

func TestACrashAtAnyWriteOfCreationLeavesADirectoryThatOpens(t *testing.T) {
	var did testCounts
	for _, seed := range testSeeds(t, 1) {
		rng := newRNG(t, seed)
		base := vfs.NewCrashableMem()
		work := func(fsys vfs.FS) {
			s := mustOpen(t, tinyOptions(fsys))
			mustCommit(t, s, rowWrite{[]byte("k"), []byte("v")})
			mustClose(t, s)
		}
		_, writes := crashDuring(base, rng, 0, work)
		for at := int64(1); at <= writes; at += slowdown {
			image, _ := crashDuring(base, rng, at, work)
			if image == nil {
				continue
			}
			did.add("crashes in creation", 1)
			s := mustOpen(t, tinyOptions(image))
			if v, ok := mustGetRow(t, s, []byte("k")); ok && string(v) != "v" {
				t.Fatalf("crash at write %d: %q", at, v)
			}
			mustCommit(t, s, rowWrite{[]byte("k"), []byte("w")})
			mustClose(t, s)
			s = mustOpen(t, tinyOptions(image))
			if v, ok := mustGetRow(t, s, []byte("k")); !ok || string(v) != "w" {
				t.Fatalf("crash at write %d, then a commit: %q %v", at, v, ok)
			}
			mustClose(t, s)
		}
	}
	did.logAll(t)
}

// childEnv makes the test binary a process to be killed: it says where the
// store is and how durable.
const childEnv = "CLEAVE_STORE_CHILD"

func TestMain(m *testing.M) {
	if where, ok := os.LookupEnv(childEnv); ok {
		if err := runChild(where); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func killOptions(dir string, d wal.Durability) Options {
	o := tinyOptions(vfs.Default)
	o.Dir, o.Durability = dir, d
	return o
}

// runChild commits until it is killed, and says what was acknowledged.
func runChild(where string) error {
	word, dir, _ := strings.Cut(where, " ")
	durability, err := wal.ParseDurability(word)
	if err != nil {
		return err
	}
	s, err := Open(killOptions(dir, durability))
	if err != nil {
		return err
	}
	l := newCounterLoad(8)
	if err := l.resumeFrom(s); err != nil {
		return err
	}
	var did testCounts
	wait := l.run(s, uint64(os.Getpid()), make(chan struct{}), &did)
	go func() {
		for {
			// One write each: a line is there as a whole or not.
			fmt.Println(l.knownCounts())
			time.Sleep(200 * time.Microsecond)
		}
	}()
	return wait()
}

func TestWhatAKilledProcessHadAcknowledgedIsThere(t *testing.T) {
	var did testCounts
	rounds := 3
	if os.Getenv("CLEAVE_SOAK") != "" {
		rounds = 100
	}
	if testing.Short() {
		rounds = 1
	}
	// The operating system survives, so what was handed to it does: even "no"
	// loses nothing when a process dies.
	for _, d := range []wal.Durability{wal.Always, wal.EverySec, wal.Never} {
		dir := filepath.Join(t.TempDir(), "store")
		for range rounds {
			killAndCheck(t, dir, d, &did)
		}
	}
	did.logAll(t)
}

func killAndCheck(t *testing.T, dir string, d wal.Durability, did *testCounts) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+d.String()+" "+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var known []uint64
	for total := uint64(0); total < 600 && lines.Scan(); {
		known, total = parseKnown(t, lines.Text())
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // what it could still say
		if strings.HasSuffix(lines.Text(), "]") {
			known, _ = parseKnown(t, lines.Text())
		}
	}
	_ = cmd.Wait()
	s := mustOpen(t, killOptions(dir, d))
	l := newCounterLoad(len(known))
	for i := range l.writers {
		l.writers[i].issued.Store(1 << 62) // it may have done more than it could say
	}
	if err := l.checkCounts(s, known); err != nil {
		t.Errorf("%v: %v", d, err)
	}
	did.add("processes killed at "+d.String(), 1)
	did.add("entries replayed", int(s.Metrics().Log.Replayed))
	mustClose(t, s)
}

func parseKnown(t *testing.T, line string) (known []uint64, total uint64) {
	for _, word := range strings.Fields(strings.Trim(line, "[]")) {
		var n uint64
		if _, err := fmt.Sscan(word, &n); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		known, total = append(known, n), total+n
	}
	return known, total
}
