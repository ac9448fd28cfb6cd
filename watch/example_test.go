package watch_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/watch"
)

func Example() {
	ctx := context.Background()
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ks := db.Default()
	hub := watch.New(db) // one for all watchers

	w, err := hub.Watch(watch.Target{Keyspace: ks, Prefix: []byte("price/")}, watch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	for _, row := range [][2]string{{"price/apple", "3"}, {"stock/apple", "100"}, {"price/pear", "4"}} { // stocks are not watched
		if err := ks.Set(ctx, []byte(row[0]), []byte(row[1])); err != nil {
			log.Fatal(err)
		}
	}

	for e, err := range w.Events(ctx) {
		if err != nil {
			log.Fatal(err)
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
		log.Fatal(err)
	}
	defer db.Close()
	ks := db.Default()
	if err := ks.Set(ctx, []byte("flag/dark"), []byte("off")); err != nil {
		log.Fatal(err)
	}

	flags := map[string]string{}
	for e, err := range watch.New(db).Follow(ctx, watch.Target{Keyspace: ks, Prefix: []byte("flag/")}, watch.Options{}) {
		if err != nil {
			log.Fatal(err)
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
			if err := ks.Set(ctx, []byte("flag/dark"), []byte("on")); err != nil { // by another program, as a rule
				log.Fatal(err)
			}
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
		log.Fatal(err)
	}
	defer db.Close()
	ks := db.Default()
	go func() {
		if err := ks.Set(ctx, []byte("job/7"), []byte("done")); err != nil {
			log.Fatal(err)
		}
	}()
	item, _, err := watch.New(db).Until(ctx, ks, []byte("job/7"), func(item cleave.Item, found bool) bool {
		return found && string(item.Value) == "done"
	})
	fmt.Println(string(item.Value), err)
	// Output: done <nil>
}
