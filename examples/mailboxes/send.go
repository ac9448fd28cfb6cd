package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// rounds is how often each way of sending has its turn. The fastest counts: it
// is the one that the rest of the machine disturbed least.
const rounds = 3

// perBatch is how many letters a postman hands in at once.
const perBatch = 64

// way is a way to send letters: batch at a time, each waited for or not.
type way struct {
	name  string
	batch int
	wait  bool
}

// compare sends every letter in every way and prints what each costs. Only what
// is waited for is compared with what is waited for: a sender that does not wait leaves
// the work to another goroutine, and may be faster for that reason alone.
func compare(ctx context.Context, out io.Writer, post *Post, letters []Letter) error {
	ways := []way{
		{"called one by one", 1, true}, {fmt.Sprintf("called in batches of %d", perBatch), perBatch, true},
		{"posted one by one", 1, false}, {fmt.Sprintf("posted in batches of %d", perBatch), perBatch, false},
	}
	if err := send(ctx, post, letters, ways[0]); err != nil { // opens every box
		return err
	}
	best := make([]time.Duration, len(ways))
	for round := range rounds {
		for i, w := range ways {
			start := time.Now()
			if err := send(ctx, post, letters, w); err != nil {
				return err
			}
			if took := time.Since(start); round == 0 || took < best[i] {
				best[i] = took
			}
		}
	}
	for i, w := range ways {
		fmt.Fprintf(out, "%-25s %5d ns a letter", w.name, best[i].Nanoseconds()/int64(len(letters)))
		if w.batch > 1 {
			fmt.Fprint(out, "   ", gain(best[i-1], best[i]))
		}
		fmt.Fprintln(out)
	}
	return nil
}

// gain returns what batches did. A tenth more or less may be the machine's mood.
func gain(single, batched time.Duration) string {
	switch ratio := float64(single) / float64(max(batched, 1)); {
	case ratio > 1.1:
		return fmt.Sprintf("batches: %.1f times as fast", ratio)
	case ratio > 0.9:
		return "batches: no gain"
	default:
		return fmt.Sprintf("batches: no gain, %.1f times as slow", 1/ratio)
	}
}

// send sends the letters from several postmen at once and waits until all are
// in their boxes.
func send(ctx context.Context, post *Post, letters []Letter, w way) error {
	var errs [8]error
	var wg sync.WaitGroup
	for man := range errs {
		bag := letters[man*len(letters)/len(errs) : (man+1)*len(letters)/len(errs)]
		wg.Go(func() { errs[man] = walk(ctx, post, bag, w) })
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

// walk is one postman's way.
func walk(ctx context.Context, post *Post, bag []Letter, w way) error {
	for next := range slices.Chunk(bag, w.batch) {
		var err error
		switch {
		case w.batch == 1 && w.wait:
			err = post.Deliver(ctx, next[0])
		case w.batch == 1:
			err = post.Drop(ctx, next[0])
		case w.wait:
			err = post.DeliverAll(ctx, next)
		default:
			err = post.DropAll(ctx, next)
		}
		if err != nil {
			return err
		}
	}
	return post.Flush(ctx)
}
