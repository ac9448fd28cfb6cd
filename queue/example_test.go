package queue_test

import (
	"context"
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
