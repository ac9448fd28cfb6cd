package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/ops/output"
)

// copyAndVerify copies a backup, opens the copy as a store and reads all of it: a backup that
// was never opened is a hope. It is kept if that was asked for and all went well.
func (a *Admin) copyAndVerify(ctx context.Context, name, to string, keep bool, phase func(string)) (_ string, bytes int64, err error) {
	root, err := a.openBackupDir(false)
	if err != nil {
		return "", 0, err
	}
	if root == nil { // it was there when this was planned
		return "", 0, notFoundError("there is no backup "+name, "list the backups")
	}
	defer root.Close()
	if !keep {
		if err := root.RemoveAll(to); err != nil { // of one that was killed
			return "", 0, err
		}
	}
	if err := root.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return "", 0, err
	}
	if err := root.Mkdir(to, 0o700); err != nil { // another was faster: what it has made is not ours to remove
		return "", 0, err
	}
	defer func() {
		if !keep || err != nil {
			err = errors.Join(err, root.RemoveAll(to))
		}
	}()
	phase("copying")
	if bytes, err = copyTree(ctx, root, name, to); err != nil {
		return "", bytes, err
	}
	if keep {
		if err := a.syncCopy(to); err != nil {
			return "", bytes, err
		}
	}
	phase("reading")
	keys, spaces, err := scanStore(ctx, filepath.Join(a.o.Backups, to))
	if err != nil {
		return "", bytes, fmt.Errorf("backup %s: %w", name, err)
	}
	return fmt.Sprintf("backup %s opens, and has %s in %s", name, output.Plural(keys, "key"), output.Plural(spaces, "keyspace")), bytes, nil
}

// copyTree copies a directory within a root into an empty one. The file that makes it a store
// comes last.
func copyTree(ctx context.Context, root *os.Root, from, to string) (bytes int64, err error) {
	var last []string
	err = fs.WalkDir(root.FS(), filepath.ToSlash(from), func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(path, filepath.ToSlash(from)), "/")
		switch {
		case rel == "":
			return nil
		case d.IsDir():
			return root.Mkdir(filepath.Join(to, rel), 0o700)
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is no file: backups have none such", path)
		case rel == storesFile:
			last = append(last, rel)
			return nil
		}
		n, err := copyFile(ctx, root, path, filepath.Join(to, rel))
		bytes += n
		return err
	})
	for _, rel := range last {
		if err == nil {
			_, err = copyFile(ctx, root, filepath.Join(from, rel), filepath.Join(to, rel))
		}
	}
	return bytes, err
}

// syncCopy makes the names in a copy durable, and those of it and of what it is in.
func (a *Admin) syncCopy(to string) error {
	err := node.SyncTree(filepath.Join(a.o.Backups, to))
	for err == nil && to != "." {
		to = filepath.Dir(to)
		err = node.SyncDir(filepath.Join(a.o.Backups, to))
	}
	return err
}

// copyFile copies a file, durably.
func copyFile(ctx context.Context, root *os.Root, from, to string) (n int64, err error) {
	in, err := root.Open(from)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	n, err = io.Copy(out, contextReader{ctx, in})
	return n, errors.Join(err, out.Sync(), out.Close())
}

// contextReader is a reader that ends with a context.
type contextReader struct {
	ctx context.Context
	in  io.Reader
}

// Read reads, unless the context has ended.
func (c contextReader) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.in.Read(b)
}

// scanStore opens a store and reads every key, value and field of it.
func scanStore(ctx context.Context, dir string) (keys, spaces int, err error) {
	db, err := cleave.Open(dir, cleave.Options{CacheBytes: 1 << 20, BlockCacheBytes: 8 << 20, FeedBytes: -1})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, k := range db.Keyspaces() {
		spaces++
		for item, err := range k.Scan(ctx, cleave.ScanOptions{}) {
			if err != nil {
				return keys, spaces, err
			}
			keys++
			if item.Value != nil {
				continue
			}
			for after, more := []byte(nil), true; more; more = after != nil { // a hash
				if _, after, err = k.HScanPage(ctx, item.Key, after, 0); err != nil {
					return keys, spaces, err
				}
			}
		}
	}
	return keys, spaces, nil
}
