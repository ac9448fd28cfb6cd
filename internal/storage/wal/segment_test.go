package wal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

func TestAppendWaitsWhileAllChunksAreInUse(t *testing.T) {
	var mu sync.Mutex
	var held []*Chunk
	o := Options{FS: newCrashDisk(1), SegmentBytes: 4 * blockBytes, Chunks: 3, Seal: func(c *Chunk) {
		mu.Lock()
		defer mu.Unlock()
		held = append(held, c)
	}}
	l, err := Open(o, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for i := range 40 {
			if _, err := l.Append(false, Entry{Payload: []byte(fmt.Sprint(i))}); err != nil {
				t.Error(err)
			}
		}
	})
	eventually.Holds(t, "a writer waits", func() bool { return l.Metrics().ChunkWaits == 1 })
	if m := l.Metrics(); m.ChunksInUse != 3 || m.Entries != 6 {
		t.Errorf("%d chunks in use, %d entries; want 3 and 6", m.ChunksInUse, m.Entries)
	}
	// One reference more keeps the memory; the last one frees it.
	mu.Lock()
	c := held[0]
	mu.Unlock()
	c.Retain()
	c.Release()
	if m := l.Metrics(); m.ChunksInUse != 3 {
		t.Error("a chunk was reused while retained")
	}
	finished := make(chan struct{})
	go func() { done.Wait(); close(finished) }()
	for running := true; running; {
		mu.Lock()
		for _, c := range held {
			c.Release()
		}
		held = nil
		mu.Unlock()
		select {
		case <-finished:
			running = false
		case <-time.After(time.Millisecond):
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestCloseDoesNotWaitForChunksThatAreHeld(t *testing.T) {
	r := recorder{keep: true}
	o := r.newOptions(newCrashDisk(1))
	o.Chunks = 1
	l := r.openLog(t, o, 0)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var err error
			for err == nil {
				_, err = l.Append(false, Entry{Payload: make([]byte, 500)})
			}
			if !errors.Is(err, ErrClosed) || errors.Is(err, ErrUnknown) {
				t.Error(err)
			}
		})
	}
	eventually.Holds(t, "a writer waits", func() bool { return l.Metrics().ChunkWaits > 0 })
	mustClose(t, l)
	wg.Wait()
	n := len(r.published)
	r.held[0].Release()
	again := recorder{}
	mustClose(t, again.openLog(t, again.newOptions(l.o.FS), 0))
	if len(again.replayed) != n || n == 0 {
		t.Errorf("published %d entries, replayed %d", n, len(again.replayed))
	}
}

func TestCloseWaitsForReaders(t *testing.T) {
	var r recorder
	l := r.openLog(t, r.newOptions(newCrashDisk(1)), 0)
	mustAppend(t, l, "x")
	closed := make(chan error, 1)
	_, err := l.ReadFrom(0, func(Entry) error {
		go func() { closed <- l.Close() }()
		eventually.Holds(t, "it is closing", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.closed })
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func TestALogLargerThanThePoolIsReplayed(t *testing.T) {
	d := newCrashDisk(1)
	var r recorder
	l := r.openLog(t, r.newOptions(d), 0)
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprint(i))
		mustAppend(t, l, want[i])
	}
	mustClose(t, l)
	sealed := make(chan *Chunk, 100)
	var applied sync.WaitGroup
	var ends []Position
	applied.Go(func() {
		for c := range sealed {
			ends = append(ends, c.End())
			c.Release()
		}
	})
	var again recorder
	o := again.newOptions(d)
	o.Chunks = 2
	o.Seal = func(c *Chunk) { sealed <- c }
	l = again.openLog(t, o, 0)
	if !slices.Equal(again.replayed, want) {
		t.Errorf("replayed %d entries", len(again.replayed))
	}
	mustClose(t, l)
	close(sealed)
	applied.Wait()
	if len(ends) < 10 || !slices.IsSorted(ends) {
		t.Errorf("sealed %v", ends)
	}
}

func TestReplayErrorsEndOpen(t *testing.T) {
	d := newCrashDisk(1)
	var r recorder
	l := r.openLog(t, r.newOptions(d), 0)
	mustAppend(t, l, "x")
	mustClose(t, l)
	mine := errors.New("mine")
	if _, err := Open(r.newOptions(d), 0, func(*Chunk, []Entry) error { return mine }); !errors.Is(err, mine) {
		t.Error(err)
	}
}

