package saga_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/cleavekv/cleave/saga"
)

// Order is what a saga carries.
type Order struct{ Item string }

func Example() {
	say := func(what string) func(context.Context, saga.Call, *Order) error {
		return func(_ context.Context, c saga.Call, o *Order) error {
			fmt.Println(what, o.Item, c.Key)
			return nil
		}
	}
	refuse := func(context.Context, saga.Call, *Order) error {
		return saga.Permanent(errors.New("no address"))
	}
	runner, err := saga.NewRunner(saga.NewMemoryJournal(), saga.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer runner.Close()
	orders, err := saga.Register(runner, saga.Definition[Order]{
		Name: "order",
		Steps: []saga.Step[Order]{
			{Name: "reserve", Do: say("reserve"), Undo: say("give back")},
			{Name: "ship", Do: refuse, Undo: say("call back")},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = orders.Run(context.Background(), "17", Order{"a lamp"})
	fmt.Println(errors.Is(err, saga.ErrCompensated), err)
	// Output:
	// reserve a lamp "17"/"reserve"/do
	// call back a lamp "17"/"ship"/undo
	// give back a lamp "17"/"reserve"/undo
	// true saga order "17" was taken back at step "ship": no address
}
