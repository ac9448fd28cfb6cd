package wal

import (
	"os"
	"path/filepath"
)

// FS is the directory of a log, as the log needs it. Errors for want of space
// match [ErrDiskFull] or syscall.ENOSPC, and those for want of files that may be open
// [ErrNoFiles] or syscall.EMFILE.
type FS interface {
	// Create makes an empty file for reading and writing, or empties it.
	Create(name string) (File, error)
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	Remove(name string) error
	// Rename gives a file, which is not open, a name that is not in use.
	Rename(from, to string) error
	// List returns the names of all files in the directory.
	List() ([]string, error)
	// SyncDir returns when every Create, Rename and Remove before it is durable.
	SyncDir() error
	// Free returns how many bytes can still be written to new files.
	Free() (int64, error)
}

// File is one segment, as the log needs it. Its methods may be called at the same
// time.
type File interface {
	// ReadAt is that of [io.ReaderAt].
	ReadAt(p []byte, off int64) (int, error)
	// WriteAt hands p to the operating system.
	WriteAt(p []byte, off int64) (int, error)
	// WriteDurable returns when p is on stable storage. The log calls it with whole
	// blocks in page-aligned memory, inside of the file's size.
	WriteDurable(p []byte, off int64) error
	// Sync returns when everything written before is on stable storage.
	Sync() error
	// DropCache makes the next reads show what is on stable storage, where the operating system
	// offers that: after a Sync that failed it may show what it never wrote.
	DropCache() error
	Size() (int64, error)
	Close() error
}

// OS returns the FS of a directory, which must exist.
func OS(dir string) FS { return directory(dir) }

type directory string

func (d directory) path(name string) string { return filepath.Join(string(d), name) }

func (d directory) Create(name string) (File, error) {
	return openFile(d.path(name), os.O_CREATE|os.O_TRUNC)
}

func (d directory) Open(name string) (File, error) { return openFile(d.path(name), 0) }

func (d directory) Remove(name string) error { return os.Remove(d.path(name)) }

func (d directory) Rename(from, to string) error { return os.Rename(d.path(from), d.path(to)) }

func (d directory) List() ([]string, error) {
	entries, err := os.ReadDir(string(d))
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// plainFile is a file as every platform has it. Segments hold the data of all users, so
// only the owner may read them.
type plainFile struct{ *os.File }

func openPlain(path string, flags int) (plainFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|flags, 0o600)
	return plainFile{f}, err
}

func (f plainFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
