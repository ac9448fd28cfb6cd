// Command redis talks to a server with a client that knows nothing of Cleave: two accounts
// of different slots, and a transfer that is one transaction. Start the server first:
//
//	go run ./cmd/cleave serve
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/redis/go-redis/v9"
)

func main() {
	addr := "127.0.0.1:7379"
	if len(os.Args) > 1 {
		addr = os.Args[1]
	}
	if err := transfer(addr); err != nil {
		log.Fatal(err)
	}
}

func transfer(addr string) error {
	ctx := context.Background()
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()

	if err := c.MSet(ctx, "alice", 100, "bob", 0).Err(); err != nil {
		return err
	}
	// The keys are of different slots. It is one transaction all the same, which fails
	// with redis.TxFailedErr if another client has changed alice meanwhile.
	err := c.Watch(ctx, func(tx *redis.Tx) error {
		have, err := tx.Get(ctx, "alice").Int()
		if err != nil || have < 30 {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.DecrBy(ctx, "alice", 30)
			p.IncrBy(ctx, "bob", 30)
			return nil
		})
		return err
	}, "alice")
	if err != nil {
		return err
	}
	balances, err := c.MGet(ctx, "alice", "bob").Result()
	fmt.Println(balances...)
	return err
}
