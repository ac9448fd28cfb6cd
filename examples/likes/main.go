// Command likes counts likes of posts, one by each user, while all users like the same
// post. The like and the count change together, so that the count is right however often
// a user presses the button, and whatever crashes.
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
	"github.com/cleavekv/cleave/counter"
)

func main() {
	db, err := cleave.Open("likes-data", cleave.Options{Groups: 4})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := run(context.Background(), os.Stdout, db); err != nil {
		log.Fatal(err)
	}
}

// likes has the likes of each user, and their number.
type likes struct {
	db     *cleave.DB
	rows   *cleave.Keyspace // post/user
	counts *counter.Counters
}

func openLikes(ctx context.Context, db *cleave.DB) (*likes, error) {
	rows, err := db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "likes"})
	if err != nil {
		return nil, err
	}
	counts, err := counter.Open(db, rows, counter.Options{})
	if err != nil {
		return nil, err
	}
	return &likes{db, rows, counts}, nil
}

// like reports whether it is the user's first for the post.
func (l *likes) like(ctx context.Context, post, user string) (bool, error) {
	err := l.counts.Write(ctx, post, 1, func(b *cleave.Batch) {
		b.SetWith(l.rows, []byte(post+"/"+user), nil, cleave.SetOptions{IfAbsent: true})
	})
	if errors.Is(err, cleave.ErrNotStored) {
		return false, nil
	}
	return err == nil, err
}

// unlike reports whether the user had liked the post.
func (l *likes) unlike(ctx context.Context, post, user string) (liked bool, err error) {
	err = l.db.Update(ctx, func(tx *cleave.Txn) error {
		n, err := tx.Delete(l.rows, []byte(post+"/"+user))
		if liked = n == 1; err != nil || !liked {
			return err
		}
		return l.counts.AddTx(tx, post, -1)
	})
	return liked, err
}

// run lets a crowd like a post, twice each, and some think better of it.
func run(ctx context.Context, out io.Writer, db *cleave.DB) error {
	l, err := openLikes(ctx, db)
	if err != nil {
		return err
	}
	defer l.counts.Close()
	const crowd = 64
	var wg sync.WaitGroup
	errs := make([]error, crowd)
	for i := range crowd {
		wg.Go(func() {
			user := fmt.Sprint("user", i)
			_, err1 := l.like(ctx, "post/17", user)
			_, err2 := l.like(ctx, "post/17", user)
			var err3 error
			if i%4 == 0 {
				_, err3 = l.unlike(ctx, "post/17", user)
			}
			errs[i] = errors.Join(err1, err2, err3)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	exact, err := l.counts.Sum(ctx, "post/17")
	if err != nil {
		return err
	}
	page, err := l.counts.Fast(ctx, "post/17", time.Second)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d users like the post; a page may show %d\n", exact, page.Sum)
	return err
}
