package store

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// A store dies if the directory of its tables cannot be synced, or that which has its name. One of
// a checkpoint is not its own, also where it is within or beside it.
func TestAStoreDiesOfItsOwnDirectories(t *testing.T) {
	const data = testDir + "/" + dataDir
	for name, own := range map[string]bool{
		data: true, testDir: true,
		"/": false, data + "/backup": false, testDir + "/backup": false, testDir + "2/" + dataDir: false, "/backup": false,
	} {
		f := &faulty{match: func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileSync }, err: errDisk}
		h := &health{wake: func() {}}
		g := newGuard(errorfs.Wrap(vfs.NewMem(), f), h, data)
		if err := g.MkdirAll(name, 0); err != nil {
			t.Fatal(err)
		}
		dir, err := g.OpenDir(name)
		if err != nil {
			t.Fatal(err)
		}
		f.on.Store(true)
		if err := dir.Sync(); err != nil {
			t.Errorf("%s: %v: Pebble would panic", name, err)
		}
		if err := h.err(); own != errors.Is(err, ErrFailed) || own != errors.Is(err, errDisk) {
			t.Errorf("%s: the store is dead: %v, want %v", name, err, own)
		}
		if err := g.failedAside(name, "/other"); own == errors.Is(err, errDisk) {
			t.Errorf("%s: whoever makes a checkpoint there hears %v", name, err)
		}
		if err := g.failedAside(name); err != nil {
			t.Errorf("%s: it is told twice: %v", name, err)
		}
		if err := dir.Close(); err != nil {
			t.Error(err)
		}
	}
}
