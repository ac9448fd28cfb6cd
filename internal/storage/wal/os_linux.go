package wal

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// osFile reads and writes through the page cache on one descriptor, and past it,
// one synchronous write per call, on another. Not every file system lets it: tmpfs
// refuses to open, others to write. Then a write is followed by a sync.
type osFile struct {
	plainFile
	direct   *os.File // nil if refused at open
	refused  atomic.Bool
	fullPath string
}

func openFile(path string, flags int) (File, error) {
	f, err := openPlain(path, flags)
	if err != nil {
		return nil, err
	}
	direct, err := os.OpenFile(path, os.O_WRONLY|unix.O_DIRECT|unix.O_DSYNC, 0)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EOPNOTSUPP) {
		return nil, errors.Join(err, f.Close())
	}
	return &osFile{plainFile: f, direct: direct, fullPath: path}, nil
}

// WriteDurable writes p past the page cache if memory, length and offset allow it.
func (f *osFile) WriteDurable(p []byte, off int64) error {
	if f.direct != nil && !f.refused.Load() && isAligned(p, off) {
		_, err := f.direct.WriteAt(p, off)
		if !errors.Is(err, unix.EINVAL) {
			return err
		}
		// EINVAL means that the file system wants another alignment or no direct
		// I/O at all. It refused before writing, so nothing is retried here.
		f.refused.Store(true)
	}
	if _, err := f.WriteAt(p, off); err != nil {
		return err
	}
	return f.Sync()
}

func isAligned(p []byte, off int64) bool {
	return len(p) > 0 && len(p)%blockBytes == 0 && off%blockBytes == 0 &&
		uintptr(unsafe.Pointer(unsafe.SliceData(p)))%blockBytes == 0
}

// Sync flushes data and what is needed to read it, the size too, but no times.
func (f *osFile) Sync() error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err == nil {
			return nil
		}
		if err != unix.EINTR {
			return fmt.Errorf("sync %s: %w", f.fullPath, err)
		}
	}
}

// DropCache drops the pages of the file, which are clean after a Sync, also if that is because
// they could not be written.
func (f *osFile) DropCache() error {
	err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	if err != nil && err != unix.EINVAL && err != unix.ENOSYS { // some file systems have no such pages
		return fmt.Errorf("forget pages of %s: %w", f.fullPath, err)
	}
	return nil
}

func (f *osFile) Close() error {
	err := f.plainFile.Close()
	if f.direct != nil {
		err = errors.Join(err, f.direct.Close())
	}
	return err
}

func (d directory) SyncDir() error {
	f, err := os.Open(string(d))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (d directory) Free() (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(string(d), &s); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", string(d), err)
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