func TestAFullDiskRefusesBeforeStagingAndKeepsAReserve(t *testing.T) {
	d := newCrashDisk(1)
	const segment = 8 * blockBytes
	d.capacity = 4*segment + 1000
	var r recorder
	o := r.newOptions(d)
	o.Retain, o.Reserve = -1, 2
	o.ManifestFS = newCrashDisk(2) // it takes no room here
	l := r.openLog(t, o, 0)
	ordinary := func() error { _, err := l.Append(false, Entry{Payload: []byte("ordinary")}); return err }
	urgent := func() error { _, err := l.Append(true, Entry{Payload: []byte("urgent")}); return err }
	var err error
	n, m := 0, 0
	for ; err == nil; n++ {
		err = ordinary()
	}
	if !errors.Is(err, ErrDiskFull) || errors.Is(err, ErrUnknown) || n < 7 {
		t.Fatalf("after %d entries: %v", n, err)
	}
	if !l.Metrics().DiskFull || l.Metrics().Ready != 2 {
		t.Errorf("full %v with %d ready", l.Metrics().DiskFull, l.Metrics().Ready)
	}
	for ; m < 6; m++ {
		if err := urgent(); err != nil {
			t.Fatalf("urgent entry %d: %v", m, err)
		}
		if err := ordinary(); !errors.Is(err, ErrDiskFull) {
			t.Fatalf("an ordinary one in the reserve: %v", err)
		}
	}
	// An entry that needs a file of its own does not get it either.
	if _, err := l.Append(true, Entry{Payload: make([]byte, 2*segment)}); !errors.Is(err, ErrDiskFull) {
		t.Errorf("a large one: %v", err)
	}
	for err = nil; err == nil; m++ {
		err = urgent()
	}
	if !errors.Is(err, ErrDiskFull) {
		t.Fatalf("after the reserve: %v", err)
	}
	// What was applied makes room, without any request to the disk for more.
	l.Recycle(l.Committed())
	eventually.Holds(t, "the reserve is back and one more", func() bool { return ordinary() == nil })
	// So does space that others give back.
	for ordinary() == nil {
	}
	d.configure(func(d *crashDisk) { d.capacity = 1 << 30 })
	eventually.Holds(t, "space is back", func() bool { return ordinary() == nil })
	if m := l.Metrics(); m.DiskFull {
		t.Error("still full")
	}
	mustClose(t, l)
	var again recorder
	o = again.newOptions(d)
	o.ManifestFS = newCrashDisk(2)
	mustClose(t, again.openLog(t, o, l.Metrics().Recycled))
	if s := strings.Join(again.replayed, ","); s == "" {
		t.Error("nothing was replayed")
	}
}

func TestMinFreeIsLeftToOthers(t *testing.T) {
	d := newCrashDisk(1)
	d.capacity = 1 << 20
	var r recorder
	o := r.newOptions(d)
	o.MinFree = 1 << 19
	l := r.openLog(t, o, 0)
	var err error
	for err == nil {
		_, err = l.Append(false, Entry{Payload: []byte("x")})
	}
	if free, _ := d.Free(); !errors.Is(err, ErrDiskFull) || free < o.MinFree || free > o.MinFree+2*8*blockBytes {
		t.Errorf("%v with %d bytes free", err, free)
	}
}

func TestARefusedEntryUsesNothingUp(t *testing.T) {
	for _, blocks := range []int{6, 60} { // of what does not fit behind others, and of what fits nowhere
		d := newCrashDisk(1)
		var r recorder
		l := r.openLog(t, r.newOptions(d), 0)
		mustAppend(t, l, "first")
		waitForPreparer(t, l)
		d.configure(func(d *crashDisk) { d.capacity -= d.freeBytes() })
		for l.Metrics().Ready > l.o.Reserve { // the last that normal entries may use
			mustAppend(t, l, strings.Repeat("x", 3*blockBytes))
		}
		mustAppend(t, l, "small")
		sealed := l.Metrics().Needed
		for range 5 {
			if _, err := l.Append(false, Entry{Payload: make([]byte, (blocks-1)*blockBytes)}); !errors.Is(err, ErrDiskFull) {
				t.Fatalf("%d blocks: %v", blocks, err)
			}
		}
		mustAppend(t, l, "small again") // there is room in the chunk
		if n := l.Metrics().Needed; n != sealed {
			t.Errorf("%d blocks: %d segments became %d", blocks, sealed, n)
		}
	}
}

