package hashcells

import (
	"slices"
	"testing"

	"github.com/cleavekv/cleave/hash"
)

func TestTheSlotBaselineAgreesWithRedisAndWithOurs(t *testing.T) {
	// The check value of CRC-16/XMODEM, and the example of the Redis Cluster
	// specification.
	if got := plainSlot([]byte("123456789")); got != 0x31c3 {
		t.Errorf("slot of 123456789 is %#x, want 0x31c3", got)
	}
	if a, b := plainSlot([]byte("{user1000}.following")), plainSlot([]byte("{user1000}.followers")); a != b {
		t.Errorf("keys with one tag have slots %d and %d", a, b)
	}
	odd := [][]byte{nil, []byte("{}"), []byte("a{}b{c}"), []byte("a{{b}}"), []byte("}{x}"), []byte("{open")}
	for _, k := range slices.Concat(randomKeys(8), randomKeys(1024), taggedKeys(), odd) {
		if got, want := plainSlot(k), uint16(hash.SlotOf(k)); got != want {
			t.Errorf("%q: baseline has slot %d, ours %d", k, got, want)
		}
	}
}

func TestKeyCountIsAPowerOfTwo(t *testing.T) {
	if keyCount&(keyCount-1) != 0 {
		t.Errorf("loops mask with %d-1", keyCount)
	}
}
