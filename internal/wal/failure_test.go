package wal

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestAFailedWriteEndsTheLog(t *testing.T) {
	for class, op := range map[Durability]string{Always: "durable", EverySec: "write", Never: "write"} {
		d := newDisk(1)
		var r recorder
		o := r.options(d)
		o.Durability = class
		l := r.start(t, o, 0)
		good := put(t, l, "good")
		settle(l)
		d.set(func(d *disk) { d.failing[op] = true })
		_, err := l.Append(false, Entry{Payload: []byte("bad")})
		if !errors.Is(err, ErrFailed) || !errors.Is(err, ErrUnknown) || !errors.Is(err, errInjected) {
			t.Errorf("%s: the failed one: %v", class, err)
		}
		if got := l.Committed(); got != good {
			t.Errorf("%s: committed up to %s, the good one ends at %s", class, got, good)
		}
		d.set(func(d *disk) { d.failing[op] = false })
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

// settle waits until the preparer has nothing to do, so that it does not meet a
// fault that is meant for somebody else.
func settle(l *Log) {
	for {
		if m := l.Metrics(); m.Ready > l.o.Reserve && m.Spare == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func TestAFailedSyncIsNeverTriedAgain(t *testing.T) {
	d := newDisk(1)
	tick := make(chan time.Time)
	var r recorder
	o := r.options(d)
	o.Durability, o.Tick = EverySec, tick
	l := r.start(t, o, 0)
	put(t, l, "one")
	settle(l)
	tick <- time.Time{}
	tick <- time.Time{} // the first is done when the second is taken
	if m := l.Metrics(); m.Durable != m.Committed {
		t.Fatalf("a second later: committed %s, durable %s", m.Committed, m.Durable)
	}
	put(t, l, "two")
	before := d.ops["sync"]
	d.set(func(d *disk) { d.failing["sync"] = true })
	if err := l.Sync(); !errors.Is(err, ErrFailed) || !errors.Is(err, errInjected) {
		t.Fatal(err)
	}
	d.set(func(d *disk) { d.failing["sync"] = false })
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
		d := newDisk(1)
		open := func() (*Log, *recorder) {
			r := &recorder{}
			o := r.options(d)
			o.Durability = Never
			return r.start(t, o, 0), r
		}
		l, _ := open()
		for _, payload := range before {
			put(t, l, payload)
			if err := l.Sync(); err != nil {
				t.Fatal(name, err)
			}
		}
		put(t, l, "lost")
		settle(l)
		d.set(func(d *disk) { d.failing["sync"] = true })
		if err := l.Sync(); !errors.Is(err, ErrFailed) {
			t.Fatal(name, err)
		}
		_ = l.Close() // it has failed
		d.set(func(d *disk) { d.failing["sync"] = false })
		l, _ = open()
		put(t, l, "kept")
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
		d := newDisk(1)
		d.failing[op] = true
		var r recorder
		l := r.start(t, r.options(d), 0)
		if _, err := l.Append(false, Entry{}); !errors.Is(err, ErrFailed) || errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v", op, err)
		}
		if err := l.Close(); !errors.Is(err, errInjected) {
			t.Errorf("%s: close: %v", op, err)
		}
	}
}

func TestEverybodyWhoWaitsLearnsOfAFailure(t *testing.T) {
	d := newDisk(1)
	var r recorder
	o := r.options(d)
	o.Chunks = 1
	r.keep = true
	l := r.start(t, o, 0)
	put(t, l, "x")
	settle(l)
	d.set(func(d *disk) { d.fuse = 8 })
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
	for l.Metrics().ChunkWaits == 0 && !errors.Is(l.Sync(), ErrFailed) {
		time.Sleep(time.Millisecond)
	}
	l.mu.Lock()
	l.fail(errInjected)
	l.mu.Unlock()
	wg.Wait()
}

// forgetful is a disk that has lost pages. As systems do, it says so once per file,
// to whoever comes back first; the first to come waits for another.
type forgetful struct {
	*disk
	armed, told atomic.Bool
	calls       atomic.Int32
	second      chan struct{}
}

type forgetfulFile struct {
	File
	of *forgetful
}

func (d *forgetful) Open(name string) (File, error) {
	f, err := d.disk.Open(name)
	return forgetfulFile{f, d}, err
}

func (f forgetfulFile) Sync() error {
	if !f.of.armed.Load() {
		return f.File.Sync()
	}
	if f.of.calls.Add(1) == 1 {
		select {
		case <-f.of.second:
		case <-time.After(100 * time.Millisecond): // nobody comes
		}
	} else {
		defer close(f.of.second)
	}
	if f.of.told.Swap(true) {
		return nil
	}
	return errInjected
}

func TestAFailedSyncIsNotHiddenByAnother(t *testing.T) {
	for name, other := range map[string]func(*Log) error{"sync": (*Log).Sync, "close": (*Log).Close} {
		d := &forgetful{disk: newDisk(1), second: make(chan struct{})}
		var r recorder
		o := r.options(d)
		o.Durability = Never
		l := r.start(t, o, 0)
		put(t, l, "x")
		settle(l)
		d.armed.Store(true)
		first := make(chan error)
		go func() { first <- l.Sync() }()
		for d.calls.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
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
