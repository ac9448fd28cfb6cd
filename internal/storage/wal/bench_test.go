package wal_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/storage/wal"
)

// openBenchLog opens a log in the directory for temporary files. If that is in memory,
// where a sync costs nothing, set TMPDIR.
func openBenchLog(b *testing.B, d wal.Durability) *wal.Log {
	b.Helper()
	var consumer *wal.Log
	o := wal.Options{FS: wal.OS(b.TempDir()), Durability: d, Seal: func(c *wal.Chunk) {
		end := c.End()
		c.Release()
		consumer.Recycle(end)
	}}
	l, err := wal.Open(o, 0, nil)
	if err != nil {
		b.Fatal(err)
	}
	consumer = l
	b.Cleanup(func() { l.Close() })
	return l
}

func BenchmarkAppend(b *testing.B) {
	payload := bytes.Repeat([]byte("x"), 100)
	for _, d := range []wal.Durability{wal.Always, wal.EverySec, wal.Never} {
		for _, writers := range []int{1, 64} {
			b.Run(fmt.Sprintf("durability=%s/writers=%d", d, writers), func(b *testing.B) {
				l := openBenchLog(b, d)
				if _, err := l.Append(false, wal.Entry{Payload: payload}); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				b.SetBytes(int64(len(payload)))
				b.ResetTimer()
				var left atomic.Int64
				left.Store(int64(b.N))
				var wg sync.WaitGroup
				for range writers {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							if _, err := l.Append(false, wal.Entry{Group: 1, Payload: payload}); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.StopTimer()
				m := l.Metrics()
				b.ReportMetric(float64(m.Entries)/float64(m.Frames), "entries/frame")
			})
		}
	}
}

// BenchmarkLatency has one writer, and beside it what a log without preallocated
// segments does: it appends a block to a file that grows, and syncs.
func BenchmarkLatency(b *testing.B) {
	payload := bytes.Repeat([]byte("x"), 100)
	l := openBenchLog(b, wal.Always)
	growing, err := os.Create(filepath.Join(b.TempDir(), "growing"))
	if err != nil {
		b.Fatal(err)
	}
	defer growing.Close()
	for _, impl := range []struct {
		name string
		do   func() error
	}{
		{"wal", func() error { _, err := l.Append(false, wal.Entry{Payload: payload}); return err }},
		{"growing", func() error {
			if _, err := growing.Write(make([]byte, 4096)); err != nil {
				return err
			}
			return growing.Sync()
		}},
	} {
		b.Run("impl="+impl.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				if err := impl.do(); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
			b.ReportMetric(float64(took[len(took)-1].Microseconds()), "max-us")
		})
	}
}
