// Command hello is the shortest program that keeps something in the store: a value, a
// counter, a key that expires, and a change of two keys at once.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/cleavekv/cleave"
)

func main() {
	db, err := cleave.Open("hello-data", cleave.Options{}) // a directory, made if there is none
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := hello(context.Background(), db.Default()); err != nil {
		log.Fatal(err)
	}
	// Two keys, all or nothing, whatever crashes.
	err = db.Update(context.Background(), func(tx *cleave.Txn) error {
		if _, err := tx.Add(db.Default(), []byte("stock"), -1); err != nil {
			return err
		}
		return tx.Set(db.Default(), []byte("order:1"), []byte("one of them"))
	})
	if err != nil {
		log.Fatal(err)
	}
}

func hello(ctx context.Context, ks *cleave.Keyspace) error {
	if err := ks.Set(ctx, []byte("user:42"), []byte("Ada")); err != nil { // durable when it returns
		return err
	}
	name, err := ks.Get(ctx, []byte("user:42"))
	if err != nil { // errors.Is(err, cleave.ErrNotFound) if there is none
		return err
	}
	visits, err := ks.Add(ctx, []byte("visits"), 1)
	if err != nil {
		return err
	}
	fmt.Printf("hello %s, visit %d\n", name, visits)
	_, err = ks.SetWith(ctx, []byte("session:7"), []byte("open"), cleave.SetOptions{TTL: time.Hour})
	return err
}
