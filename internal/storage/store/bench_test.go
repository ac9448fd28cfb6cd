package store

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/storage/rowcache"
)

const benchRows = 200_000

// benchKey is the store key of row i: 16 bytes, spread over the key space.
func benchKey(dst []byte, i int) []byte {
	dst = effect.Rows.AppendKey(dst, nil)
	dst = binary.BigEndian.AppendUint64(dst, uint64(i)*0x9E3779B97F4A7C15)
	return fmt.Appendf(dst, "%07d", i)
}

var benchValue = make([]byte, 64)

// openBenchStore is a store with all rows, the applied ones in Pebble and compacted.
func openBenchStore(b *testing.B, cache, blocks int64) *Store {
	s := mustOpen(b, Options{Dir: b.TempDir(), CacheBytes: cache, BlockCacheBytes: blocks})
	var eb effect.Builder
	var key []byte
	for i := 0; i < benchRows; {
		eb.Reset(effect.Header{})
		for range 1000 {
			key = benchKey(key[:0], i)
			eb.Put(key, benchValue)
			i++
		}
		if _, err := s.Commit(false, newEntry(eb.Bytes())); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

// openAppliedBenchStore is openBenchStore opened again, so that all rows are in Pebble.
func openAppliedBenchStore(b *testing.B, cache, blocks int64) *Store {
	s := openBenchStore(b, cache, blocks)
	mustClose(b, s)
	s = mustOpen(b, s.opts)
	compactPebble(b, s.db)
	b.Cleanup(func() { mustClose(b, s) })
	return s
}

func compactPebble(b *testing.B, db *pebble.DB) {
	if err := db.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := db.Compact(b.Context(), []byte{0}, []byte{0xff}, false); err != nil {
		b.Fatal(err)
	}
}

// openRawPebble is Pebble as its users have it, with the same rows and as much
// memory as the store has for both of its caches.
func openRawPebble(b *testing.B, cache int64, rows bool) *pebble.DB {
	o := &pebble.Options{CacheSize: cache, MemTableSize: 32 << 20, FormatMajorVersion: engineVersion, Logger: &health{}}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	db, err := pebble.Open(b.TempDir(), o)
	if err != nil {
		b.Fatal(err)
	}
	if rows {
		batch := db.NewBatch()
		for i := range benchRows {
			if err := batch.Set(benchKey(nil, i), benchValue, nil); err != nil {
				b.Fatal(err)
			}
		}
		if err := batch.Commit(pebble.NoSync); err != nil {
			b.Fatal(err)
		}
		compactPebble(b, db)
	}
	b.Cleanup(func() { mustClose(b, db) })
	return db
}

// runInterleaved runs two implementations in turns, so that what else the machine does
// hits both, and reports the median cost of each and of their ratio.
func runInterleaved(b *testing.B, ops int, ours, pebbles func(ops int)) {
	var us, them, ratio []float64
	window := func(work func(int)) float64 {
		start := time.Now()
		work(ops)
		return float64(time.Since(start).Nanoseconds()) / float64(ops)
	}
	ours(ops) // both are warm
	pebbles(ops)
	for b.Loop() {
		u, p := window(ours), window(pebbles)
		us, them, ratio = append(us, u), append(them, p), append(ratio, p/u)
	}
	median := func(x []float64) float64 {
		slices.Sort(x)
		return x[len(x)/2]
	}
	b.ReportMetric(median(us), "ns/cleave")
	b.ReportMetric(median(them), "ns/pebble")
	b.ReportMetric(median(ratio), "x")
	b.ReportMetric(0, "ns/op")
}

func BenchmarkGet(b *testing.B) {
	const memory = 64 << 20
	for _, c := range []struct {
		rows          string
		cache, blocks int64
	}{
		{"cached", memory / 2, memory / 2},
		{"uncached", minCacheBytes, memory},
	} {
		b.Run("rows="+c.rows, func(b *testing.B) {
			s := openAppliedBenchStore(b, c.cache, c.blocks)
			db := openRawPebble(b, memory, true)
			var key, dst []byte
			i, j := 0, 0
			next := func(i *int) []byte {
				*i++
				key = benchKey(key[:0], *i*7919%benchRows)
				return key
			}
			ours := func(n int) {
				for range n {
					var err error
					if dst, _, err = s.Get(next(&i), dst[:0]); err != nil || len(dst) != len(benchValue) {
						b.Fatal(len(dst), err)
					}
				}
			}
			ours(benchRows)
			runInterleaved(b, 5000, ours, func(n int) {
				for range n {
					v, closer, err := db.Get(next(&j))
					if err != nil || len(v) != len(benchValue) {
						b.Fatal(len(v), err)
					}
					dst = append(dst[:0], v...)
					closer.Close()
				}
			})
		})
	}
}

// BenchmarkGetMany is what a row costs that is not in the row cache, by how many are read together.
func BenchmarkGetMany(b *testing.B) {
	s := openAppliedBenchStore(b, minCacheBytes, 64<<20)
	keys := make([][]byte, 64)
	i := 0
	for _, n := range []int{8, 16, 32, 64} {
		b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
			for b.Loop() {
				for k := range keys[:n] {
					i++
					keys[k] = benchKey(keys[k][:0], i*7919%benchRows)
				}
				seen := 0
				err := s.GetMany(keys[:n], false, func(int, []byte, bool, rowcache.Ticket) bool { seen++; return true })
				if err != nil || seen < n {
					b.Fatal(seen, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/row")
		})
	}
}

func BenchmarkCommit(b *testing.B) {
	const writers = 64
	b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
		s := mustOpen(b, Options{Dir: b.TempDir()})
		db := openRawPebble(b, 64<<20, false)
		crowd := func(set func(key []byte) error) func(int) {
			return func(n int) {
				var left atomic.Int64
				left.Store(int64(n))
				var wg sync.WaitGroup
				for range writers {
					wg.Go(func() {
						var key []byte
						for left.Add(-1) >= 0 {
							key = benchKey(key[:0], rand.IntN(1<<20))
							if err := set(key); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
			}
		}
		builders := sync.Pool{New: func() any { return new(effect.Builder) }}
		runInterleaved(b, 5000, crowd(func(key []byte) error {
			eb := builders.Get().(*effect.Builder)
			defer builders.Put(eb)
			eb.Reset(effect.Header{})
			eb.Put(key, benchValue)
			_, err := s.Commit(false, newEntry(eb.Bytes()))
			return err
		}), crowd(func(key []byte) error { return db.Set(key, benchValue, pebble.Sync) }))
		mustClose(b, s)
	})
}

func BenchmarkScan(b *testing.B) {
	const memory, length = 64 << 20, 100
	for _, applied := range []bool{true, false} {
		b.Run(fmt.Sprintf("rows=%d/applied=%v", length, applied), func(b *testing.B) {
			var s *Store
			if applied {
				s = openAppliedBenchStore(b, memory/2, memory)
			} else {
				s = openBenchStore(b, memory/2, memory)
				defer mustClose(b, s)
			}
			db := openRawPebble(b, memory, true)
			var key []byte
			i := 0
			next := func() []byte {
				i++
				key = benchKey(key[:0], i*7919%benchRows)
				return key
			}
			runInterleaved(b, 500, func(n int) {
				for range n {
					rows := 0
					if err := s.Scan(next(), nil, false, func(_, _ []byte) bool { rows++; return rows < length }); err != nil {
						b.Fatal(err)
					}
				}
			}, func(n int) {
				for range n {
					scanRawPebble(b, db, next(), length)
				}
			})
		})
	}
}

func scanRawPebble(b *testing.B, db *pebble.DB, start []byte, length int) {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: start})
	if err != nil {
		b.Fatal(err)
	}
	rows := 0
	for ok := it.First(); ok && rows < length; ok = it.Next() {
		if _, err := it.ValueAndErr(); err != nil {
			b.Fatal(err)
		}
		rows++
	}
	if err := it.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkWarm compares reads of keys that are not in memory, together and one by one.
func BenchmarkWarm(b *testing.B) {
	s := openAppliedBenchStore(b, 1<<16, 64<<20)
	const together = 64
	for _, there := range []bool{true, false} {
		keys := make([][]byte, together)
		choose := func(r *rand.Rand) {
			for i := range keys {
				n := r.IntN(benchRows)
				if !there {
					n += benchRows
				}
				keys[i] = benchKey(keys[i][:0], n)
			}
		}
		b.Run(fmt.Sprintf("present=%v/together", there), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			for i := 0; i < b.N; i += together {
				choose(r)
				s.Prefetch(keys...)
			}
		})
		b.Run(fmt.Sprintf("present=%v/apart", there), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			var room []byte
			for i := 0; i < b.N; i += together {
				choose(r)
				for _, k := range keys {
					room, _, _ = s.Get(k, room[:0])
				}
			}
		})
	}
}
