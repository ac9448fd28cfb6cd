package cache_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cleavekv/cleave/cache"
)

// A writer that changes what the loader reads invalidates it afterwards. A cache of several processes follows
// a source of changes instead, such as the feed of a store: see package storecache.
func ExampleCache_Invalidate() {
	ctx := context.Background()
	slow := map[string]int{"tea": 4}
	loads := 0
	prices, err := cache.New(cache.Options[string, int]{
		Load: func(_ context.Context, name string) (int, error) {
			loads++
			price, ok := slow[name]
			if !ok {
				return 0, cache.ErrNotFound
			}
			return price, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer prices.Close()
	for range 1000 {
		if _, err := prices.Get(ctx, "tea"); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("loads:", loads)

	slow["tea"] = 5
	prices.Invalidate("tea")
	price, err := prices.Get(ctx, "tea")
	fmt.Println("price:", price, err, "loads:", loads)
	// Output:
	// loads: 1
	// price: 5 <nil> loads: 2
}
