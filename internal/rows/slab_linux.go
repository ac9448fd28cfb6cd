package rows

import (
	"syscall"
	"unsafe"
)

// largePages asks for large pages for memory that was not touched yet, where the system has
// some for those who ask.
func largePages(b []byte) {
	const page, adviseLarge = 2 << 20, 14
	start := int(-uintptr(unsafe.Pointer(&b[0])) % page)
	if end := start + (len(b)-start)/page*page; end > start {
		_ = syscall.Madvise(b[start:end], adviseLarge) // it is a hint
	}
}
