package store

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/storage/wal"
)

// The names in a store's directory.
const (
	formatName      = "FORMAT"     // version and id; a directory without it is no store
	formatDraftName = "FORMAT.new" // FORMAT until it is synced and renamed
	unfinishedName  = "UNFINISHED" // creation began; gone soon after FORMAT is there
	backupName      = "BACKUP"     // a backup to which nothing was committed yet: it needs no log
	lockName        = "LOCK"
	logDir          = "log"
	dataDir         = "data"
)

// directory is a locked directory that is a store, or is about to be one.
type directory struct {
	fs   *guardedFS
	path string
	id   ID
	lock io.Closer
	// isStore means that FORMAT was there, restored that BACKUP was.
	isStore, isBackup bool
	formatVersion     int // that FORMAT says
}

// IsStore reports whether there is a store in a directory of the operating system. One that cannot
// be looked at counts as one: opening it reports why.
func IsStore(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, formatName))
	return !errors.Is(err, fs.ErrNotExist)
}

// IsUnopenedBackup reports whether a directory of the operating system is a backup that was never
// opened.
func IsUnopenedBackup(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, backupName))
	_, logErr := os.Stat(filepath.Join(dir, logDir))
	return err == nil && errors.Is(logErr, fs.ErrNotExist)
}

// openDirectory locks the directory and finds out what is in it. It creates it
// if there is none.
func openDirectory(fsys *guardedFS, path string) (*directory, error) {
	if err := makeDir(fsys, path); err != nil {
		return nil, err
	}
	d := &directory{fs: fsys, path: path}
	if err := d.checkForeign(); err != nil { // before anything is put there
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	lock, err := lockDirectory(fsys, d.join(lockName))
	if held := (*lockHeldError)(nil); errors.As(err, &held) {
		return nil, fmt.Errorf("%w: %s is held %v: close the other one first", ErrLocked, path, held)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	d.lock = lock
	if err := d.readOrCreate(); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), lock.Close())
	}
	return d, nil
}

// lockDirectory locks with the operating system's means if the files are its
// own, or with those of the file system handed in.
func lockDirectory(fsys vfs.FS, name string) (io.Closer, error) {
	if vfs.Root(fsys) == vfs.Default {
		return lockFile(name)
	}
	lock, err := fsys.Lock(name)
	if err != nil {
		return nil, &lockHeldError{cause: err}
	}
	return lock, nil
}

// checkForeign reports a directory that is someone else's.
func (d *directory) checkForeign() error {
	names, err := d.fs.List(d.path)
	if err != nil || slices.Contains(names, formatName) || slices.Contains(names, unfinishedName) {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return name == lockName || name == "lost+found"
	})
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("%w: there is no %s file, but %s: name a new or an empty directory (a backup without %s was not finished)",
		ErrForeign, formatName, strings.Join(names[:min(len(names), 3)], ", "), formatName)
}

