package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log"

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
