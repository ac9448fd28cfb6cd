package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/cleavekv/cleave/internal/storage/store"
)

var errInMemory = fmt.Errorf("%w: a store in memory cannot be backed up: scan it instead", ErrOptions)

// Backup writes a copy of every store to dir. The file that makes it a node's
// directory comes last: a backup that was cut short does not open.
func (n *Node) Backup(ctx context.Context, dir string) error {
	if n.opts.Dir == "" {
		return errInMemory
	}
	if err := n.checkBackupDir(dir); err != nil {
		return err
	}
	if err := checkEmptyDir(dir, ""); err != nil {
		return err
	}
	if err := MakeDir(dir); err != nil {
		return err
	}
	release, err := reserveDir(dir)
	if err != nil {
		return err
	}
	if err = n.copyStores(ctx, dir); err == nil {
		err = createStoreList(dir, len(n.storeHosts))
	}
	if err != nil {
		err = errors.Join(err, removeBackup(dir, len(n.storeHosts), !errors.Is(err, errAlreadyDecided)))
	}
	return errors.Join(err, release())
}

// checkEmptyDir refuses a place that has something in it besides a file named own.
func checkEmptyDir(dir, own string) error {
	entries, err := os.ReadDir(dir)
	info, statErr := os.Stat(dir)
	others := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() != own })
	if others || statErr == nil && !info.IsDir() {
		return newDirTakenError(dir, fs.ErrExist)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func newDirTakenError(dir string, err error) error {
	return fmt.Errorf("backup to %s: %w: %w: name a new or an empty directory", dir, store.ErrForeign, err)
}

// unfinishedFile is a file that is in a directory while a backup is made there.
const unfinishedFile = "UNFINISHED"

// reserveDir makes the directory this backup's alone until release: of two that find it empty at
// the same time, the one that fails must not remove what the other has copied.
func reserveDir(dir string) (release func() error, err error) {
	name := filepath.Join(dir, unfinishedFile)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, newDirTakenError(dir, err)
	}
	if err != nil {
		return nil, err
	}
	release = func() error { return os.Remove(name) }
	if err := errors.Join(f.Close(), checkEmptyDir(dir, unfinishedFile)); err != nil { // another was just done
		return nil, errors.Join(err, release())
	}
	return release, nil
}

// checkBackupDir refuses a place inside the node's own directory: what a backup
// adds there is taken for the node's, and is lost with it.
func (n *Node) checkBackupDir(dir string) error {
	if dir == "" {
		return fmt.Errorf("%w: no directory for the backup: name one", ErrOptions)
	}
	own, err := resolvePath(n.opts.Dir)
	if err != nil {
		return err
	}
	target, err := resolvePath(dir)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(own, target)
	if err == nil && rel != "." && filepath.IsLocal(rel) {
		return fmt.Errorf("%w: backup to %s: it is inside of the store: name a directory elsewhere", ErrOptions, dir)
	}
	return nil // on another drive, if there is no way from one to the other
}

// resolvePath returns where a path leads, as far as it exists.
func resolvePath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for at := path; ; at = filepath.Dir(at) {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, rest), nil
		}
		if at == filepath.Dir(at) {
			return path, nil
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

// copyStores copies the stores as of one moment. Jobs stand still meanwhile, and no keyspace
// is made: a copy has no log, and so cannot go on with a move.
func (n *Node) copyStores(ctx context.Context, dir string) error {
	release, err := n.pauseJobs(ctx)
	if err != nil {
		return err
	}
	defer release()
	stores, dirs := make([]*store.Store, len(n.storeHosts)), make([]string, len(n.storeHosts))
	for i, h := range n.storeHosts {
		stores[i], dirs[i] = h.Store, filepath.Join(dir, strconv.Itoa(i))
	}
	_, err = store.BackupAll(ctx, stores, dirs)
	return err
}

// pauseJobs waits until no job does anything, and keeps all jobs from it until release is
// called. A range in flight arrives first, which a full disk may delay for long.
func (n *Node) pauseJobs(ctx context.Context) (release func(), err error) {
	if err := n.jobs.backupLock.lock(ctx); err != nil {
		return nil, err
	}
	return n.jobs.backupLock.unlock, nil
}

// removeBackup removes what a backup that failed has written, so that it can be
// tried again. The file that makes it a node's directory goes first, if it is named.
func removeBackup(dir string, stores int, named bool) error {
	var errs []error
	if named {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, storesFile)))
	}
	for i := range stores {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, strconv.Itoa(i))))
	}
	return errors.Join(errs...)
}