// readOrCreate finds out whether the directory is a store already, and if not begins
// to make it one.
func (d *directory) readOrCreate() error {
	if err := d.checkForeign(); err != nil {
		return err // someone was faster than the lock
	}
	names, err := d.fs.List(d.path)
	if err != nil {
		return err
	}
	if slices.Contains(names, formatName) {
		d.isStore, d.isBackup = true, slices.Contains(names, backupName)
		if err := d.readFormat(); err != nil || !d.isBackup || slices.Contains(names, logDir) {
			return err
		}
		// Copies of one backup become different stores: each draws its own id,
		// before there is a log that would carry the old one.
		_, err := rand.Read(d.id[:])
		return errors.Join(err, writeFormat(d.fs, d.path, d.id))
	}
	if slices.Contains(names, unfinishedName) {
		// Creation did not come to its end, so no Open ever returned and
		// nothing was ever committed here: begin again.
		for _, name := range []string{logDir, wal.ManifestName, wal.ProgressName, dataDir, formatDraftName} {
			if err := d.fs.RemoveAll(d.join(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	_, err = rand.Read(d.id[:])
	return errors.Join(err, writeDurable(d.fs, d.join(unfinishedName), nil), syncDir(d.fs, d.path))
}

// readFormat reads FORMAT.
func (d *directory) readFormat() error {
	p, err := readFile(d.fs, d.join(formatName))
	if err != nil {
		return err
	}
	if d.formatVersion, d.id, err = decodeFormat(p); err != nil && !errors.Is(err, ErrFormat) {
		return &CorruptError{File: d.join(formatName), Err: err}
	}
	return err
}

// finishCreation ends creation: from here on the directory is a store, in the layout of this
// build. Everything else that the layout has is there. BACKUP stays until the log has
// something, as long as it excuses that it has not.
func (d *directory) finishCreation(logBegun bool) error {
	if !d.isStore || d.formatVersion < formatVersion {
		if err := writeFormat(d.fs, d.path, d.id); err != nil {
			return err
		}
		d.isStore, d.formatVersion = true, formatVersion
	}
	// The mark may also have outlived a crash right after FORMAT was written.
	marks := []string{unfinishedName}
	if logBegun {
		marks = append(marks, backupName)
	}
	for _, mark := range marks {
		if err := d.fs.Remove(d.join(mark)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return syncDir(d.fs, d.path)
}

func (d *directory) join(name string) string { return d.fs.PathJoin(d.path, name) }

func (d *directory) close() error { return d.lock.Close() }

// writeFormat makes the directory a store by one rename.
func writeFormat(fsys vfs.FS, dir string, id ID) error {
	draft := fsys.PathJoin(dir, formatDraftName)
	if err := writeDurable(fsys, draft, encodeFormat(formatVersion, id)); err != nil {
		return err
	}
	if err := fsys.Rename(draft, fsys.PathJoin(dir, formatName)); err != nil {
		return err
	}
	return syncDir(fsys, dir)
}

// formatVersion is the layout of the directory that this build reads and
// writes: DESIGN.md describes it. A change that an older build would misread
// takes the next number.
const formatVersion = 3

const (
	// oldestFormatVersion is the oldest layout that Open reads. It becomes formatVersion then.
	oldestFormatVersion = 2
	// manifestFormatVersion is the first layout whose log has a manifest.
	manifestFormatVersion = 3
)

// ErrFormat means that the directory was written in a layout that this build
// does not know: open it with the version of Cleave that wrote it, or a newer one.
var ErrFormat = errors.New("store: unknown format version")

// ID distinguishes one store from every other. It is in the FORMAT file and in every
// segment of the log, so that a segment that was copied in from elsewhere is
// not replayed.
type ID [16]byte

// String writes the id in hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

const formatTitle = "cleave store\n"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeFormat writes the FORMAT file: text, because its first reader
// may be a person with a broken disk.
func encodeFormat(version int, id ID) []byte {
	body := fmt.Sprintf("%sformat %d\nid %s\n", formatTitle, version, id)
	return fmt.Appendf(nil, "%scheck %08x\n", body, crc32.Checksum([]byte(body), castagnoli))
}

// decodeFormat reads what encodeFormat wrote. The version is judged before the
// checksum: a newer version may protect the file in another way, and "newer"
// is what the error must say.
func decodeFormat(p []byte) (version int, id ID, err error) {
	rest, ok := strings.CutPrefix(string(p), formatTitle)
	if !ok {
		return 0, id, errors.New("does not begin as a FORMAT file does")
	}
	if _, err := fmt.Sscanf(rest, "format %d\n", &version); err != nil {
		return 0, id, fmt.Errorf("no version: %w", err)
	}
	if version < oldestFormatVersion || version > formatVersion {
		return 0, id, fmt.Errorf("%w %d, this build knows %d to %d: use a build that knows it", ErrFormat, version, oldestFormatVersion, formatVersion)
	}
	_, rest, _ = strings.Cut(rest, "\n")
	digits, rest, _ := strings.Cut(strings.TrimPrefix(rest, "id "), "\n")
	if n, err := hex.Decode(id[:], []byte(digits[:min(len(digits), 2*len(id))])); err != nil || n != len(id) {
		return 0, id, errors.New("no id")
	}
	if string(encodeFormat(version, id)) != string(p) {
		return 0, id, fmt.Errorf("checksum does not match (%q)", strings.TrimSpace(rest))
	}
	return version, id, nil
}

// dirMode makes the store accessible to its owner only. Go and Pebble create
// files for all users less the umask, and guard.go narrows those too.
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
// would not return an error but end the store: the caller of this gets the error.
func syncDir(fsys vfs.FS, path string) error {
	if g, ok := fsys.(*guardedFS); ok {
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
