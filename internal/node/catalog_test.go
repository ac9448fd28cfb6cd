package node

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
	"github.com/cleavekv/cleave/partition"
)

// brokenDisk is a disk that does not sync any more.
type brokenDisk struct{ on atomic.Bool }

var errBroken = errors.New("the disk is broken")

func (b *brokenDisk) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
		if b.on.Load() {
			return errBroken
		}
	}
	return nil
}

func (b *brokenDisk) String() string { return "broken" }

// failingDisks are disks of which one ceases to sync the log when broken is set.
func failingDisks(i int, broken *atomic.Bool) func(int) store.FS {
	return func(at int) store.FS {
		return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			sync := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData
			if at == i && broken.Load() && sync && strings.HasSuffix(op.Path, ".wal") {
				return errBroken
			}
			return nil
		}))
	}
}

// A caller that changes the catalog gets the error that a change may have happened, if it is
// unknown whether it is on the disk.
func TestWhatTheDiskMayHaveOfTheCatalogIsUnknown(t *testing.T) {
	for what, change := range map[string]func(*Node) error{
		"a job": func(n *Node) error {
			k := &partition.Keyspace{ID: defaultKeyspaceID, Kind: partition.Hash}
			at := k.SlotSpan(7).Start
			_, err := n.StartJob(ctx, mover.Request{Kind: mover.Split, Shard: n.Map().Find(at).ID, In: k, At: []partition.Position{at}})
			return err
		},
		"a keyspace": func(n *Node) error {
			_, err := n.CreateKeyspace(ctx, partition.Keyspace{Name: "new"})
			return err
		},
		"the end of one": func(n *Node) error { return n.DropKeyspace(ctx, "old") },
	} {
		// Another write may have met the broken disk before: then it is known that nothing has
		// happened.
		err := store.ErrFailed
		for range 50 {
			if err = runOnBrokenDisk(t, change); !errors.Is(err, store.ErrFailed) || errors.Is(err, group.ErrUnknown) {
				break
			}
		}
		if !errors.Is(err, group.ErrUnknown) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// runOnBrokenDisk returns the error of a change whose disk has just ceased to sync.
func runOnBrokenDisk(t *testing.T, change func(*Node) error) error {
	disk := new(brokenDisk)
	o := smallOptions(1)
	o.FS = func(int) store.FS { return errorfs.Wrap(vfs.NewMem(), disk) }
	n := mustOpen(t, o)
	defer n.Close(ctx)
	if _, err := n.CreateKeyspace(ctx, partition.Keyspace{Name: "old"}); err != nil {
		t.Fatal(err)
	}
	disk.on.Store(true)
	return change(n)
}

// A keyspace waits for a backup to end. No caller waits for the keyspace.
func TestAKeyspaceThatWaitsForABackupHoldsNobodyUp(t *testing.T) {
	n := mustOpen(t, smallOptions(1))
	if _, err := n.CreateKeyspace(ctx, partition.Keyspace{Name: "old"}); err != nil {
		t.Fatal(err)
	}
	release, err := n.pauseJobs(ctx) // as a backup does
	if err != nil {
		t.Fatal(err)
	}
	made := make(chan error)
	go func() {
		_, err := n.CreateKeyspace(ctx, partition.Keyspace{Name: "new"})
		made <- err
	}()
	time.Sleep(10 * time.Millisecond) // it waits, or will
	others := make(chan error)
	go func() { others <- n.DropKeyspace(ctx, "old") }()
	impatient, cancel := context.WithCancel(ctx)
	go func() {
		_, err := n.CreateKeyspace(impatient, partition.Keyspace{Name: "another"})
		others <- err
	}()
	time.Sleep(10 * time.Millisecond)
	cancel()
	for range 2 {
		select {
		case err := <-others:
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		case err := <-made:
			t.Fatalf("made in the middle of a backup: %v", err)
		case <-time.After(eventually.Limit()):
			t.Fatal("somebody waits for a keyspace that waits for a backup")
		}
	}
	release()
	if err := <-made; err != nil {
		t.Error(err)
	}
}
