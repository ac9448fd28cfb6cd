package actor_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/cleavekv/cleave/actor"
)

func add(s *int, m int) int { *s += m; return *s }

func BenchmarkCounterUncontended(b *testing.B) {
	ctx := context.Background()
	b.Run("impl=mutex", func(b *testing.B) {
		var mu sync.Mutex
		s := 0
		for b.Loop() {
			mu.Lock()
			add(&s, 1)
			mu.Unlock()
		}
	})
	for _, mode := range []actor.Mode{actor.Combining, actor.Owner} {
		a, err := actor.New(0, actor.Each(add), actor.Options{Mode: mode})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("impl=%v", mode), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.Call(ctx, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
		a.Stop(ctx)
	}
}
