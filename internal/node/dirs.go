package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/store"
)

// storesFile says how many stores a directory has. It is there, whole, before
// the first of them is made.
const storesFile = "STORES"

// storeDirs returns the directories of the stores, 0 to n-1 in opts.Dir. How
// many there are is decided once, when the directory is made: it decides where
// keys are.
func storeDirs(opts *Options) ([]string, error) {
	n := max(opts.Stores, 1)
	if opts.Dir != "" && opts.FS == nil {
		have, err := decideStores(opts.Dir, n)
		if err != nil {
			return nil, err
		}
		if opts.Stores != 0 && opts.Stores != have {
			found := fmt.Sprintf("%s has %d stores, not %d", opts.Dir, have, opts.Stores)
			return nil, &OptionError{Option: "Stores", Value: opts.Stores, Have: have, Found: found}
		}
		n = have
	}
	dirs := make([]string, n)
	for i := range dirs {
		dirs[i] = filepath.Join(opts.Dir, strconv.Itoa(i))
	}
	if opts.Dir == "" || opts.FS != nil {
		return dirs, nil
	}
	for i, dir := range dirs[:n-1] {
		// They are made in order. The later one is asked first: another process may be making them.
		if store.Made(dirs[i+1]) && !store.Made(dir) {
			return nil, missing(dir)
		}
	}
	if more := filepath.Join(opts.Dir, strconv.Itoa(n)); exists(more) {
		// With a smaller number keys would be looked for in the wrong stores.
		return nil, fmt.Errorf("%w: %s in %s says %d, but there is %s: restore a backup", store.ErrCorrupt, storesFile, opts.Dir, n, more)
	}
	return dirs, nil
}

// decideStores returns how many stores a directory has: n, if it is new. Of
// several who open a new one at the same time the first decides for all.
func decideStores(dir string, n int) (int, error) {
	for {
		have, err := countStores(dir)
		if err != nil || have != 0 {
			return have, err
		}
		if err := writeStores(dir, n); !errors.Is(err, errDecided) {
			return n, err
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// missing is the error for a directory that had a store and has none, or is not there at all.
func missing(dir string) error {
	return fmt.Errorf("%w: the store in %s is missing: mount its disk if it has one of its own, or restore a backup", store.ErrCorrupt, dir)
}

// countStores returns how many stores a directory has, 0 for a new one.
func countStores(dir string) (int, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if info, statErr := os.Stat(dir); statErr == nil && !info.IsDir() {
		return 0, fmt.Errorf("%w: %s is a file: name an empty or a new directory", store.ErrForeign, dir)
	}
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(filepath.Join(dir, storesFile))
	if errors.Is(err, fs.ErrNotExist) {
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), storesTemp) { // being made, or a crash came meanwhile
				return 0, fmt.Errorf("%w: %s has %s in it and no file %s: name an empty or a new directory", store.ErrForeign, dir, e.Name(), storesFile)
			}
		}
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var n int
	if got, err := fmt.Sscanf(string(text), storesText, &n); got != 1 || err != nil || n < 1 || n > maxStores {
		return 0, fmt.Errorf("%w: %s in %s says %q: restore a backup", store.ErrCorrupt, storesFile, dir, text)
	}
	return n, nil
}

const (
	storesText = "cleave stores %d\n"
	storesTemp = storesFile + ".new" // and a number
)

// checkDirs refuses a directory that lacks one of its stores. They are made in
// order and before the catalog, which is in the first: so if there is a catalog
// all were there once.
func (n *Node) checkDirs(dirs []string) error {
	if n.opts.Dir == "" || n.opts.FS != nil {
		return nil
	}
	_, made, err := n.hosts[0].Store.Get(effect.Rows.AppendKey(nil, nextIDRow()), nil)
	if err != nil {
		return err
	}
	for _, dir := range dirs[1:] {
		if made && !store.Made(dir) { // where a disk is not mounted there is an empty one
			return missing(dir)
		}
	}
	return nil
}

// makeDir makes a directory with all above it, and syncs each parent that got a
// new entry: a directory that a crash takes away takes its files along.
func makeDir(dir string) error {
	var parents []string
	for p := filepath.Clean(dir); ; p = filepath.Dir(p) {
		if _, err := os.Stat(p); err == nil || filepath.Dir(p) == p {
			break
		}
		parents = append(parents, filepath.Dir(p))
	}
	err := os.MkdirAll(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: it, or what it is in, is a link that leads nowhere: name another directory", err)
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range parents {
		errs = append(errs, SyncDir(p))
	}
	return errors.Join(errs...)
}

// errDecided means that somebody else was faster.
var errDecided = errors.New("node: the number of stores is decided")

// writeStores makes the directory and the file, durably. If there is one the
// error is errDecided, and it stays as it is.
func writeStores(dir string, n int) error {
	if err := makeDir(dir); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, storesTemp)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = fmt.Fprintf(f, storesText, n)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	err = publishFile(f.Name(), filepath.Join(dir, storesFile))
	if errors.Is(err, fs.ErrExist) {
		return errDecided
	}
	if err != nil {
		return err
	}
	return SyncDir(dir)
}

// publishFile gives a file its name, unless that is taken.
func publishFile(temp, name string) error {
	err := os.Link(temp, name) // a rename would replace what is there
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	// The file system has no links. What is left is a moment in which two may
	// both find that the name is free.
	if exists(name) {
		return fs.ErrExist
	}
	return os.Rename(temp, name)
}
