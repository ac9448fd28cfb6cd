package shardmap

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
)

const benchEntries = 1_000_000

func BenchmarkMap(b *testing.B) {
	keys := rand.Perm(benchEntries)
	benchMixes(b, "word", func(i int) uint64 { return uint64(keys[i]) }, uint64(1))
	benchMixes(b, "wide", func(i int) uint64 { return uint64(keys[i]) }, wide{1})
	texts := make([]string, benchEntries)
	for i := range texts {
		texts[i] = fmt.Sprintf("key-%012d", keys[i])
	}
	benchMixes(b, "entry", func(i int) string { return texts[i] }, "value")
}

// benchMixes runs shares of reads over a full map, and inserts into an empty one.
func benchMixes[K comparable, V any](b *testing.B, layout string, key func(int) K, value V) {
	full := new(Map[K, V])
	for i := range benchEntries {
		full.Store(key(i), value)
	}
	for _, reads := range []int{100, 95, 50, 0} {
		b.Run(fmt.Sprintf("layout=%s/reads=%d", layout, reads), func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for i := rand.IntN(benchEntries); pb.Next(); i++ {
					if k := key(i % benchEntries); i*37%100 < reads {
						full.Load(k)
					} else {
						full.Store(k, value)
					}
				}
			})
		})
	}
	b.Run(fmt.Sprintf("layout=%s/insert", layout), func(b *testing.B) {
		var next atomic.Int64
		m := new(Map[K, V])
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				i := int(next.Add(1)) % benchEntries
				if i == 0 {
					m.Clear()
				}
				m.Store(key(i), value)
			}
		})
	})
}

// BenchmarkShardPadding shows what the layout of a shard buys: goroutines
// count in shards of their own, once as they are, once packed.
func BenchmarkShardPadding(b *testing.B) {
	const n = 64
	type packed struct {
		dir   atomic.Pointer[segment]
		count atomic.Int64
	}
	plain, spaced := make([]packed, n), make([]shard, n)
	for name, touch := range map[string]func(i int) bool{
		"packed": func(i int) bool { plain[i].count.Add(1); return plain[(i+1)%n].dir.Load() == nil },
		"padded": func(i int) bool { spaced[i].count.Add(1); return spaced[(i+1)%n].directoryPtr.Load() == nil },
	} {
		b.Run("shards="+name, func(b *testing.B) {
			var worker atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				for i := int(worker.Add(1)) % n; pb.Next(); {
					touch(i)
				}
			})
		})
	}
}

// BenchmarkCountOperations shows what counting costs, of each layout.
func BenchmarkCountOperations(b *testing.B) {
	benchCounting(b, "word", func(i int) uint64 { return uint64(i) }, uint64(1))
	texts := make([]string, 1<<16)
	for i := range texts {
		texts[i] = fmt.Sprintf("key-%012d", i)
	}
	benchCounting(b, "entry", func(i int) string { return texts[i] }, "value")
}

func benchCounting[K comparable, V any](b *testing.B, layout string, key func(int) K, value V) {
	const entries = 1 << 16
	for _, count := range []bool{false, true} {
		m, err := New[K, V](Options{CountOperations: count})
		if err != nil {
			b.Fatal(err)
		}
		for i := range entries {
			m.Store(key(i), value)
		}
		for _, reads := range []int{100, 0} {
			b.Run(fmt.Sprintf("layout=%s/reads=%d/count=%t", layout, reads, count), func(b *testing.B) {
				b.RunParallel(func(pb *testing.PB) {
					for i := rand.IntN(entries); pb.Next(); i++ {
						if k := key(i * 7919 % entries); reads > 0 {
							m.Load(k)
						} else {
							m.Store(k, value)
						}
					}
				})
			})
		}
	}
}
