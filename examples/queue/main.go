// Command queue sends mails to users: producers publish them, and two workers send them, of
// which one dies in the middle of its work. Each mail is sent, those of a user in order, and
// what the dead worker had comes back when its lease ends.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"sync"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/queue"
)

func main() {
	db, err := cleave.Open("queue-data", cleave.Options{Groups: 4})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := run(context.Background(), os.Stdout, db); err != nil {
		log.Fatal(err)
	}
}

const (
	users = 5
	mails = 8 // for each of them
)

func run(ctx context.Context, out io.Writer, db *cleave.DB) error {
	ks, err := db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "queues", Kind: cleave.Range})
	if err != nil {
		return err
	}
	q, err := queue.Open(ctx, db, ks, "mail", queue.Options{Lease: 500 * time.Millisecond})
	if err != nil {
		return err
	}
	defer q.Close()

	var producers sync.WaitGroup
	errs := make([]error, users)
	for u := range users {
		producers.Go(func() { errs[u] = publish(ctx, db, q, fmt.Sprint("user", u)) })
	}
	producers.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}

	// The first worker takes some mails, sends none of them and is never seen again.
	lost, err := q.Receive(ctx, 3)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "a worker dies with %d mails\n", len(lost))
	sent, again, err := work(ctx, q)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "another sends %d, of which %d for the second time\n", sent, again)
	// Should the first come back, it gets the error that its mails are not its own any more.
	if err := q.Ack(ctx, lost...); !errors.Is(err, queue.ErrLost) {
		return fmt.Errorf("the dead worker is not told: %v", err)
	}
	return nil
}

// publish writes to a user. The id makes a retry harmless.
func publish(ctx context.Context, db *cleave.DB, q *queue.Queue, user string) error {
	for n := range mails {
		m := queue.Message{Key: []byte(user), Body: fmt.Appendf(nil, "mail %d", n), ID: db.NewRequestID()}
		err := q.Publish(ctx, m)
		if errors.Is(err, cleave.ErrUnknown) {
			err = q.Publish(ctx, m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// work sends all mails, those of a user one after the other.
func work(ctx context.Context, q *queue.Queue) (sent, again int, err error) {
	next := map[string]int{}
	for sent < users*mails {
		got, err := q.Receive(ctx, 10)
		if err != nil {
			return sent, again, err
		}
		for _, d := range got {
			user := string(d.Key)
			if want := fmt.Sprintf("mail %d", next[user]); string(d.Body) != want {
				return sent, again, fmt.Errorf("%s gets %q before %q", user, d.Body, want)
			}
			next[user]++
			sent++
			if d.Attempt > 1 {
				again++
			}
		}
		if err := q.Ack(ctx, got...); err != nil {
			return sent, again, err
		}
	}
	return sent, again, nil
}
