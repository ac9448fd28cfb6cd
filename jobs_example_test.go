package cleave_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cleavekv/cleave"
)

// A shard is cut in two, and one half goes to another store while clients go on.
func ExampleDB_Start() {
	ctx := context.Background()
	db, err := cleave.OpenMemory(cleave.Options{Stores: 2, Groups: 4})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	users, err := db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "users", Kind: cleave.Range})
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"ada", "grace", "margaret"} {
		if err := users.Set(ctx, []byte(name), []byte("hello")); err != nil {
			log.Fatal(err)
		}
	}
	split, err := db.Start(ctx, cleave.Split{Keyspace: users, At: [][]byte{[]byte("m")}})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := split.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	shards, err := db.Shards(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range shards {
		if s.Keyspace != "users" || s.Rows != 1 {
			continue
		}
		to := cleave.GroupID(1) // on store 0
		if s.Store == 0 {
			to = 4
		}
		change := cleave.Move{Shard: s.ID, To: to}
		price, err := db.Plan(ctx, change)
		if err != nil {
			log.Fatal(err)
		}
		move, err := db.Start(ctx, change)
		if err != nil {
			log.Fatal(err)
		}
		status, err := move.Wait(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d row to move, the %s is %s\n", price.Rows, status.Kind, status.State)
	}
	value, err := users.Get(ctx, []byte("margaret"))
	fmt.Printf("%s %v\n", value, err)
	// Output:
	// 1 row to move, the move is done
	// hello <nil>
}

// Keys with the same hash tag are always in one shard.
func ExampleKeyspace_Locate() {
	db, err := cleave.OpenMemory(cleave.Options{Stores: 2, Groups: 4})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ks := db.Default()
	name, cart := ks.Locate([]byte("{ada}:name")), ks.Locate([]byte("{ada}:cart"))
	fmt.Println("slot", name.Slot, name == cart)
	// Output:
	// slot 5938 true
}
