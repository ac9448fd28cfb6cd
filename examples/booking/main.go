// Command booking answers one question: what does the choice of a shard key
// cost?
//
// A cruise line sells cabins. A customer holds one for a while, and confirms or
// releases it; of two that want the same cabin exactly one may get it. Each step
// reads and writes up to three rows: the cabin, the hold and the contract. The
// program keeps them under three shard keys, all in one store directory, and
// measures each in the same run:
//
//   - by cabin: the rows that must be decided together live together. No
//     step leaves its shard, and the cabins of a sailing are spread. A page that
//     shows a whole sailing has to ask everywhere.
//   - by sailing: no step leaves its shard either, and the page asks one. But
//     on the day when a sailing goes on sale one shard has all the work.
//   - by customer: a customer's holds and contracts live together, which sounds
//     friendly. The cabin cannot, because others want it too, so each step is a
//     transaction of two shards.
//
// All three are right: a transaction does not care where its keys are. Look at
// [design] for the keys, at [line.hold] and [line.confirm] for the steps, and at
// the columns of the table for the price. Where rows are is looked up in the
// store's map, see [spread]; times and work are measured.
//
// Usage:
//
//	go run ./examples/booking [-bookings n]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/cleavekv/cleave"
)

func main() {
	log.SetFlags(0)
	bookings := flag.Int("bookings", 200, "how many cabins to sell under each key")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *bookings); err != nil {
		log.Fatal(err)
	}
}

// options spread the rows over several stores, each with several groups.
var options = cleave.Options{Stores: 3, Groups: 6}

// holdTime is how long a cabin is kept for a customer who thinks about it.
const holdTime = 15 * time.Minute

// run is the whole story.
func run(ctx context.Context, out io.Writer, bookings int) (err error) {
	dir, err := os.MkdirTemp("", "booking")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	db, err := cleave.Open(dir, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	lines := make([]*line, len(designs))
	for i, d := range designs {
		if lines[i], err = openLine(ctx, db, d); err != nil {
			return err
		}
	}
	for _, l := range lines {
		cabins := deck("S1", bookings)
		refused, err := race(ctx, l, cabins)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%-12s %d cabins, two customers for each at once: each was sold to one, %d refused\n", l.name+":", len(cabins), refused)
	}
	costs, err := measure(ctx, db, lines, deck("S2", bookings))
	if err != nil {
		return err
	}
	fmt.Fprintln(out)
	return report(out, lines, costs)
}
