package wal_test

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cleavekv/cleave/internal/wal"
)

// benchLog opens a log in a real directory of the module's file system: the one for
// temporary files may be in memory, where a sync costs nothing.
func benchLog(b *testing.B, d wal.Durability) *wal.Log {
	b.Helper()
	dir, err := os.MkdirTemp(".", "bench-*.tmp")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	var l *wal.Log
	o := wal.Options{FS: wal.OS(dir), Durability: d, Seal: func(c *wal.Chunk) {
		end := c.End()
		c.Release()
		l.Recycle(end)
	}}
	l, err = wal.Open(o, 0, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	return l
}

func BenchmarkAppend(b *testing.B) {
	payload := bytes.Repeat([]byte("x"), 100)
	for _, d := range []wal.Durability{wal.Always, wal.EverySec, wal.Never} {
		for _, writers := range []int{1, 64} {
			b.Run(fmt.Sprintf("durability=%s/writers=%d", d, writers), func(b *testing.B) {
				l := benchLog(b, d)
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
