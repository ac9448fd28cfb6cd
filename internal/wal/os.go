package wal

import (
	"os"
	"path/filepath"
)

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

// plainFile is a file as every platform has it. Segments hold everybody's data, so
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
