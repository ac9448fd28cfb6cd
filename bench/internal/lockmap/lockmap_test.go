package lockmap

import (
	"testing"
	"unsafe"
)

func TestPaddedMapsShareNoPairOfCacheLines(t *testing.T) {
	if size := unsafe.Sizeof(Padded[string, [64]byte]{}); size%128 != 0 {
		t.Errorf("size %d is no multiple of 128", size)
	}
}

func TestBothKeepWhatIsStored(t *testing.T) {
	type table interface {
		Load(int) (int, bool)
		Store(int, int)
		Delete(int)
		Range(func(int, int) bool)
	}
	for name, m := range map[string]table{"map": New[int, int](), "sharded": NewSharded[int, int]()} {
		for i := range 1000 {
			m.Store(i, 2*i)
		}
		m.Delete(7)
		if _, ok := m.Load(7); ok {
			t.Errorf("%s: 7 is still there", name)
		}
		if v, ok := m.Load(8); !ok || v != 16 {
			t.Errorf("%s: 8 has %d, %v", name, v, ok)
		}
		seen := 0
		m.Range(func(k, v int) bool { seen++; return v == 2*k })
		if seen != 999 {
			t.Errorf("%s: visited %d entries, want 999", name, seen)
		}
		seen = 0
		m.Range(func(int, int) bool { seen++; return seen < 5 })
		if seen != 5 {
			t.Errorf("%s: Range went on to %d after it was told to stop at 5", name, seen)
		}
	}
}
