package counter_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/counter"
)

func Example() {
	ctx := context.Background()
	db, err := cleave.OpenMemory(cleave.Options{Groups: 4})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	likes, err := counter.Open(db, db.Default(), counter.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer likes.Close()

	for range 3 {
		if err := likes.Add(ctx, "post/17", 1); err != nil {
			log.Fatal(err)
		}
	}
	// A retry with the same id does not add again.
	id, err := likes.NewRequestID(ctx, "post/17")
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		if err := likes.AddOnce(ctx, id, "post/17", 1); err != nil {
			log.Fatal(err)
		}
	}
	sum, err := likes.Sum(ctx, "post/17")
	if err != nil {
		log.Fatal(err)
	}
	page, err := likes.Fast(ctx, "post/17", time.Second) // a second old is good enough for a page
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sum, page.Sum)
	// Output: 4 4
}
