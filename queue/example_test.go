package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/queue"
)

func Example() {
	ctx := context.Background()
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ks, err := db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "queues", Kind: cleave.Range})
	if err != nil {
		log.Fatal(err)
	}
	jobs, err := queue.Open(ctx, db, ks, "jobs", queue.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer jobs.Close()

	user := []byte("user/7") // messages with equal keys come one after the other
	err = jobs.Publish(ctx, queue.Message{Key: user, Body: []byte("welcome")}, queue.Message{Key: user, Body: []byte("remind")})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		got, err := jobs.Receive(ctx, 10) // waits until there is something
		if err != nil {
			log.Fatal(err)
		}
		for _, d := range got {
			fmt.Printf("%s: %s\n", d.Key, d.Body)
		}
		if err := jobs.Ack(ctx, got...); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// user/7: welcome
	// user/7: remind
}

// A loop of workers: it takes messages, extends their leases, and acknowledges those that are done.
func ExampleQueue_Consume() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ks, err := db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "queues", Kind: cleave.Range})
	if err != nil {
		log.Fatal(err)
	}
	jobs, err := queue.Open(ctx, db, ks, "jobs", queue.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer jobs.Close()
	user := []byte("user/7")
	if err := jobs.Publish(ctx, queue.Message{Key: user, Body: []byte("welcome")}, queue.Message{Key: user, Body: []byte("remind")}); err != nil {
		log.Fatal(err)
	}
	err = jobs.Consume(ctx, queue.ConsumeOptions{Concurrency: 8}, func(_ context.Context, d *queue.Delivery) error {
		fmt.Printf("%s: %s, delivery %d\n", d.Key, d.Body, d.Attempt)
		if string(d.Body) == "remind" && d.Attempt == 1 {
			return errors.New("no connection") // it comes again
		}
		if string(d.Body) == "remind" {
			stop()
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// user/7: welcome, delivery 1
	// user/7: remind, delivery 1
	// user/7: remind, delivery 2
	// context canceled
}

func ExampleLog() {
	ctx := context.Background()
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ks, err := db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "logs", Kind: cleave.Range})
	if err != nil {
		log.Fatal(err)
	}
	audit, err := queue.OpenLog(ctx, db, ks, "audit", queue.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer audit.Close()
	if err := audit.Append(ctx, queue.Message{Key: []byte("ada"), Body: []byte("login")}, queue.Message{Key: []byte("ada"), Body: []byte("logout")}); err != nil {
		log.Fatal(err)
	}
	r, err := audit.Reader(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	entries, err := r.Read(ctx, 100)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range entries {
		fmt.Printf("%s %s\n", e.Key, e.Body)
	}
	if err := r.Commit(ctx); err != nil { // the next reader of that name goes on here
		log.Fatal(err)
	}
	// Output:
	// ada login
	// ada logout
}

// Orders that find no turn, because their keys are capped, go to a queue that is not, and are written when there is room.
func ExampleQueue_Publish_overflow() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	orders, queues := mustKeyspace(ctx, db, "orders"), mustKeyspace(ctx, db, "queues")
	overflow, err := queue.Open(ctx, db, queues, "overflow", queue.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer overflow.Close()
	everything, err := db.SetCap(ctx, cleave.Cap{Keyspace: "orders", WritesPerSecond: 0}) // an emergency
	if err != nil {
		log.Fatal(err)
	}

	place := func(id, order string) string {
		limited, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		err := orders.Set(limited, []byte(id), []byte(order))
		if errors.Is(err, cleave.ErrThrottled) { // nothing was written: it may be done later
			if err := overflow.Publish(ctx, queue.Message{Key: []byte(id), Body: []byte(order)}); err != nil {
				log.Fatal(err)
			}
			return "accepted, and done later"
		}
		if err != nil {
			log.Fatal(err)
		}
		return "done"
	}
	fmt.Println(place("7", "two tickets"))

	if err := db.RemoveCap(ctx, everything.ID); err != nil { // or WritesPerSecond: 500, and the consumer waits for its turns
		log.Fatal(err)
	}
	err = overflow.Consume(ctx, queue.ConsumeOptions{}, func(ctx context.Context, d *queue.Delivery) error {
		defer stop()
		return orders.Set(ctx, d.Key, d.Body)
	})
	if !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
	order, err := orders.Get(context.Background(), []byte("7"))
	fmt.Printf("%s %v\n", order, err)
	// Output:
	// accepted, and done later
	// two tickets <nil>
}

func mustKeyspace(ctx context.Context, db *cleave.DB, name string) *cleave.Keyspace {
	ks, err := db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: name, Kind: cleave.Range})
	if err != nil {
		log.Fatal(err)
	}
	return ks
}
