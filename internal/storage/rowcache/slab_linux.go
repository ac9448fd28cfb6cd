package rowcache

import (
	"syscall"
	"unsafe"
)

// releasePages gives the pages of a block back to the operating system: they are zeros when they
// are touched next. It reports whether it could: a block is whole pages unless they are large.
func releasePages(b []byte) bool {
	page := uintptr(syscall.Getpagesize())
	if uintptr(unsafe.Pointer(&b[0]))%page != 0 || uintptr(len(b))%page != 0 {
		return false
	}
	return syscall.Madvise(b, syscall.MADV_DONTNEED) == nil
}

// adviseLargePages asks for large pages for memory that was not touched yet, where the system has
// some on request.
func adviseLargePages(b []byte) {
	const page, adviseLarge = 2 << 20, 14
	start := int(-uintptr(unsafe.Pointer(&b[0])) % page)
	if end := start + (len(b)-start)/page*page; end > start {
		_ = syscall.Madvise(b[start:end], adviseLarge) // it is a hint
	}
}
