// Command tour walks through the toolkit in a few lines: route a key, price a
// change of topology, declare the shape of keys, count without a lock.
//
//	go run ./examples/tour
package main

import (
	"fmt"
	"log"
	"time"

	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/route"
	"github.com/cleavekv/cleave/shardmap"
)

func main() {
	if err := tour(); err != nil {
		log.Fatal(err)
	}
}

func tour() error {
	// Which node owns a key? The same one in every process.
	ring, err := route.NewRing([]route.Node{{Name: "ams"}, {Name: "fra"}, {Name: "sin", Weight: 2}}, route.RingOptions{})
	if err != nil {
		return err
	}
	owner, _ := route.Owner(ring, hash.XXH3String("user:42"))
	fmt.Println("user:42 lives on", owner.Name)

	// What would one more node move? Ask before you add it.
	bigger, err := ring.With(route.Node{Name: "gru"})
	if err != nil {
		return err
	}
	fmt.Printf("gru would take %.1f %% of all keys\n", 100*route.Compare(ring, bigger, nil).Moved)

	// A key whose order is the one you scan in, and that explains itself.
	layout, err := key.ParseLayout("(region, hour(ts)) | id:int")
	if err != nil {
		return err
	}
	now := time.Date(2026, 11, 27, 8, 15, 0, 0, time.UTC)
	order, err := layout.Encode(key.Columns{"region": "eu", "ts": now, "id": 42})
	if err != nil {
		return err
	}
	text, err := layout.Format(order)
	if err != nil {
		return err
	}
	fmt.Printf("%x is %s\n", order, text)

	// A map for all goroutines, with atomic updates.
	var orders shardmap.Map[string, int]
	orders.Compute("eu", func(n int, _ bool) (int, shardmap.Op) { return n + 1, shardmap.Update })
	n, _ := orders.Load("eu")
	fmt.Println("orders in eu:", n)
	return nil
}
