package cleave

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// What a write costs while others read the feed, and wait for more.
func BenchmarkFeedReaders(b *testing.B) {
	for _, readers := range []int{0, 1, 10, 100} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			db, err := OpenMemory(Options{})
			must(b, err)
			defer db.Close()
			c, cancel := context.WithCancel(ctx)
			var wg sync.WaitGroup
			for range readers {
				wg.Go(func() {
					for _, err := range db.Feed(c, db.Now()) {
						if err != nil {
							return
						}
					}
				})
			}
			value := make([]byte, 100)
			for i := 0; b.Loop(); i++ {
				must(b, db.Default().Set(ctx, number(i%1000), value))
			}
			cancel()
			wg.Wait()
		})
	}
}

// What a change costs a reader that is far behind.
func BenchmarkFeedBehind(b *testing.B) {
	db, err := OpenMemory(Options{})
	must(b, err)
	defer db.Close()
	value := make([]byte, 100)
	const changes = 100_000
	from := db.Now()
	for i := range changes {
		must(b, db.Default().Set(ctx, number(i%1000), value))
	}
	to := db.Now()
	for b.Loop() {
		for _, err := range db.FeedUntil(ctx, from, to) {
			must(b, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/changes, "ns/change")
}
