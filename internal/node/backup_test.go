package node

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

func TestABackupIntoTheNodesOwnDirectoryIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "node")
	o := smallOptions(1)
	o.Dir = dir
	n := mustOpen(t, o)
	defer n.Close(ctx)
	for _, to := range []string{"", filepath.Join(dir, "backup"), filepath.Join(dir, "0", "log", "backup")} {
		if err := n.Backup(ctx, to); !errors.Is(err, ErrOptions) {
			t.Errorf("to %q: %v, want ErrOptions", to, err)
		}
		if _, err := os.Stat(to); err == nil {
			t.Errorf("a refused backup has made %s", to)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err == nil {
		if err := n.Backup(ctx, filepath.Join(link, "1")); !errors.Is(err, ErrOptions) {
			t.Errorf("through a link: %v, want ErrOptions", err)
		}
	}
	// A name that only begins like the node's is another place.
	if err := n.Backup(ctx, dir+"-backup"); err != nil {
		t.Error(err)
	}
}

// holdBackups begins backups to one place and lets none of them copy anything until release, or for
// long enough that all have looked at it. What they end with comes from ended.
func holdBackups(t *testing.T, n *Node, to string, backups int) (release func(), ended <-chan error) {
	t.Helper()
	release, err := n.pauseJobs(ctx) // as a job does that takes long
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, backups)
	for range backups {
		go func() { errs <- n.Backup(ctx, to) }()
	}
	for range 100 {
		if _, err := os.Stat(to); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond)
	return release, errs
}

// checkBackupHas opens a backup, and reports whether it has a keyspace.
func checkBackupHas(t *testing.T, dir, keyspace string) {
	t.Helper()
	o := smallOptions(0)
	o.Dir = dir
	n := mustOpen(t, o)
	if _, err := n.Keyspace(keyspace); err != nil {
		t.Errorf("the copy: %v", err)
	}
	if err := n.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestOfTwoBackupsToOnePlaceOneIsWholeAndTheOtherRefused(t *testing.T) {
	for stores := 1; stores <= 2; stores++ {
		o := smallOptions(stores)
		o.Dir = filepath.Join(t.TempDir(), "node")
		n := mustOpen(t, o)
		if _, err := n.CreateKeyspace(ctx, partition.Keyspace{Name: "s"}); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(t.TempDir(), "backup")
		release, ended := holdBackups(t, n, to, 2)
		release()
		one, other := <-ended, <-ended
		if one != nil {
			one, other = other, one
		}
		if one != nil || !errors.Is(other, store.ErrForeign) {
			t.Errorf("%d stores: one ends with %v, the other with %v: want nil and ErrForeign", stores, one, other)
		}
		checkBackupHas(t, to, "s")
		if err := n.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}

func TestABackupThatFailsAtItsLastStepCanBeTriedAgain(t *testing.T) {
	o := smallOptions(2)
	o.Dir = filepath.Join(t.TempDir(), "node")
	n := mustOpen(t, o)
	defer n.Close(ctx)
	if _, err := n.CreateKeyspace(ctx, partition.Keyspace{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "backup")
	release, ended := holdBackups(t, n, to, 1)
	stores := filepath.Join(to, storesFile) // something is in the way of the last file
	if err := os.Mkdir(stores, 0o700); err != nil {
		t.Fatal(err)
	}
	release()
	if err := <-ended; err == nil {
		t.Fatal("it does not tell")
	}
	if err := os.Remove(stores); err != nil {
		t.Fatal(err)
	}
	if err := n.Backup(ctx, to); err != nil {
		t.Fatalf("again: %v", err)
	}
	checkBackupHas(t, to, "s")
}
