package redis

import "testing"

// A request of a MULTI has a slab of its own until EXEC ends: one value must not take the memory of many.
func TestSlab_GrowsWithWhatIsTaken(t *testing.T) {
	var s slab[int]
	for i := range 3 * maxSlabItems {
		*s.newItem() = i + 1
		if len(s.items) > max(1, 2*i) || len(s.items) > maxSlabItems {
			t.Fatalf("%d values at once for number %d", len(s.items), i)
		}
	}
	s.reset()
	if v := s.newItem(); *v != 0 || len(s.items) != maxSlabItems {
		t.Errorf("what was taken back is %d, and %d are kept", *v, len(s.items))
	}
}