// scarceDisk is a disk of which one operation finds at times that no more files can be opened.
type scarceDisk struct {
	*crashDisk
	op string
	on atomic.Bool
}

func (d *scarceDisk) checkShortage(op string) error {
	if d.on.Load() && op == d.op {
		return fmt.Errorf("%s: %w", op, ErrNoFiles)
	}
	return nil
}

func (d *scarceDisk) Create(name string) (File, error) {
	if err := d.checkShortage("create"); err != nil {
		return nil, err
	}
	return d.crashDisk.Create(name)
}

func (d *scarceDisk) Open(name string) (File, error) {
	if err := d.checkShortage("open"); err != nil {
		return nil, err
	}
	return d.crashDisk.Open(name)
}

func (d *scarceDisk) SyncDir() error {
	return errors.Join(d.checkShortage("syncdir"), d.crashDisk.SyncDir())
}

// Wherever the log finds that no more files can be opened, it says so, goes on when they can,
// and uses no file twice.
func TestWantOfFilesPasses(t *testing.T) {
	for _, op := range []string{"create", "open", "syncdir"} {
		for _, recycles := range []bool{false, true} {
			what := fmt.Sprintf("%s, recycles %v", op, recycles)
			d := &scarceDisk{crashDisk: newCrashDisk(1), op: op}
			var r recorder
			o := r.newOptions(d)
			o.Retain = -1
			l := r.openLog(t, o, 0)
			var want []string
			add := func() error {
				s := fmt.Sprint(len(want), strings.Repeat(".", blockBytes))
				at, err := l.Append(false, Entry{Payload: []byte(s)})
				if err == nil {
					want = append(want, s)
				}
				if recycles {
					l.Recycle(at)
				}
				return err
			}
			for range 3 {
				for range 20 {
					if err := add(); err != nil {
						t.Fatal(what, err)
					}
				}
				d.on.Store(true)
				var err error
				for i := 0; err == nil && i < 300; i++ {
					err = add()
				}
				// A log that recycles need not create anything.
				if !errors.Is(err, ErrNoFiles) && (err != nil || op != "create" || !recycles) {
					t.Fatalf("%s: %v, want ErrNoFiles", what, err)
				}
				d.on.Store(false)
				eventually.Holds(t, what+": it goes on", func() bool { return add() == nil })
			}
			mustClose(t, l)
			if recycles {
				continue
			}
			var again recorder
			mustClose(t, again.openLog(t, again.newOptions(d), 0))
			if !slices.Equal(again.replayed, want) {
				t.Errorf("%s: %d entries are replayed, want %d", what, len(again.replayed), len(want))
			}
		}
	}
}

// A file that a crash has left behind the end of the log has the last name. On a full disk it
// stays, or positions that a reader of the feed has seen would come into use again.
func TestPositionsThatWereReadDoNotComeBackOnAFullDisk(t *testing.T) {
	d := newCrashDisk(1)
	var r recorder
	o := r.newOptions(d)
	o.Durability, o.Tick, o.Retain = EverySec, make(chan time.Time), 1<<30
	l := r.openLog(t, o, 0)
	mustAppend(t, l, "first")
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	// One that takes a file of its own, and is not synced.
	big := mustAppend(t, l, strings.Repeat("b", 2*o.SegmentBytes))
	if seen, at, err := readFeed(l, 0); err != nil || len(seen) != 2 || at != big {
		t.Fatalf("%d were read, up to %v, %v", len(seen), at, err)
	}
	d = d.crash(0)
	for name := range d.names { // what was ready was not made yet
		if name != segmentName(1) && name != segmentName(big.sequence()) {
			delete(d.names, name)
			delete(d.stable, name)
		}
	}
	d.configure(func(d *crashDisk) { d.capacity -= d.freeBytes() })
	o.FS, o.MinFree = d, 1<<20
	o.ManifestFS = newCrashDisk(2) // without a manifest, as one that is lost or was never kept
	l = r.openLog(t, o, 0)
	eventually.Holds(t, "it is full", func() bool { return l.Metrics().DiskFull })
	time.Sleep(2 * diskFullRetryPause) // it looks for room again
	mustClose(t, l)
	d.configure(func(d *crashDisk) { d.capacity = 1 << 30 })
	l = r.openLog(t, o, 0)
	for range 4 {
		if pos := mustAppend(t, l, "later"); pos.sequence() <= big.sequence() {
			t.Errorf("%s is used again: a reader is at %s", pos, big)
		}
	}
	mustClose(t, l)
}
