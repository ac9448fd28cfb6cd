// Command mailboxes shows sharding as a pattern: the mailboxes of many users
// are spread over a fleet of actors by a stable hash and a router.
//
// It sends letters one by one and in batches, waited for and not, and says what
// a batch saves; prints what every shard saw; then adds a shard and shows that
// only the users that belong to it move.
//
// In mode owner every letter that is waited for costs a switch of goroutines,
// and a batch pays it once. In mode combining a sender that finds an office free
// puts the letter into the box itself: there is little left for a batch to
// save, and sorting it by office costs something too.
//
//	go run ./examples/mailboxes
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
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
	if err := compare(ctx, out, post, letters); err != nil {
		return err
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
