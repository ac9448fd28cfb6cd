package node

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// A goroutine that has it alone is alone, whatever others do, give up or wait for.
func TestCalmIsSharedOrHadAlone(t *testing.T) {
	var c ctxRWMutex
	var sharing, alone atomic.Int64
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			for n := range 200 {
				ctx, cancel := context.WithTimeout(ctx, time.Duration(n%5)*50*time.Microsecond)
				if n%3 == 0 {
					ctx = context.WithoutCancel(ctx)
				}
				if i%3 > 0 {
					if c.lockShared(ctx) == nil {
						if sharing.Add(1); alone.Load() > 0 {
							t.Error("it is shared while one has it alone")
						}
						sharing.Add(-1)
						c.unlockShared()
					}
				} else if c.lock(ctx) == nil {
					if alone.Add(1) > 1 || sharing.Load() > 0 {
						t.Error("one has it alone with others")
					}
					alone.Add(-1)
					c.unlock()
				}
				cancel()
			}
		})
	}
	all.Wait()
	if c.readers != 0 || c.waitingWriters != 0 || c.hasWriter {
		t.Errorf("it is left as %d shared, %d waiting, alone %v", c.readers, c.waitingWriters, c.hasWriter)
	}
}

// A backup that waits for a job keeps others from beginning, and no longer than that.
func TestABackupThatGaveUpIsInNobodysWay(t *testing.T) {
	n := mustOpen(t, smallOptions(1))
	if err := n.jobs.backupLock.lockShared(ctx); err != nil { // as a job does that hangs
		t.Fatal(err)
	}
	defer n.jobs.backupLock.unlockShared()
	limited, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := n.pauseJobs(limited); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("it did not wait: %v", err)
	}
	limited, cancel = context.WithTimeout(ctx, eventually.Limit())
	defer cancel()
	if err := n.jobs.backupLock.lockShared(limited); err != nil {
		t.Fatalf("another job does not go on: %v", err)
	}
	n.jobs.backupLock.unlockShared()
}

// A caller that asks for a sync gets one that begins later, however many share it.
func TestASharedSyncBeginsAfterAllWhoShareItHaveAsked(t *testing.T) {
	var s sharedSyncer
	var written, synced, ran atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		ask := s.syncNow
		if i%2 == 1 {
			ask = s.syncLater
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
	if err := s.syncNow(func() error { return bad }); err != bad {
		t.Errorf("an error of the sync: %v", err)
	}
}

func TestWhoIsInNoHurryLeavesTheSyncToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sharedSyncer
		ran := ""
		by := func(who string) func() error {
			return func() error { ran += who; return nil }
		}
		patient := make(chan error)
		go func() { patient <- s.syncLater(by("b")) }()
		synctest.Wait() // it waits for others
		if err := s.syncNow(by("a")); err != nil {
			t.Error(err)
		}
		if err := <-patient; err != nil || ran != "a" {
			t.Errorf("%q synced: %v", ran, err)
		}
		if err := s.syncLater(by("c")); err != nil || ran != "ac" {
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
	disks := [stores]brokenDisk{}
	o := smallOptions(stores)
	o.FS = func(i int) store.FS {
		once := sync.OnceFunc(syncing.Done)
		meet := errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind != errorfs.OpFileSync || !strings.HasSuffix(op.Path, ".wal") || !on.Load() { // others make the next one
				return nil
			}
			once()
			select {
			case <-all:
			case <-time.After(eventually.Limit()):
				t.Error("a disk has synced, and others have not begun")
			}
			return nil
		})
		return errorfs.Wrap(errorfs.Wrap(vfs.NewMem(), &disks[i]), meet)
	}
	n := mustOpen(t, o)
	defer n.Close(ctx)
	write := func() {
		for _, h := range n.StoreHosts() {
			p := keyOnStore(n, h, 0)
			mustTryCommand(t, n.GroupHostAt(p).Group, &command.Set{Key: p})
		}
	}
	write()
	on.Store(true)
	if err := n.SyncStores(); err != nil {
		t.Error(err)
	}
	on.Store(false)
	write()
	disks[1].on.Store(true)
	if err := n.SyncStores(); !errors.Is(err, errBroken) {
		t.Errorf("one of them is broken: %v", err)
	}
}
