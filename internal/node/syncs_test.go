package node

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/store"
)

// Whoever asks for a sync gets one that begins later, however many share it.
func TestASharedSyncBeginsAfterAllWhoShareItHaveAsked(t *testing.T) {
	var s syncs
	var written, synced, ran atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		ask := s.do
		if i%2 == 1 {
			ask = s.later
		}
		wg.Go(func() {
			for range 500 {
				mine := written.Add(1)
				err := ask(func() error {
					upTo := written.Load()
					ran.Add(1)
					synced.Store(upTo)
					return nil
				})
				if err != nil || synced.Load() < mine {
					t.Errorf("number %d is not synced: %v", mine, err)
				}
			}
		})
	}
	wg.Wait()
	if ran.Load() > written.Load() {
		t.Errorf("%d syncs for %d that asked", ran.Load(), written.Load())
	}
	bad := errors.New("bad")
	if err := s.do(func() error { return bad }); err != bad {
		t.Errorf("an error of the sync: %v", err)
	}
}

func TestWhoIsInNoHurryLeavesTheSyncToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s syncs
		ran := ""
		by := func(who string) func() error {
			return func() error { ran += who; return nil }
		}
		patient := make(chan error)
		go func() { patient <- s.later(by("b")) }()
		synctest.Wait() // it waits for others
		if err := s.do(by("a")); err != nil {
			t.Error(err)
		}
		if err := <-patient; err != nil || ran != "a" {
			t.Errorf("%q synced: %v", ran, err)
		}
		if err := s.later(by("c")); err != nil || ran != "ac" {
			t.Errorf("%q synced though nobody else is there: %v", ran, err)
		}
	})
}

// The disks work at the same time: none waits for another.
func TestStoresAreSyncedSideBySide(t *testing.T) {
	const stores = 3
	var on atomic.Bool
	var syncing sync.WaitGroup
	syncing.Add(stores)
	all := make(chan struct{})
	go func() { syncing.Wait(); close(all) }()
	disks := [stores]broken{}
	o := small(stores)
	o.FS = func(i int) store.FS {
		once := sync.OnceFunc(syncing.Done)
		meet := errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind != errorfs.OpFileSync || !strings.HasSuffix(op.Path, ".wal") || !on.Load() { // others make the next one
				return nil
			}
			once()
			select {
			case <-all:
			case <-time.After(5 * time.Second):
				t.Error("a disk has synced, and others have not begun")
			}
			return nil
		})
		return errorfs.Wrap(errorfs.Wrap(vfs.NewMem(), &disks[i]), meet)
	}
	n := open(t, o)
	defer n.Close(ctx)
	write := func() {
		for _, h := range n.Hosts() {
			p := keyOn(n, h, 0)
			mustTry(t, n.PartOf(p).Group, &command.Set{Key: p})
		}
	}
	write()
	on.Store(true)
	if err := n.SyncApart(); err != nil {
		t.Error(err)
	}
	on.Store(false)
	write()
	disks[1].on.Store(true)
	if err := n.SyncApart(); !errors.Is(err, errBroken) {
		t.Errorf("one of them is broken: %v", err)
	}
}
