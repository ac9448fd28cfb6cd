package hash

import (
	"fmt"
	"testing"
)

var sink uint64

// Run with: go test -run '^$' -bench Sum ./hash
func BenchmarkSum(b *testing.B) {
	for _, f := range Functions() {
		for _, n := range []int{8, 16, 32, 64, 256, 4096} {
			if f.KeyBytes != 0 && f.KeyBytes != n {
				continue
			}
			key := sanityBuffer(n)
			for i := range key {
				key[i] |= 0x80 // no byte is '{': the slot's whole key is hashed
			}
			b.Run(fmt.Sprintf("impl=%s/len=%d", f.Name, n), func(b *testing.B) {
				b.SetBytes(int64(n))
				for b.Loop() {
					sink += f.Sum(key)
				}
			})
		}
	}
}

func BenchmarkDerive(b *testing.B) {
	h := XXH3String("key")
	for b.Loop() {
		h = h.Derive(1)
	}
	sink += h.Uint64()
}

func BenchmarkComparable(b *testing.B) {
	var m Maphash
	b.Run("key=uint64", func(b *testing.B) {
		for b.Loop() {
			sink += Comparable(m, sink).Uint64()
		}
	})
	b.Run("key=string", func(b *testing.B) {
		for b.Loop() {
			sink += Comparable(m, "a key of sixteen").Uint64()
		}
	})
}
