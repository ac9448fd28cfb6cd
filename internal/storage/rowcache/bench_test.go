package rowcache

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

const (
	benchRows  = 1_000_000
	benchValue = 100
)

// benchKey writes a key of 20 bytes, as long as a short one with its position.
func benchKey(key []byte, n uint64) {
	copy(key, "ks1/")
	binary.BigEndian.PutUint64(key[4:], n)
	binary.BigEndian.PutUint64(key[12:], n*0x9e3779b97f4a7c15)
}

// xorshift is a xorshift generator: cheap beside what is measured.
type xorshift uint64

func (r *xorshift) next(n uint64) uint64 {
	x := uint64(*r)
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	*r = xorshift(x)
	return x % n
}

func newBenchCache(capacity int64) *Cache {
	// The class is where a store has it.
	t := New(Options{Bytes: capacity, ClassOf: func(key []byte) uint32 { return uint32(key[2] & 7) }})
	key, value := make([]byte, 20), make([]byte, benchValue)
	for i := range uint64(benchRows) {
		benchKey(key, i)
		t.Publish(1, key, value, false)
	}
	t.SetApplied(1)
	return t
}

// runParallel runs body on so many goroutines, b.N times altogether.
func runParallel(b *testing.B, goroutines int, body func(n int, r *xorshift, key, buffer []byte)) {
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			r := xorshift(g*7919 + 1)
			body(b.N/goroutines, &r, make([]byte, 20), make([]byte, 0, 256))
		})
	}
	wg.Wait()
}

// roomyBytes holds all rows, tight about a third of them.
const roomyBytes, tightBytes = 512 << 20, 64 << 20

func BenchmarkGet(b *testing.B) {
	t := newBenchCache(roomyBytes)
	for _, g := range []int{1, 2} {
		b.Run(fmt.Sprintf("goroutines=%d", g), func(b *testing.B) {
			runParallel(b, g, func(n int, r *xorshift, key, buffer []byte) {
				for range n {
					benchKey(key, r.next(benchRows))
					if _, state := t.Get(key, buffer); state != Present {
						panic(state)
					}
				}
			})
		})
	}
}

// BenchmarkHot stays in the caches: what is left is the work itself.
func BenchmarkHot(b *testing.B) {
	const hot = 1000
	t := newBenchCache(roomyBytes)
	b.Run("get", func(b *testing.B) {
		runParallel(b, 1, func(n int, r *xorshift, key, buffer []byte) {
			for range n {
				benchKey(key, r.next(hot))
				t.Get(key, buffer)
			}
		})
	})
	b.Run("publish", func(b *testing.B) {
		runParallel(b, 1, func(n int, r *xorshift, key, buffer []byte) {
			for range n {
				benchKey(key, r.next(hot))
				t.Publish(2, key, buffer[:benchValue], false)
			}
		})
	})
}

func BenchmarkPublish(b *testing.B) {
	for _, c := range []struct {
		name     string
		capacity int64
		keys     uint64
	}{
		{"overwrite", roomyBytes, benchRows},
		{"evict", tightBytes, 1 << 40},
	} {
		t := newBenchCache(c.capacity)
		var gen atomic.Uint64
		gen.Store(2)
		for _, g := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/goroutines=%d", c.name, g), func(b *testing.B) {
				runParallel(b, g, func(n int, r *xorshift, key, buffer []byte) {
					value := buffer[:benchValue]
					for i := range n {
						if i%100_000 == 0 { // as many as a chunk of the log, the last one applied
							t.SetApplied(gen.Add(1) - 1)
						}
						benchKey(key, r.next(c.keys))
						t.Publish(gen.Load(), key, value, false)
					}
				})
			})
		}
	}
}

func BenchmarkFill(b *testing.B) {
	t := newBenchCache(tightBytes)
	for _, g := range []int{1, 2} {
		b.Run(fmt.Sprintf("goroutines=%d", g), func(b *testing.B) {
			runParallel(b, g, func(n int, r *xorshift, key, buffer []byte) {
				value := buffer[:benchValue]
				for range n {
					benchKey(key, r.next(1<<40))
					t.Fill(t.NewTicket(key), key, value, true)
				}
			})
		})
	}
}

// BenchmarkSeek is BenchmarkGet of keys that come together.
func BenchmarkSeek(b *testing.B) {
	t := newBenchCache(roomyBytes)
	room := make([]byte, 20*MaxPrefetchKeys)
	var keys [][]byte
	var hints [MaxPrefetchKeys]Hint
	for i := range MaxPrefetchKeys {
		keys = append(keys, room[i*20:][:20])
	}
	runParallel(b, 1, func(n int, r *xorshift, _, buffer []byte) {
		for range n / MaxPrefetchKeys {
			for _, key := range keys {
				benchKey(key, r.next(benchRows))
			}
			for i, key := range keys {
				hints[i] = t.PrefetchIndex(key)
			}
			for _, h := range hints {
				t.PrefetchRow(h)
			}
			for _, key := range keys {
				if _, state := t.Get(key, buffer); state != Present {
					panic(state)
				}
			}
		}
	})
}
