package store

import (
	"errors"
	"io/fs"
	"path"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Open of a directory that takes no files returns, with the reason.
func TestOpenOfAReadOnlyDirectoryReturns(t *testing.T) {
	disk := vfs.NewMem()
	s := mustOpen(t, tiny(disk))
	mustCommit(t, s, write{[]byte("key"), []byte("value")})
	mustClose(t, s)
	readOnly := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && path.Base(path.Dir(op.Path)) == dataDir {
			return &fs.PathError{Op: "create", Path: op.Path, Err: fs.ErrPermission}
		}
		return nil
	}))
	opened := make(chan error, 1)
	go func() {
		s, err := Open(tiny(readOnly))
		if err == nil {
			_ = s.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		if !errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrCorrupt) {
			t.Errorf("Open: %v, want ErrPermission", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Open hangs")
	}
	s = mustOpen(t, tiny(disk))
	if _, ok, err := s.Get([]byte("key"), nil); !ok || err != nil {
		t.Errorf("Get after the directory is writable again: %v, %v", ok, err)
	}
	mustClose(t, s)
}
