// Package pages takes memory in whole pages, and gives it back to the operating system.
//
// Memory of [Map] is not part of the Go heap: the garbage collector neither scans it nor counts it when
// it decides how much garbage to allow, and it costs nothing until it is touched. In return it has to be
// given back by [Unmap], and nothing may look at it after that.
package pages

import (
	"os"
	"sync/atomic"
	"unsafe"
)

// mappedBytes is how much memory of all maps is not unmapped.
var mappedBytes atomic.Int64

// Map returns n zeros that begin at a page. Where the system cannot do it, they are memory of the heap.
func Map(n int) []byte {
	if b := mapPages(n); b != nil {
		mappedBytes.Add(int64(n))
		return b
	}
	return make([]byte, n)
}

// Unmap gives back all of what one call of [Map] has returned. Memory of the heap it leaves to the garbage
// collector.
func Unmap(b []byte) {
	if unmapPages(b) {
		mappedBytes.Add(-int64(len(b)))
	}
}

// MappedBytes returns how much memory of the process is not on the heap because of [Map], whether it was
// touched or not.
func MappedBytes() int64 { return mappedBytes.Load() }

// Release gives the pages that lie within b as a whole back to the operating system: they are zeros when
// they are touched next. It reports whether that is all of b.
func Release(b []byte) bool {
	inner := trimToPages(b)
	return len(inner) > 0 && releasePages(inner) && len(inner) == len(b)
}

// trimToPages returns the whole pages within b.
func trimToPages(b []byte) []byte {
	page := os.Getpagesize()
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (page - 1)
	if skip >= len(b) {
		return nil
	}
	return b[skip : skip+(len(b)-skip)&^(page-1)]
}
