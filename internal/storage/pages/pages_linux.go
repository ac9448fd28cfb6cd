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

// Unmap gives back all of what one call of [Map] has returned. Memory of the heap it leaves to the garbage
// collector.
func Unmap(b []byte) {
	_ = unix.Munmap(b) // it refuses what was not mapped
}

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
