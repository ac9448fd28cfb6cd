package node

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
)

// storesFile has how many stores a directory has, and which. It is there before the first
// of them is made, and has their ids before anything is committed to them, if it can be written.
const storesFile = "STORES"

// storeList is the content of storesFile.
type storeList struct {
	count int        // 0 if there is no file
	ids   []store.ID // of all, or none: they were not all made yet
}

// isOnDisk reports whether the node has a directory of the operating system.
func (o *Options) isOnDisk() bool { return o.Dir != "" && o.FS == nil }

// loadStoreDirs returns the directories of the stores, 0 to n-1 in opts.Dir, and which stores
// belong there if that is known. How many there are is decided once, when the directory is
// made: it decides where keys are.
func loadStoreDirs(opts *Options) (dirs []string, ids []store.ID, err error) {
	list := storeList{count: max(opts.Stores, 1)}
	if opts.isOnDisk() {
		if list, err = decideStoreList(opts.Dir, list.count); err != nil {
			return nil, nil, err
		}
		if opts.Stores != 0 && opts.Stores != list.count {
			found := fmt.Sprintf("%s has %d stores, not %d", opts.Dir, list.count, opts.Stores)
			return nil, nil, &OptionError{Option: "Stores", Value: opts.Stores, Have: list.count, Found: found}
		}
	}
	for i := range list.count {
		dirs = append(dirs, filepath.Join(opts.Dir, strconv.Itoa(i)))
	}
	if !opts.isOnDisk() {
		return dirs, nil, nil
	}
	for i, dir := range dirs {
		// They are made in order. The later one is asked first: another process may be making them.
		made := list.ids != nil || i+1 < len(dirs) && store.IsStore(dirs[i+1])
		if made && !store.IsStore(dir) {
			return nil, nil, missingStoreError(dir)
		}
	}
	if more := filepath.Join(opts.Dir, strconv.Itoa(list.count)); pathExists(more) {
		// With a smaller number keys would be looked for in the wrong stores.
		return nil, nil, fmt.Errorf("%w: %s in %s says %d, but there is %s: restore a backup", store.ErrCorrupt, storesFile, opts.Dir, list.count, more)
	}
	return dirs, list.ids, nil
}

// decideStoreList returns what stores a directory has: n, if it is new. Of several processes
// that open a new one at the same time the first decides for all.
func decideStoreList(dir string, n int) (storeList, error) {
	for {
		have, err := readStoreList(dir)
		if err != nil || have.count != 0 {
			return have, err
		}
		if err := createStoreList(dir, n); !errors.Is(err, errAlreadyDecided) {
			return storeList{count: n}, err
		}
	}
}

func pathExists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// missingStoreError is the error for a directory that had a store and has none, or is not there at all.
func missingStoreError(dir string) error {
	return fmt.Errorf("%w: the store in %s is missing, with its file FORMAT: mount its disk if it has one of its own, or restore a backup", store.ErrCorrupt, dir)
}

// readStoreList reads storesFile. A new directory has none.
func readStoreList(dir string) (storeList, error) {
	var none storeList
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if info, statErr := os.Stat(dir); statErr == nil && !info.IsDir() {
		return none, fmt.Errorf("%w: %s is a file: name an empty or a new directory", store.ErrForeign, dir)
	}
	if err != nil {
		return none, err
	}
	text, err := os.ReadFile(filepath.Join(dir, storesFile))
	if errors.Is(err, fs.ErrNotExist) {
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), storeListTemp) { // being made, or a crash came meanwhile
				return none, fmt.Errorf("%w: %s has %s in it and no file %s: name an empty or a new directory", store.ErrForeign, dir, e.Name(), storesFile)
			}
		}
		return none, nil
	}
	if err != nil {
		return none, err
	}
	list, ok := parseStoreList(string(text))
	if !ok {
		return none, fmt.Errorf("%w: %s in %s says %q: restore a backup", store.ErrCorrupt, storesFile, dir, text)
	}
	return list, nil
}

// IsBackup reports whether a directory is a backup that was never opened: nothing was
// committed to it, and opening it makes it a store like others.
func IsBackup(dir string) bool {
	list, err := readStoreList(dir)
	if err != nil || list.count == 0 {
		return false
	}
	for i := range list.count {
		if !store.IsUnopenedBackup(filepath.Join(dir, strconv.Itoa(i))) {
			return false
		}
	}
	return true
}

