package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/cleavekv/cleave"
)

// The accounts of the bank. Their sum never changes.
const (
	accounts = 12
	deposit  = 1000 // in each, at first
)

func account(i int) string { return fmt.Sprintf("account-%02d", i) }

// order is a request to move money.
type order struct {
	id       string // made by the caller, and the same when it is asked again
	from, to string
	amount   int64
}

// text is how the log has it.
func (o order) text() []byte { return fmt.Appendf(nil, "%s %s %d", o.from, o.to, o.amount) }

// bank is two keyspaces: balances by account, and orders by id.
type bank struct {
	db            *cleave.DB
	accounts, log *cleave.Keyspace
}

// options spread the bank over several stores, each with several groups.
var options = cleave.Options{Stores: 3, Groups: 6}

// openBank opens the bank in a directory, or founds it there.
func openBank(ctx context.Context, dir string) (*bank, error) {
	db, err := cleave.Open(dir, options)
	if err != nil {
		return nil, err
	}
	b := &bank{db: db}
	b.accounts, err = db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "accounts"})
	if err == nil {
		b.log, err = db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "log"})
	}
	if err == nil {
		err = b.found(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return b, nil
}

// found gives every account its deposit, all of them or none.
func (b *bank) found(ctx context.Context) error {
	return b.db.Update(ctx, func(tx *cleave.Txn) error {
		if founded, err := tx.Exists(b.accounts, []byte(account(0))); founded || err != nil {
			return err
		}
		for i := range accounts {
			if err := tx.Set(b.accounts, []byte(account(i)), strconv.AppendInt(nil, deposit, 10)); err != nil {
				return err
			}
		}
		return nil
	})
}

var errFunds = errors.New("not enough money")

// transfer moves money and writes the order down, all of it or nothing. An order
// that is written down was executed, and is not executed again.
//
// at is called with how far it is: maybe repeatedly, because Update tries again.
func (b *bank) transfer(ctx context.Context, o order, at func(step)) error {
	return b.db.Update(ctx, func(tx *cleave.Txn) error {
		at(begun)
		done, err := tx.Exists(b.log, []byte(o.id))
		if err != nil || done {
			return err
		}
		at(looked)
		balance, err := tx.Add(b.accounts, []byte(o.from), -o.amount)
		if err != nil {
			return err
		}
		if balance < 0 {
			return fmt.Errorf("%s: %w", o.from, errFunds) // nothing happens
		}
		at(debited)
		if _, err := tx.Add(b.accounts, []byte(o.to), o.amount); err != nil {
			return err
		}
		at(credited)
		at(committing) // there is only this left
		return tx.Set(b.log, []byte(o.id), o.text())
	})
}

// state is the whole bank as of one moment.
type state struct {
	balances map[string]int64
	log      map[string]order
}

// look reads all of the bank.
func (b *bank) look(ctx context.Context) (s state, err error) {
	err = b.db.View(ctx, func(tx *cleave.Txn) error {
		s = state{map[string]int64{}, map[string]order{}}
		for item, err := range tx.Scan(b.accounts, cleave.ScanOptions{}) {
			if err != nil {
				return err
			}
			if s.balances[string(item.Key)], err = strconv.ParseInt(string(item.Value), 10, 64); err != nil {
				return err
			}
		}
		for item, err := range tx.Scan(b.log, cleave.ScanOptions{}) {
			if err != nil {
				return err
			}
			o := order{id: string(item.Key)}
			if _, err := fmt.Sscan(string(item.Value), &o.from, &o.to, &o.amount); err != nil {
				return fmt.Errorf("order %s: %w", o.id, err)
			}
			s.log[o.id] = o
		}
		return nil
	})
	return s, err
}
