package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

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
		have, err := countStores(opts.Dir)
		if err == nil && have == 0 {
			have, err = n, writeStores(opts.Dir, n)
		}
		if err != nil {
			return nil, err
		}
		if opts.Stores != 0 && opts.Stores != have {
			return nil, fmt.Errorf("node: %s has %d stores, not %d: open it with Stores 0 or %d", opts.Dir, have, opts.Stores, have)
		}
		n = have
	}
	dirs := make([]string, n)
	for i := range dirs {
		dirs[i] = filepath.Join(opts.Dir, strconv.Itoa(i))
	}
	return dirs, nil
}

// countStores returns how many stores a directory has, 0 for a new one.
func countStores(dir string) (int, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(filepath.Join(dir, storesFile))
	if errors.Is(err, fs.ErrNotExist) {
		for _, e := range entries {
			if e.Name() != storesFile+tempSuffix { // a crash while it was being made
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
	tempSuffix = ".new"
)

// writeStores makes the directory and the file, durably.
func writeStores(dir string, n int) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	name := filepath.Join(dir, storesFile)
	f, err := os.OpenFile(name+tempSuffix, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, storesText, n)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(name+tempSuffix, name); err != nil {
		return err
	}
	return syncDir(dir)
}
