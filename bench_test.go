package cleave_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/cleavekv/cleave"
)

func benchKey(i uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte("user:"), i*0x9e3779b97f4a7c15)
}

func BenchmarkSet(b *testing.B) {
	for _, d := range []cleave.Durability{cleave.Always, cleave.EverySec, cleave.Never} {
		for _, writers := range []int{1, 64} {
			b.Run(fmt.Sprintf("durability=%v/writers=%d", d, writers), func(b *testing.B) {
				db, err := cleave.Open(b.TempDir(), cleave.Options{Durability: d})
				if err != nil {
					b.Fatal(err)
				}
				defer db.Close()
				ctx, ks, value := context.Background(), db.Default(), make([]byte, 100)
				var next atomic.Uint64
				b.SetParallelism((writers + 1) / 2)
				b.ReportAllocs()
				b.ResetTimer()
				if writers == 1 {
					for b.Loop() {
						if err := ks.Set(ctx, benchKey(next.Add(1)), value); err != nil {
							b.Fatal(err)
						}
					}
					return
				}
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if err := ks.Set(ctx, benchKey(next.Add(1)), value); err != nil {
							b.Error(err)
						}
					}
				})
			})
		}
	}
}

func BenchmarkHGet(b *testing.B) {
	db, err := cleave.Open(b.TempDir(), cleave.Options{Durability: cleave.Never, CacheBytes: 256 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	ctx, ks, name := context.Background(), db.Default(), []byte("field")
	const n = 100_000
	for i := range uint64(n) {
		if _, err := ks.HSet(ctx, benchKey(i), cleave.Field{Name: name, Value: make([]byte, 100)}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	i := uint64(0)
	for b.Loop() {
		if _, err := ks.HGet(ctx, benchKey(i%n), name); err != nil {
			b.Fatal(err)
		}
		i += 7919
	}
}

func BenchmarkGet(b *testing.B) {
	db, err := cleave.Open(b.TempDir(), cleave.Options{Durability: cleave.Never, CacheBytes: 256 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	ctx, ks := context.Background(), db.Default()
	const n = 200_000
	for i := range uint64(n) {
		if err := ks.Set(ctx, benchKey(i), make([]byte, 100)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	i := uint64(0)
	for b.Loop() {
		if _, err := ks.Get(ctx, benchKey(i%n)); err != nil {
			b.Fatal(err)
		}
		i += 7919
	}
}
