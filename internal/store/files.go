package store

import (
	"errors"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// dirMode keeps the store from everybody but its owner. Go and Pebble create
// files for everybody less the umask, and guard.go narrows those too.
const (
	dirMode  = 0o700
	fileMode = 0o600
)

// makeDir creates a directory with all above it, and syncs each parent that
// got a new entry: a directory that a crash takes away takes its files along.
func makeDir(fsys vfs.FS, path string) error {
	var parents []string
	for p := path; ; p = fsys.PathDir(p) {
		if _, err := fsys.Stat(p); err == nil || fsys.PathDir(p) == p {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		parents = append(parents, fsys.PathDir(p))
	}
	if err := fsys.MkdirAll(path, dirMode); err != nil {
		return err
	}
	for _, p := range parents {
		if err := syncDir(fsys, p); err != nil {
			return err
		}
	}
	return nil
}

// syncDir makes the names in a directory durable. It goes past a guard, which
// would not tell of an error but end the store: what calls this can be told.
func syncDir(fsys vfs.FS, path string) error {
	if g, ok := fsys.(*guard); ok {
		fsys = g.FS
	}
	d, err := fsys.OpenDir(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// writeDurable writes a small file and syncs it. Its name is durable only
// after the directory was synced as well.
func writeDurable(fsys vfs.FS, name string, p []byte) error {
	f, err := fsys.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(p)
	return errors.Join(err, f.Sync(), f.Close())
}

func readFile(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	p, err := io.ReadAll(f)
	return p, errors.Join(err, f.Close())
}
