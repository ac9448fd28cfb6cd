// Command bank moves money between accounts in an embedded store: many
// transfers at once, a ledger in the order of time, and a total that never
// changes.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"

	"github.com/cleavekv/cleave"
)

// bank is three keyspaces: balances by name, a ledger by number, and the last
// number that was given out.
type bank struct {
	db                        *cleave.DB
	accounts, ledger, numbers *cleave.Keyspace
}

func openBank(ctx context.Context, dir string) (*bank, error) {
	db, err := cleave.Open(dir, cleave.Options{})
	if err != nil {
		return nil, err
	}
	b := &bank{db: db, accounts: db.Default()}
	b.ledger, err = db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "ledger", Kind: cleave.Range})
	if err == nil {
		b.numbers, err = db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "numbers"})
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return b, nil
}

var errFunds = errors.New("not enough money")

// transfer moves money and writes it down, all of it or nothing.
func (b *bank) transfer(ctx context.Context, from, to string, amount int64) error {
	return b.db.Update(ctx, func(tx *cleave.Txn) error {
		balance, err := tx.Add(b.accounts, []byte(from), -amount)
		if err != nil {
			return err
		}
		if balance < 0 {
			return fmt.Errorf("%s: %w", from, errFunds) // nothing happens
		}
		if _, err := tx.Add(b.accounts, []byte(to), amount); err != nil {
			return err
		}
		number, err := tx.Add(b.numbers, []byte("ledger"), 1)
		if err != nil {
			return err
		}
		return tx.Set(b.ledger, fmt.Appendf(nil, "%08d", number), fmt.Appendf(nil, "%s to %s: %d", from, to, amount))
	})
}

// total adds up all accounts as of one moment.
func (b *bank) total(ctx context.Context, names []string) (sum int64, err error) {
	err = b.db.View(ctx, func(tx *cleave.Txn) error {
		for _, name := range names {
			balance, err := tx.Get(b.accounts, []byte(name))
			if err != nil {
				return err
			}
			n, err := strconv.ParseInt(string(balance), 10, 64)
			if err != nil {
				return err
			}
			sum += n
		}
		return nil
	})
	return sum, err
}

// last returns n entries of the ledger.
func (b *bank) last(ctx context.Context, n int) (entries []string, err error) {
	// The newest entries of the ledger, a keyspace that keeps its keys in order.
	page, err := b.ledger.Scan(ctx, cleave.ScanOptions{Reverse: true, Limit: n})
	for _, item := range page.Items {
		entries = append(entries, fmt.Sprintf("%s %s", item.Key, item.Value))
	}
	return entries, err
}

func main() {
	dir, err := os.MkdirTemp("", "bank")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := run(dir); err != nil {
		log.Fatal(err)
	}
}

func run(dir string) error {
	ctx := context.Background()
	b, err := openBank(ctx, dir)
	if err != nil {
		return err
	}
	defer b.db.Close()

	names := []string{"ann", "ben", "cleo"}
	for _, name := range names {
		if err := b.accounts.Set(ctx, []byte(name), []byte("100")); err != nil {
			return err
		}
	}
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			err := b.transfer(ctx, names[i%3], names[(i+1)%3], 10)
			if err != nil && !errors.Is(err, errFunds) {
				log.Print(err)
			}
		})
	}
	wg.Wait()
	fmt.Println(b.transfer(ctx, "ann", "ben", 1000))
	sum, err := b.total(ctx, names)
	if err != nil {
		return err
	}
	fmt.Println("all accounts together:", sum)
	entries, err := b.last(ctx, 1)
	fmt.Println("the ledger has an end:", len(entries) == 1)
	return err
}
