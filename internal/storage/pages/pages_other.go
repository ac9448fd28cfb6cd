//go:build !linux

package pages

// mapPages leaves it to the heap.
func mapPages(int) []byte { return nil }

// Unmap leaves memory to the garbage collector.
func Unmap([]byte) {}

// releasePages reports that it cannot: the pages stay.
func releasePages([]byte) bool { return false }

// AdviseLarge does nothing here.
func AdviseLarge([]byte) {}
