package wal

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// gatedDisk is a disk whose durable writes wait to be let through.
type gatedDisk struct {
	*crashDisk
	arrived chan int64 // offset of a write that waits
	release chan struct{}
}

type gatedFile struct {
	File
	g *gatedDisk
}

func (g *gatedDisk) Open(name string) (File, error) {
	f, err := g.crashDisk.Open(name)
	return gatedFile{f, g}, err
}

func (f gatedFile) WriteDurable(p []byte, off int64) error {
	f.g.arrived <- off
	<-f.g.release
	return f.File.WriteDurable(p, off)
}

func TestTheNextFrameIsWrittenWhileOneIsPublished(t *testing.T) {
	g := &gatedDisk{newCrashDisk(1), make(chan int64, 10), make(chan struct{})}
	publishing, goOn := make(chan string, 10), make(chan struct{})
	var inside atomic.Int32
	o := Options{FS: g, ManifestFS: newCrashDisk(2), SegmentBytes: 64 * blockBytes, Publish: func(_ *Chunk, es []Entry) {
		if inside.Add(1) != 1 {
			t.Error("two calls of Publish at once")
		}
		publishing <- fmt.Sprint(len(es), " at ", es[0].Pos.offset()/blockBytes)
		<-goOn
		inside.Add(-1)
	}}
	l, err := Open(o, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	add := func() {
		wg.Go(func() {
			if _, err := l.Append(false, Entry{}); err != nil {
				t.Error(err)
			}
		})
	}
	staged := func(n int) {
		eventually.Holds(t, "entries are staged", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.openFrame != nil && len(l.openFrame.entries) == n
		})
	}
	add()
	<-g.arrived // the first is being written; those that come now share a frame
	for range 5 {
		add()
	}
	staged(5)
	g.release <- struct{}{}
	if s := <-publishing; s != "1 at 1" {
		t.Errorf("first publication: %s", s)
	}
	<-g.arrived // the second is being written while the first is published
	add()
	staged(1)
	g.release <- struct{}{}
	<-g.arrived // and the third while the second waits for its publication
	g.release <- struct{}{}
	goOn <- struct{}{}
	if s := <-publishing; s != "5 at 2" {
		t.Errorf("second publication: %s", s)
	}
	goOn <- struct{}{}
	if s := <-publishing; s != "1 at 3" {
		t.Errorf("third publication: %s", s)
	}
	goOn <- struct{}{}
	wg.Wait()
	close(g.release)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestAppendReturnsAfterItsPublicationAndInOrder(t *testing.T) {
	for _, class := range []Durability{Always, EverySec, Never} {
		published := map[string]Position{}
		var order []Position
		var mu sync.Mutex
		o := Options{FS: newCrashDisk(2), SegmentBytes: 4 * blockBytes, Chunks: 2, Durability: class, Publish: func(_ *Chunk, es []Entry) {
			mu.Lock()
			defer mu.Unlock()
			for _, e := range es {
				published[string(e.Payload)] = e.Pos
				order = append(order, e.Pos)
			}
		}}
		var sealed []Position
		o.Seal = func(c *Chunk) {
			mu.Lock()
			defer mu.Unlock()
			if len(order) == 0 || order[len(order)-1] > c.End() {
				t.Error("sealed before its last publication, or after the next")
			}
			sealed = append(sealed, c.End())
			c.Release()
		}
		l, err := Open(o, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range 50 {
					name := fmt.Sprint(g, ".", i)
					pos, err := l.Append(false, Entry{Payload: []byte(name)})
					mu.Lock()
					if err != nil || published[name] != pos {
						t.Errorf("%s: returned %s, %v; published at %s", name, pos, err, published[name])
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if len(order) != 400 || !slices.IsSorted(order) || !slices.IsSorted(sealed) || len(sealed) < 2 {
			t.Errorf("%s: %d published, sorted %v; %d sealed", class, len(order), slices.IsSorted(order), len(sealed))
		}
	}
}

func TestASyncIsFollowedByABlockOfItsOwn(t *testing.T) {
	for _, class := range []Durability{EverySec, Never} {
		var r recorder
		o := r.newOptions(newCrashDisk(1))
		o.Durability = class
		l := r.openLog(t, o, 0)
		one, two := mustAppend(t, l, "one"), mustAppend(t, l, "two")
		if one/blockBytes != two/blockBytes {
			t.Errorf("%s: frames end at %s and %s, want them in one block", class, one, two)
		}
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		three := mustAppend(t, l, "three")
		if two/blockBytes == three/blockBytes {
			t.Errorf("%s: a frame that ends at %s shares a block with what is durable up to %s", class, three, two)
		}
		if got, _, err := readFeed(l, one); err != nil || !slices.Equal(got, []string{"two", "three"}) {
			t.Errorf("%s: the feed has %q, %v", class, got, err)
		}
		mustClose(t, l)
	}
}

// gatedSyncDisk is a disk whose syncs of segments wait to be let through while it is shut.
type gatedSyncDisk struct {
	*crashDisk
	arrived, release chan struct{}
	shut             chan bool
}

type gatedSyncFile struct {
	File
	g *gatedSyncDisk
}

func (g *gatedSyncDisk) Open(name string) (File, error) {
	f, err := g.crashDisk.Open(name)
	return gatedSyncFile{f, g}, err
}

func (f gatedSyncFile) Sync() error {
	select {
	case <-f.g.shut:
		f.g.arrived <- struct{}{}
		<-f.g.release
	default:
	}
	return f.File.Sync()
}

// A Sync that comes while a chunk is ended returns when all is durable, and does
// not wait for the consumer to give a chunk back.
func TestSyncDoesNotWaitForAChunk(t *testing.T) {
	g := &gatedSyncDisk{newCrashDisk(1), make(chan struct{}), make(chan struct{}), make(chan bool, 1)}
	sealed := make(chan *Chunk, 10)
	l, err := Open(Options{
		FS: g, SegmentBytes: 4 * blockBytes, Chunks: 1, Durability: Never,
		Seal: func(c *Chunk) { sealed <- c },
	}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, "first")
	g.shut <- true
	appended := make(chan error, 1)
	go func() {
		_, err := l.Append(false, Entry{Payload: make([]byte, 2*blockBytes-100)})
		appended <- err
	}()
	<-g.arrived // the chunk is being ended, with a sync
	synced := make(chan error, 1)
	go func() { synced <- l.Sync() }()
	for range 100 {
		runtime.Gosched() // it waits for that, most likely
	}
	close(g.release)
	c := <-sealed // all is durable, and the consumer has the only chunk
	if err := <-synced; err != nil {
		t.Error(err)
	}
	c.Release()
	if err := <-appended; err != nil {
		t.Error(err)
	}
	go func() { (<-sealed).Release() }()
	mustClose(t, l)
}

func TestRotateSealsWhatIsThereAndNothingElse(t *testing.T) {
	var r recorder
	fs := newCrashDisk(1)
	l := r.openLog(t, r.newOptions(fs), 0)
	if err := l.Rotate(); err != nil || len(r.sealed) != 0 {
		t.Fatalf("a log with nothing in it: %v, %v", r.sealed, err)
	}
	end := mustAppend(t, l, "one")
	for range 2 { // the second time there is nothing
		if err := l.Rotate(); err != nil || len(r.sealed) != 1 || r.sealed[0] < end {
			t.Fatalf("sealed are %v of %v, %v", r.sealed, end, err)
		}
	}
	mustAppend(t, l, "two")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Rotate(); !errors.Is(err, ErrClosed) {
		t.Errorf("a log that is closed: %v", err)
	}
	again := recorder{}
	again.openLog(t, again.newOptions(fs), 0)
	if len(again.replayed) != 2 {
		t.Errorf("replayed are %v", again.replayed)
	}
}

func TestAFailedWriteEndsTheLog(t *testing.T) {
	for class, op := range map[Durability]string{Always: "durable", EverySec: "write", Never: "write"} {
		d := newCrashDisk(1)
		var r recorder
		o := r.newOptions(d)
		o.Durability = class
		l := r.openLog(t, o, 0)
		good := mustAppend(t, l, "good")
		waitForPreparer(t, l)
		d.configure(func(d *crashDisk) { d.failing[op] = true })
		_, err := l.Append(false, Entry{Payload: []byte("bad")})
		if !errors.Is(err, ErrFailed) || !errors.Is(err, ErrUnknown) || !errors.Is(err, errInjected) {
			t.Errorf("%s: the failed one: %v", class, err)
		}
		if got := l.Committed(); got != good {
			t.Errorf("%s: committed up to %s, the good one ends at %s", class, got, good)
		}
		d.configure(func(d *crashDisk) { d.failing[op] = false })
		tries := d.ops[op]
		_, err = l.Append(true, Entry{Payload: []byte("later")})
		if !errors.Is(err, ErrFailed) || errors.Is(err, ErrUnknown) {
			t.Errorf("%s: a later one: %v", class, err)
		}
		if err := l.Sync(); !errors.Is(err, ErrFailed) {
			t.Errorf("%s: sync: %v", class, err)
		}
		if err := l.Close(); !errors.Is(err, ErrFailed) {
			t.Errorf("%s: close: %v", class, err)
		}
		if d.ops[op] != tries {
			t.Errorf("%s: a dead log wrote %d times", class, d.ops[op]-tries)
		}
		if len(r.published) != 1 || len(r.sealed) != 0 {
			t.Errorf("%s: published %v, sealed %v", class, r.published, r.sealed)
		}
	}
}

// waitForPreparer waits until the preparer has nothing to do, so that it does not meet a
// fault that is meant for another goroutine.
func waitForPreparer(t *testing.T, l *Log) {
	t.Helper()
	eventually.Holds(t, "the preparer has nothing to do", func() bool {
		m := l.Metrics()
		return m.Ready > l.o.Reserve && m.Spare == 0
	})
}

func TestAFailedSyncIsNeverTriedAgain(t *testing.T) {
	d := newCrashDisk(1)
	tick := make(chan time.Time)
	var r recorder
	o := r.newOptions(d)
	o.Durability, o.Tick = EverySec, tick
	l := r.openLog(t, o, 0)
	mustAppend(t, l, "one")
	waitForPreparer(t, l)
	tick <- time.Time{}
	tick <- time.Time{} // the first is done when the second is taken
	if m := l.Metrics(); m.Durable != m.Committed {
		t.Fatalf("a second later: committed %s, durable %s", m.Committed, m.Durable)
	}
	mustAppend(t, l, "two")
	before := d.ops["sync"]
	d.configure(func(d *crashDisk) { d.failing["sync"] = true })
	if err := l.Sync(); !errors.Is(err, ErrFailed) || !errors.Is(err, errInjected) {
		t.Fatal(err)
	}
	d.configure(func(d *crashDisk) { d.failing["sync"] = false })
	if _, err := l.Append(false, Entry{}); !errors.Is(err, ErrFailed) {
		t.Error(err)
	}
	if err := errors.Join(l.Sync(), l.Close()); !errors.Is(err, ErrFailed) {
		t.Error(err)
	}
	if n := d.ops["sync"] - before; n != 1 {
		t.Errorf("synced %d times", n)
	}
}

// A sync fails and the process is started again, but not the machine, which still shows what
// it could not write. What is built upon must be on the disk, or a crash of the machine takes
// away what was acknowledged since.
func TestWhatAFailedSyncLeftIsNotBuiltUpon(t *testing.T) {
	for name, before := range map[string][]string{"in the midst of a segment": {"a"}, "in a segment that was just begun": nil} {
		d := newCrashDisk(1)
		open := func() (*Log, *recorder) {
			r := &recorder{}
			o := r.newOptions(d)
			o.Durability = Never
			return r.openLog(t, o, 0), r
		}
		l, _ := open()
		for _, payload := range before {
			mustAppend(t, l, payload)
			if err := l.Sync(); err != nil {
				t.Fatal(name, err)
			}
		}
		mustAppend(t, l, "lost")
		waitForPreparer(t, l)
		d.configure(func(d *crashDisk) { d.failing["sync"] = true })
		if err := l.Sync(); !errors.Is(err, ErrFailed) {
			t.Fatal(name, err)
		}
		_ = l.Close() // it has failed
		d.configure(func(d *crashDisk) { d.failing["sync"] = false })
		l, _ = open()
		mustAppend(t, l, "kept")
		if err := l.Sync(); err != nil {
			t.Fatal(name, err)
		}
		d = d.crash(0)
		_ = l.Close() // it has crashed
		l, r := open()
		if n := len(r.replayed); n == 0 || r.replayed[n-1] != "kept" {
			t.Errorf("%s: %q is replayed, but what came after it was durable", name, r.replayed)
		}
		if err := l.Close(); err != nil {
			t.Error(name, err)
		}
	}
}

func TestAFailureInTheBackgroundEndsTheLog(t *testing.T) {
	for _, op := range []string{"create", "write", "sync", "rename", "syncdir"} {
		d := newCrashDisk(1)
		d.failing[op] = true
		var r recorder
		o := r.newOptions(d)
		o.ManifestFS = newCrashDisk(2) // Open writes to it
		l := r.openLog(t, o, 0)
		if _, err := l.Append(false, Entry{}); !errors.Is(err, ErrFailed) || errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v", op, err)
		}
		if err := l.Close(); !errors.Is(err, errInjected) {
			t.Errorf("%s: close: %v", op, err)
		}
	}
}

func TestEverybodyWhoWaitsLearnsOfAFailure(t *testing.T) {
	d := newCrashDisk(1)
	var r recorder
	o := r.newOptions(d)
	o.Chunks = 1
	r.keep = true
	l := r.openLog(t, o, 0)
	mustAppend(t, l, "x")
	waitForPreparer(t, l)
	d.configure(func(d *crashDisk) { d.fuse = 8 })
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				_, err := l.Append(false, Entry{Payload: make([]byte, 1000)})
				if errors.Is(err, ErrFailed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	// All chunks may be held when the fuse is not burnt yet.
	eventually.Holds(t, "a commit waits for a chunk, or the log has failed", func() bool {
		return l.Metrics().ChunkWaits > 0 || errors.Is(l.Sync(), ErrFailed)
	})
	l.mu.Lock()
	l.setFailed(errInjected)
	l.mu.Unlock()
	wg.Wait()
}

// forgetfulDisk is a disk that has lost pages. As systems do, it reports that once per file,
// to the first caller that comes back; the first to come waits for another.
type forgetfulDisk struct {
	*crashDisk
	armed, reported atomic.Bool
	calls           atomic.Int32
	second          chan struct{}
}

type forgetfulFile struct {
	File
	of *forgetfulDisk
}

func (d *forgetfulDisk) Open(name string) (File, error) {
	f, err := d.crashDisk.Open(name)
	return forgetfulFile{f, d}, err
}

func (f forgetfulFile) Sync() error {
	if !f.of.armed.Load() {
		return f.File.Sync()
	}
	if f.of.calls.Add(1) == 1 {
		select {
		case <-f.of.second:
		case <-time.After(100 * time.Millisecond): // no caller comes
		}
	} else {
		defer close(f.of.second)
	}
	if f.of.reported.Swap(true) {
		return nil
	}
	return errInjected
}

func TestAFailedSyncIsNotHiddenByAnother(t *testing.T) {
	for name, other := range map[string]func(*Log) error{"sync": (*Log).Sync, "close": (*Log).Close} {
		d := &forgetfulDisk{crashDisk: newCrashDisk(1), second: make(chan struct{})}
		var r recorder
		o := r.newOptions(d)
		o.Durability = Never
		l := r.openLog(t, o, 0)
		mustAppend(t, l, "x")
		waitForPreparer(t, l)
		d.armed.Store(true)
		first := make(chan error)
		go func() { first <- l.Sync() }()
		eventually.Holds(t, "the disk is called", func() bool { return d.calls.Load() > 0 })
		if err := other(l); !errors.Is(err, ErrFailed) {
			t.Errorf("%s, which came second: %v", name, err)
		}
		if err := <-first; !errors.Is(err, ErrFailed) {
			t.Errorf("the sync before %s: %v", name, err)
		}
		if n := d.calls.Load(); n != 1 {
			t.Errorf("%s: synced %d times", name, n)
		}
	}
}

func TestReleaseMemory_KeepsWhatIsInUse(t *testing.T) {
	for class := range 3 {
		r := recorder{keep: true}
		fs := newCrashDisk(1)
		o := r.newOptions(fs)
		o.Durability, o.SegmentBytes, o.Chunks = Durability(class), 64<<10, 100
		var payloads [][]byte
		o.Publish = func(_ *Chunk, es []Entry) { payloads = append(payloads, es[0].Payload) }
		l := r.openLog(t, o, 0)
		want := func(i int) string { return strings.Repeat(string(rune('a'+i%26)), 1000+i) }
		for i := range 100 {
			mustAppend(t, l, want(i))
			l.ReleaseMemory()
			for k, p := range payloads {
				if string(p) != want(k) {
					t.Fatalf("%v: entry %d of %d is gone while its chunk is in use", Durability(class), k, i)
				}
			}
		}
		for _, c := range r.held {
			c.Release()
		}
		l.ReleaseMemory()
		for i := 100; i < 200; i++ { // in memory that was released
			mustAppend(t, l, want(i))
		}
		r.keep = false
		mustClose(t, l)
		again := recorder{}
		again.openLog(t, again.newOptions(fs), 0)
		if len(again.replayed) != 200 {
			t.Fatalf("%v: %d of 200 entries are left", Durability(class), len(again.replayed))
		}
		for i, p := range again.replayed {
			if p != want(i) {
				t.Fatalf("%v: entry %d is not what was appended", Durability(class), i)
			}
		}
	}
}