// CountStores returns how many stores a directory has, and an error if one of them is missing.
// Call it before opening a backup: its stores have no ids yet, so one that was lost would be
// made anew, and empty.
func CountStores(dir fs.FS) (int, error) {
	text, err := fs.ReadFile(dir, storesFile)
	if err != nil {
		return 0, err
	}
	list, ok := parseStoreList(string(text))
	if !ok {
		return 0, fmt.Errorf("%w: %s says %q", store.ErrCorrupt, storesFile, text)
	}
	for i := range list.count {
		if _, err := fs.Stat(dir, strconv.Itoa(i)+"/FORMAT"); err != nil {
			return list.count, fmt.Errorf("%w: store %d of %d is missing: %w", store.ErrCorrupt, i, list.count, err)
		}
	}
	return list.count, nil
}

// MaxCopyBytes returns how large a copy of a directory with so many stores may be where it is to lie, so
// that it can be opened there: each makes files of its log, and they leave some room to others.
func MaxCopyBytes(dir string, stores int) (int64, error) {
	const segment = 32 << 20
	free, err := wal.OS(dir).Free()
	return max(0, free-int64(3*stores+2)*segment), err
}

const (
	storeListFormat = "cleave stores %d\n" // and a line for each store's id, if they are known
	storeListTemp   = storesFile + ".new"  // and a number
)

// formatText is the content of the file.
func (l *storeList) formatText() string {
	text := fmt.Sprintf(storeListFormat, l.count)
	for _, id := range l.ids {
		text += id.String() + "\n"
	}
	return text
}

// parseStoreList reads what text has written, and nothing else.
func parseStoreList(text string) (l storeList, ok bool) {
	first, rest, _ := strings.Cut(text, "\n")
	if _, err := fmt.Sscanf(first+"\n", storeListFormat, &l.count); err != nil || l.count < 1 || l.count > maxStores {
		return l, false
	}
	for line := range strings.Lines(rest) {
		id, err := hex.DecodeString(strings.TrimSuffix(line, "\n"))
		if err != nil || len(id) != len(store.ID{}) {
			return l, false
		}
		l.ids = append(l.ids, store.ID(id))
	}
	return l, text == l.formatText() && (len(l.ids) == 0 || len(l.ids) == l.count)
}

// checkStoresMade refuses a directory that lacks one of its stores, when it is not known which they
// are. They are made in order and before the catalog, which is in the first: so if there is a
// catalog all were there once.
func (n *Node) checkStoresMade(dirs []string) error {
	if !n.opts.isOnDisk() {
		return nil
	}
	_, made, err := n.storeHosts[0].Store.Get(effect.Rows.AppendKey(nil, nextIDKey()), nil)
	if err != nil {
		return err
	}
	for _, dir := range dirs[1:] {
		if made && !store.IsStore(dir) { // where a disk is not mounted there is an empty one
			return missingStoreError(dir)
		}
	}
	return nil
}

// checkStoreIDs refuses stores that are not in their places, and notes which they are if that
// was not known. Nothing was committed to them by then, unless they are those of a backup, or
// could not be noted before.
func (n *Node) checkStoreIDs(dirs []string, ids []store.ID) error {
	if !n.opts.isOnDisk() {
		return nil
	}
	found := make([]store.ID, len(n.storeHosts))
	for i, h := range n.storeHosts {
		found[i] = h.Store.ID()
	}
	if ids == nil {
		return recordStoreIDs(n.opts.Dir, found, os.Rename)
	}
	for i, id := range found {
		if id == ids[i] {
			continue
		}
		where := "it is of another directory, or of a backup: put its own there, or restore a whole backup"
		if at := slices.Index(ids, id); at >= 0 {
			where = fmt.Sprintf("it belongs in %s: put each in its place", dirs[at])
		}
		return fmt.Errorf("%w: %s has a store that is not its own: %s", store.ErrCorrupt, dirs[i], where)
	}
	return nil
}

// MakeDir makes a directory with all above it, and syncs each parent that got a
// new entry: a directory that a crash takes away takes its files along.
func MakeDir(dir string) error {
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

// SyncTree makes all names in a tree durable: what is copied has its files on disk already.
func SyncTree(top string) error {
	return filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return SyncDir(path)
	})
}

