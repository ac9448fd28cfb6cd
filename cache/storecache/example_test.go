package storecache_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/cache"
	"github.com/cleavekv/cleave/cache/storecache"
)

// Prices live in a slow place. A writer that changes one also notes that in the store, and every
// cache that follows the store's feed forgets the old one.
func Example() {
	ctx := context.Background()
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	changed, err := db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "changed-prices"})
	if err != nil {
		log.Fatal(err)
	}

	slow := map[string]int{"tea": 4}
	loads := 0
	prices, err := storecache.New(db, storecache.Keys(changed), cache.Options[string, int]{
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

	// A change: first the source, then the store, which notifies all caches.
	slow["tea"] = 5
	if err := changed.Set(ctx, []byte("tea"), []byte("1")); err != nil {
		log.Fatal(err)
	}
	place, err := db.StableHead(ctx) // to read one's own write
	if err != nil {
		log.Fatal(err)
	}
	if err := storecache.Wait(ctx, prices, place); err != nil {
		log.Fatal(err)
	}
	price, err := prices.Get(ctx, "tea")
	fmt.Println("price:", price, err, "loads:", loads)
	// Output:
	// loads: 1
	// price: 5 <nil> loads: 2
}
