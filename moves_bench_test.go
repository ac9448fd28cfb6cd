package cleave

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkMove moves a shard of 100 MB from one store to another and back while
// clients read and write it. Reported are how long it took no writes, as the job says
// and as the slowest client noticed, and what was carried in a second. Run it with
//
//	go test -run '^$' -bench '^BenchmarkMove$' -benchtime 20x .
func BenchmarkMove(b *testing.B) {
	const rows, size = 100_000, 1000
	for _, c := range []moveCase{{0, 0, Always}, {8, 10, Always}, {16, 50, Always}, {16, 50, EverySec}} {
		b.Run(c.String(), func(b *testing.B) {
			db, err := Open(b.TempDir(), Options{Stores: 2, Groups: 4, Durability: c.durability})
			must(b, err)
			defer mustClose(b, db)
			ks := rangeSpace(b, db, "big")
			fill(b, db, ks, rows, size)
			shard := db.Map().Find(ks.space.Span().Start)
			home := map[GroupID]int{}
			for _, g := range db.Groups() {
				home[g.ID] = g.Store
			}
			load := startLoad(ks, c, rows, size)
			var pauses, freezes []time.Duration
			var bytes uint64
			var spent time.Duration
			for b.Loop() {
				to := GroupID(1)
				now := db.Map().Find(ks.space.Span().Start)
				for _, g := range db.Groups() {
					if g.Store != home[now.Group] {
						to = g.ID
					}
				}
				load.worst.Store(0)
				job, err := db.Start(ctx, Move{Shard: shard.ID, To: to})
				must(b, err)
				s, err := job.Wait(ctx)
				must(b, err)
				pauses = append(pauses, s.Pause)
				freezes = append(freezes, time.Duration(load.worst.Load()))
				bytes, spent = bytes+s.Bytes, spent+s.Ended.Sub(s.Created)
			}
			load.end()
			b.ReportMetric(float64(quantile(pauses, 0.5).Milliseconds()), "p50-pause-ms")
			b.ReportMetric(float64(quantile(pauses, 0.99).Milliseconds()), "p99-pause-ms")
			b.ReportMetric(float64(quantile(freezes, 0.99).Milliseconds()), "p99-slowest-write-ms")
			b.ReportMetric(float64(bytes)/spent.Seconds()/1e6, "MB/s")
			b.ReportMetric(float64(load.writes.Load())/b.Elapsed().Seconds(), "writes/s")
		})
	}
}

// fill writes rows of a size.
func fill(b *testing.B, db *DB, ks *Keyspace, rows, size int) {
	value := make([]byte, size)
	for i := 0; i < rows; {
		var batch Batch
		for range min(rows-i, 500) {
			binary.LittleEndian.PutUint64(value, rand.Uint64())
			batch.Set(ks, number(i), value)
			i++
		}
		must(b, db.Write(ctx, &batch))
	}
}

// moveCase is what clients do meanwhile: of a hundred operations some are writes.
type moveCase struct {
	clients, writes int
	durability      Durability
}

func (c moveCase) String() string {
	return fmt.Sprintf("%d_clients_%d%%_writes_%v", c.clients, c.writes, c.durability)
}

// moveLoad is clients of a keyspace.
type moveLoad struct {
	stop   atomic.Bool
	wg     sync.WaitGroup
	worst  atomic.Int64
	writes atomic.Int64
}

func startLoad(ks *Keyspace, c moveCase, rows, size int) *moveLoad {
	l := &moveLoad{}
	for range c.clients {
		l.wg.Go(func() {
			value := make([]byte, size)
			for !l.stop.Load() {
				key := number(rand.IntN(rows))
				if rand.IntN(100) >= c.writes {
					_, _ = ks.Get(ctx, key)
					continue
				}
				begun := time.Now()
				if ks.Set(ctx, key, value) != nil {
					return
				}
				l.writes.Add(1)
				for took := int64(time.Since(begun)); ; {
					if worst := l.worst.Load(); took <= worst || l.worst.CompareAndSwap(worst, took) {
						break
					}
				}
			}
		})
	}
	return l
}

func (l *moveLoad) end() {
	l.stop.Store(true)
	l.wg.Wait()
}

func quantile(of []time.Duration, q float64) time.Duration {
	slices.SortFunc(of, func(a, b time.Duration) int { return cmp.Compare(a, b) })
	return of[min(int(q*float64(len(of))), len(of)-1)]
}