// errAlreadyDecided means that another process was faster.
var errAlreadyDecided = errors.New("node: the number of stores is decided")

// createStoreList makes the directory and the file, durably. If there is one the
// error is errAlreadyDecided, and it stays as it is.
func createStoreList(dir string, n int) error {
	if err := MakeDir(dir); err != nil {
		return err
	}
	// One that existed may be that of a process that was killed before it synced the parent.
	// Where the parent cannot be read or written, another user has made it.
	err := SyncDir(filepath.Dir(filepath.Clean(dir)))
	if err != nil && !errors.Is(err, fs.ErrPermission) && !isUnsyncable(err) {
		return err
	}
	err = writeStoreList(dir, storeList{count: n}, linkFile)
	if errors.Is(err, fs.ErrExist) {
		return errAlreadyDecided
	}
	return err
}

// recordStoreIDs replaces the file by one that has the stores' ids. Where nothing can be written
// now it stays as it is, until an Open that can.
func recordStoreIDs(dir string, ids []store.ID, replace func(temp, name string) error) error {
	err := writeStoreList(dir, storeList{count: len(ids), ids: ids}, replace)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || wal.ShortageOf(err) != nil {
		return nil // the stores may be on disks of their own, and their ids only guard against mistakes
	}
	return err
}

// writeStoreList writes the file under another name, and gives it its own when it is on disk.
func writeStoreList(dir string, list storeList, publish func(temp, name string) error) error {
	f, err := os.CreateTemp(dir, storeListTemp)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // it is gone, or has another name, if all went well
	_, err = f.WriteString(list.formatText())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := publish(f.Name(), filepath.Join(dir, storesFile)); err != nil {
		return err
	}
	return SyncDir(dir)
}

// linkFile gives a file its name, unless that is taken.
func linkFile(temp, name string) error {
	err := os.Link(temp, name) // a rename would replace what is there
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	// The file system has no links. What is left is a moment in which two may
	// both find that the name is free.
	if pathExists(name) {
		return fs.ErrExist
	}
	return os.Rename(temp, name)
}

// IsInUse reports whether a process has one of the stores below a directory open. It only looks: the
// directory may be where nothing can be written.
func IsInUse(dir string) bool {
	locks, _ := filepath.Glob(filepath.Join(dir, "*", "LOCK")) // the pattern is good
	return slices.ContainsFunc(locks, isLocked)
}

// checkPeerLogs refuses a store whose log ends before a position that another store has
// seen it reach: it was put back to an older copy, and a part of what was committed in
// both at once is gone. From here on the stores note how far each other's logs are.
func (n *Node) checkPeerLogs(dirs []string) error {
	if len(n.storeHosts) == 1 {
		return nil
	}
	for j, behind := range n.storeHosts {
		end := behind.Store.LogEnd()
		for i, witness := range n.storeHosts {
			seen := witness.Store.PeerEnds()
			if j >= len(seen) || seen[j] <= end {
				continue
			}
			err := &store.LossError{Err: fmt.Errorf(
				"the log of the store in %s ends at %s, but that in %s has seen it at %s: it was put back to an older copy",
				dirs[j], end, dirs[i], seen[j])}
			if !n.opts.Store.AcceptLoss {
				return fmt.Errorf("open %s: %w", n.opts.Dir, err)
			}
			n.reportMessage(fmt.Sprintf("opened %s with accepted data loss: %v; what it had committed behind %s is lost, as far as %s at least; "+
				"transactions across stores are not sure to be whole: the stores in %s may keep the other part of one",
				n.opts.Dir, err.Err, end, seen[j], strings.Join(slices.Delete(slices.Clone(dirs), j, j+1), ", ")))
			break // one witness is enough
		}
	}
	ends := func() []wal.Position {
		list := make([]wal.Position, len(n.storeHosts))
		for i, h := range n.storeHosts {
			list[i] = h.Store.LogEnd()
		}
		return list
	}
	for _, h := range n.storeHosts {
		h.Store.WatchPeers(ends)
	}
	return nil
}

// reportMessage passes on a message of Open.
func (n *Node) reportMessage(message string) {
	if n.opts.Store.Report != nil {
		n.opts.Store.Report(message)
	}
}
