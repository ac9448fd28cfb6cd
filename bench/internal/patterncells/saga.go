package patterncells

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/workload"
	"github.com/cleavekv/cleave/saga"
	"github.com/cleavekv/cleave/saga/journal"
)

// The contestants of a transfer.
const (
	AsTransaction = "one transaction"
	AsSaga        = "a saga of two steps"
)

// sagaAccounts is how many accounts there are: enough that transfers rarely meet.
const sagaAccounts = 4096

// sagaCells yields a transfer between two accounts in both forms. Both write down what
// they did under an id, so that it may be asked for again.
func sagaCells(cfg Config, yield func(duel.Cell) bool) bool {
	for _, o := range []cleave.Options{{}, {Stores: 2, Groups: 4}} {
		b, err := openSagaBank(cfg, o)
		if err != nil {
			return yield(duel.Cell{ID: "patterns/saga", Contestants: []duel.Contestant{{Name: AsSaga, Ours: true, Work: func(int) { panic(err) }}}})
		}
		for _, clients := range []int{1, 64} {
			if !yield(b.cell(max(o.Stores, 1), clients)) {
				b.close()
				return false
			}
		}
		b.close()
	}
	return true
}

// sagaBank is a store with accounts.
type sagaBank struct {
	dir           string
	db            *cleave.DB
	accounts, log *cleave.Keyspace
	runner        *saga.Runner
	transfers     *saga.Sagas[sagaTransfer]
	n             atomic.Uint64
}

type sagaTransfer struct {
	From, To string
	Amount   int64
}

func openSagaBank(cfg Config, o cleave.Options) (*sagaBank, error) {
	dir, err := os.MkdirTemp(cfg.Dir, "sagas")
	if err != nil {
		return nil, err
	}
	b := &sagaBank{dir: dir}
	if b.db, err = cleave.Open(dir, o); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	ctx := context.Background()
	b.accounts = b.db.Default()
	b.log, err = b.db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "log"})
	var j *journal.Journal
	if err == nil {
		j, err = journal.Open(ctx, b.db, journal.Options{})
	}
	if err == nil {
		b.runner, err = saga.NewRunner(j, saga.Options{})
	}
	if err == nil {
		b.transfers, err = saga.Register(b.runner, saga.Definition[sagaTransfer]{Name: "transfer", Steps: []saga.Step[sagaTransfer]{
			journal.Step("debit",
				func(tx *cleave.Txn, t *sagaTransfer) error { return b.add(tx, t.From, -t.Amount) },
				func(tx *cleave.Txn, t *sagaTransfer) error { return b.add(tx, t.From, t.Amount) }),
			journal.Step("credit",
				func(tx *cleave.Txn, t *sagaTransfer) error { return b.add(tx, t.To, t.Amount) }, nil),
		}})
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *sagaBank) close() {
	if b.runner != nil {
		_ = b.runner.Close()
	}
	_ = b.db.Close()
	_ = os.RemoveAll(b.dir)
}

func (b *sagaBank) add(tx *cleave.Txn, account string, by int64) error {
	_, err := tx.Add(b.accounts, []byte(account), by)
	return err
}

// draw makes up a transfer and its id.
func (b *sagaBank) draw() (string, sagaTransfer) {
	n := b.n.Add(1)
	x := workload.Scramble(n)
	from := x % sagaAccounts
	to := (from + 1 + x>>32%(sagaAccounts-1)) % sagaAccounts
	return fmt.Sprintf("%016x", x), sagaTransfer{fmt.Sprintf("account-%d", from), fmt.Sprintf("account-%d", to), 1}
}

func (b *sagaBank) cell(stores, clients int) duel.Cell {
	ctx := context.Background()
	work := func(transfer func(id string, t sagaTransfer) error) func(ops int) {
		return func(ops int) {
			workload.Parallel(clients, ops, func(_, n int) {
				for range n {
					if err := transfer(b.draw()); err != nil {
						panic(err)
					}
				}
			})
		}
	}
	return duel.Cell{
		ID:      fmt.Sprintf("patterns/saga-%d-stores-x%d", stores, clients),
		Title:   fmt.Sprintf("a transfer between two of %d accounts, asked for once, durability always, %d stores, %d clients", sagaAccounts, stores, clients),
		Metrics: duel.Costs,
		Rounds:  15,
		Ops:     max(clients*8, 64),
		Contestants: []duel.Contestant{
			{Name: AsTransaction, Work: work(func(id string, t sagaTransfer) error {
				return b.db.Update(ctx, func(tx *cleave.Txn) error {
					if done, err := tx.Exists(b.log, []byte(id)); err != nil || done {
						return err
					}
					if err := b.add(tx, t.From, -t.Amount); err != nil {
						return err
					}
					if err := b.add(tx, t.To, t.Amount); err != nil {
						return err
					}
					return tx.Set(b.log, []byte(id), []byte(t.From+" "+t.To))
				})
			})},
			{Name: AsSaga, Ours: true, Work: work(func(id string, t sagaTransfer) error {
				_, err := b.transfers.Run(ctx, id, t)
				return err
			})},
		},
	}
}
