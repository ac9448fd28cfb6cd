package wal

import "testing"

func TestDurableWritesPassThePageCacheWhereTheyMay(t *testing.T) {
	f, err := OS(t.TempDir()).Create("x")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o := f.(*osFile)
	if o.direct == nil {
		t.Skip("this file system has no direct I/O")
	}
	if err := f.WriteDurable(newAlignedBuffer(blockBytes), 0); err != nil {
		t.Fatal(err)
	}
	if o.refused.Load() {
		t.Skip("this file system wants another alignment")
	}
	// A refusal is found out by the write, which is then done the other way.
	o.refused.Store(true)
	if err := f.WriteDurable(newAlignedBuffer(blockBytes), blockBytes); err != nil {
		t.Fatal(err)
	}
	if size, err := f.Size(); size != 2*blockBytes || err != nil {
		t.Error(size, err)
	}
}
