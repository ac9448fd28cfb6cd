package watch_test

import (
	"context"
	"fmt"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/watch"
)

func Example() {
	ctx := context.Background()
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	ks := db.Default()
	hub := watch.New(db) // one for all who watch

	w, err := hub.Watch(watch.Target{Keyspace: ks, Prefix: []byte("price/")}, watch.Options{})
	if err != nil {
		panic(err)
	}
	defer w.Close()
	_ = ks.Set(ctx, []byte("price/apple"), []byte("3"))
	_ = ks.Set(ctx, []byte("stock/apple"), []byte("100")) // not watched
	_ = ks.Set(ctx, []byte("price/pear"), []byte("4"))

	for e, err := range w.Events(ctx) {
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s %s is %s\n", e.Kind, e.Key, e.Item.Value)
		if string(e.Key) == "price/pear" {
			break // keep e.After to go on from here later
		}
	}
	// Output:
	// set price/apple is 3
	// set price/pear is 4
}

// A copy of some keys, kept up to date.
func ExampleHub_Follow() {
	ctx := context.Background()
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	ks := db.Default()
	_ = ks.Set(ctx, []byte("flag/dark"), []byte("off"))

	flags := map[string]string{}
	for e, err := range watch.New(db).Follow(ctx, watch.Target{Keyspace: ks, Prefix: []byte("flag/")}, watch.Options{}) {
		if err != nil {
			panic(err)
		}
		switch e.Kind {
		case watch.Reset:
			clear(flags)
		case watch.Set:
			flags[string(e.Key)] = string(e.Item.Value)
		case watch.Deleted:
			delete(flags, string(e.Key))
		case watch.Synced:
			fmt.Println("what there is:", flags)
			_ = ks.Set(ctx, []byte("flag/dark"), []byte("on")) // by somebody else, as a rule
			continue
		}
		if flags["flag/dark"] == "on" {
			break
		}
	}
	fmt.Println("and then:", flags)
	// Output:
	// what there is: map[flag/dark:off]
	// and then: map[flag/dark:on]
}

// One waits for what another does.
func ExampleHub_Until() {
	ctx := context.Background()
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	ks := db.Default()
	go func() { _ = ks.Set(ctx, []byte("job/7"), []byte("done")) }()
	item, _, err := watch.New(db).Until(ctx, ks, []byte("job/7"), func(item cleave.Item, found bool) bool {
		return found && string(item.Value) == "done"
	})
	fmt.Println(string(item.Value), err)
	// Output: done <nil>
}
