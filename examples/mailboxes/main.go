// Command mailboxes shows sharding as a pattern: the mailboxes of many users
// are spread over a fleet of actors by a stable hash and a router.
//
// It delivers letters one by one and in batches, prints what every shard saw,
// then adds a shard and shows that only the users who belong to it move.
//
//	go run ./examples/mailboxes
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/cleavekv/cleave/actor"
)

func main() {
	for _, mode := range []actor.Mode{actor.Combining, actor.Owner} {
		if err := run(context.Background(), os.Stdout, mode, 40_000); err != nil {
			log.Fatal(err)
		}
	}
}

// run is the whole story, for one way of running actors.
func run(ctx context.Context, out io.Writer, mode actor.Mode, users int) error {
	post, err := OpenPost(5, 4, mode)
	if err != nil {
		return err
	}
	letters := make([]Letter, users)
	for i := range letters {
		letters[i] = Letter{To: user(i), Text: "hello"}
	}
	fmt.Fprintf(out, "=== mode %v: %d users, 4 offices ===\n\n", mode, users)
	for _, way := range []struct {
		name  string
		batch int
	}{{"opens every box, letters posted one by one:", 1}, {"again, posted one by one:", 1}, {"again, in batches of 64:", 64}} {
		start := time.Now()
		if err := deliver(ctx, post, letters, way.batch); err != nil {
			return err
		}
		fmt.Fprintf(out, "%-45s %5d ns a letter\n", way.name, time.Since(start).Nanoseconds()/int64(users))
	}
	fmt.Fprintln(out)
	if err := report(ctx, out, post); err != nil {
		return err
	}
	boxes, moved, promised, err := post.Grow(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nA fifth office opens: %d of %d boxes move, %.1f %%. The router said %.1f %%, and no\nrouter could do with less than %.1f %%:\n\n",
		moved, boxes, 100*float64(moved)/float64(boxes), 100*promised.Moved, 100*promised.Minimum)
	if err := report(ctx, out, post); err != nil {
		return err
	}
	n, err := post.Count(ctx, user(7))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s still has its %d letters.\n\n", user(7), n)
	return post.Close(ctx)
}

func user(i int) string { return fmt.Sprintf("user-%05d", i) }

// deliver sends the letters, from several postmen at once who each hand in
// batch letters at a time, and waits until all are in their boxes.
func deliver(ctx context.Context, post *Post, letters []Letter, batch int) error {
	const postmen = 8
	errs := make(chan error, postmen)
	var wg sync.WaitGroup
	for man := range postmen {
		bag := letters[man*len(letters)/postmen : (man+1)*len(letters)/postmen]
		wg.Go(func() { errs <- walk(ctx, post, bag, batch) })
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// walk is one postman's way.
func walk(ctx context.Context, post *Post, bag []Letter, batch int) error {
	for next := range slices.Chunk(bag, batch) {
		if batch == 1 {
			if err := post.Drop(ctx, next[0]); err != nil {
				return err
			}
		} else if err := post.DropAll(ctx, next); err != nil {
			return err
		}
	}
	return post.Flush(ctx)
}

// report prints a line for every office.
func report(ctx context.Context, out io.Writer, post *Post) error {
	lines, err := post.Report(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "office\tboxes\tletters\thandled\tbatches\tdeepest queue\twait p99\t")
	for _, l := range lines {
		s := l.Stats
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%v\t\n", l.Office, l.Boxes, l.Letters, s.Handled, s.Batches, s.DepthMax, s.QueueWait.Quantile(0.99).Round(time.Microsecond))
	}
	return w.Flush()
}
