package copies_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/copies"
)

// Every request asks whether the shop is open, and a person changes it twice a day.
func Example() {
	ctx := context.Background()
	db, err := cleave.OpenMemory(cleave.Options{Groups: 4})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	flags, err := copies.Open(db, db.Default(), copies.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := flags.Set(ctx, "shop", []byte("open")); err != nil {
		log.Fatal(err)
	}
	value, err := flags.Get(ctx, "shop") // of any copy
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", value)

	// A change together with something else, and a reader that always asks the same copy.
	err = db.Update(ctx, func(tx *cleave.Txn) error {
		if _, err := tx.Add(db.Default(), []byte("changes"), 1); err != nil {
			return err
		}
		return flags.SetTx(tx, "shop", []byte("closed"))
	})
	if err != nil {
		log.Fatal(err)
	}
	value, err = flags.GetBy(ctx, "shop", "client-17")
	fmt.Printf("%s %v\n", value, err)
	// Output:
	// open
	// closed <nil>
}
