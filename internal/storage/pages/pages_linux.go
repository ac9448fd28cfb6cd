package pages

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func mapPages(n int) []byte {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	return b
}

// unmapPages reports that it did not if b was not mapped.
func unmapPages(b []byte) bool { return unix.Munmap(b) == nil }

func releasePages(b []byte) bool { return unix.Madvise(b, unix.MADV_DONTNEED) == nil }

// AdviseLarge asks for large pages for memory that was not touched yet, where the system has some on
// request.
func AdviseLarge(b []byte) {
	const page = 2 << 20
	start := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) % page)
	if end := start + (len(b)-start)/page*page; end > start {
		_ = unix.Madvise(b[start:end], unix.MADV_HUGEPAGE) // it is a hint
	}
}
