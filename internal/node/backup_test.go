package node

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestABackupIntoTheNodesOwnDirectoryIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "node")
	o := small(1)
	o.Dir = dir
	n := open(t, o)
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

// A keyspace that is dropped and cleared between the copies of two stores would
// leave rows in the backup that nobody knows of, if no note said that they are to go.
func TestADropDuringABackupLeavesNothingInTheCopy(t *testing.T) {
	o := small(2)
	o.Dir = t.TempDir()
	n := open(t, o)
	k := newSpace(t, n, "s")
	set(t, n.Parts()[1], inPart(n, k, 1))
	dir := filepath.Join(t.TempDir(), "copy")
	if err := makeDir(dir); err != nil {
		t.Fatal(err)
	}
	// As Backup does it: the store with the catalog last.
	n.copying.RLock()
	if _, err := n.Parts()[1].Store.Backup(ctx, filepath.Join(dir, "1")); err != nil {
		t.Fatal(err)
	}
	if err := n.DropKeyspace(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	if err := n.clearDropped(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Parts()[0].Store.Backup(ctx, filepath.Join(dir, "0")); err != nil {
		t.Fatal(err)
	}
	n.copying.RUnlock()
	if err := writeStores(dir, 2); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(ctx); err != nil {
		t.Fatal(err)
	}
	o = small(2)
	o.Dir = dir
	n = open(t, o)
	defer n.Close(ctx)
	if err := n.clearDropped(ctx); err != nil {
		t.Fatal(err)
	}
	if rows := rowsOf(n, k); rows != 0 {
		t.Errorf("%d rows of a dropped keyspace stay for ever", rows)
	}
}
