package pages

import (
	"bytes"
	"os"
	"runtime"
	"testing"
)

func TestMap_IsZerosThatCanBeReleasedAndUnmapped(t *testing.T) {
	before := MappedBytes()
	b := Map(16 * os.Getpagesize())
	if runtime.GOOS == "linux" && MappedBytes() != before+int64(len(b)) {
		t.Errorf("%d bytes are mapped, %d before", MappedBytes(), before)
	}
	if !bytes.Equal(b, make([]byte, len(b))) {
		t.Fatal("it is not zeros")
	}
	for i := range b {
		b[i] = 1
	}
	if whole := Release(b); whole && !bytes.Equal(b, make([]byte, len(b))) {
		t.Error("what was released is not zeros")
	} else if !whole && runtime.GOOS == "linux" {
		t.Error("whole pages were not released")
	}
	Unmap(b)
	if MappedBytes() != before {
		t.Errorf("%d bytes are mapped, %d before", MappedBytes(), before)
	}
}

func TestRelease_KeepsWhatSharesItsPage(t *testing.T) {
	page := os.Getpagesize()
	b := Map(4 * page)
	defer Unmap(b)
	for i := range b {
		b[i] = 1
	}
	if Release(b[1 : 3*page+1]) {
		t.Error("it says that it released two parts of pages")
	}
	if b[0] != 1 || b[page-1] != 1 || b[3*page] != 1 {
		t.Error("pages were released that others use")
	}
	if Release(b[1:page-1]) || Release(b[1:2]) || Release(nil) {
		t.Error("it says that it released what is no page")
	}
}

func TestUnmap_LeavesMemoryOfTheHeap(t *testing.T) {
	b := make([]byte, 1<<20)
	Unmap(b)
	b[0] = 1 // a fault if it were gone
}
