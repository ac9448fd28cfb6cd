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
