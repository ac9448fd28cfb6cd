package journal_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/saga"
	"github.com/cleavekv/cleave/saga/journal"
)

// Trip is what the saga carries from step to step.
type Trip struct {
	Customer string
	Price    int64
	Booking  string
}

// A trip is paid from an account in the store and booked with an airline elsewhere. If
// the airline has no seat, the money comes back, whatever crashes in between.
func Example() {
	ctx := context.Background()
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	accounts := db.Default()
	if err := accounts.Set(ctx, []byte("ann"), []byte("100")); err != nil {
		log.Fatal(err)
	}

	pay := func(tx *cleave.Txn, t *Trip) error {
		left, err := tx.Add(accounts, []byte(t.Customer), -t.Price)
		if err == nil && left < 0 {
			err = saga.Permanent(errors.New("not enough money"))
		}
		return err
	}
	payBack := func(tx *cleave.Txn, t *Trip) error {
		_, err := tx.Add(accounts, []byte(t.Customer), t.Price)
		return err
	}
	seats := 1
	book := func(_ context.Context, c saga.Call, t *Trip) error { // a request to the airline, with c.Key
		if seats == 0 {
			return saga.Permanent(errors.New("no seat"))
		}
		seats--
		t.Booking = "LX-1"
		return nil
	}
	unbook := func(context.Context, saga.Call, *Trip) error { return nil } // another, which knows what c.DoKey was

	j, err := journal.Open(ctx, db, journal.Options{})
	if err != nil {
		log.Fatal(err)
	}
	runner, err := saga.NewRunner(j, saga.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer runner.Close()
	trips, err := saga.Register(runner, saga.Definition[Trip]{
		Name:  "trip",
		Steps: []saga.Step[Trip]{journal.Step("pay", pay, payBack), {Name: "book", Do: book, Undo: unbook}},
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := runner.Resume(ctx); err != nil { // what was under way when the program ended
		log.Fatal(err)
	}

	for _, order := range []string{"order-1", "order-1", "order-2"} {
		trip, err := trips.Run(ctx, order, Trip{Customer: "ann", Price: 30})
		fmt.Println(trip.Booking, err)
	}
	left, err := accounts.Get(ctx, []byte("ann"))
	fmt.Printf("ann has %s %v\n", left, err)
	// Output:
	// LX-1 <nil>
	// LX-1 <nil>
	//  saga trip "order-2" was taken back at step "book": no seat
	// ann has 70 <nil>
}
