//go:build !linux

package pages

// mapPages leaves it to the heap.
func mapPages(int) []byte { return nil }

// unmapPages leaves memory to the garbage collector.
func unmapPages([]byte) bool { return false }

// releasePages reports that it cannot: the pages stay.
func releasePages([]byte) bool { return false }

// AdviseLarge does nothing here.
func AdviseLarge([]byte) {}
