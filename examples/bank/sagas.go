package main

import (
	"context"
	"errors"
	"sync"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/saga"
	"github.com/cleavekv/cleave/saga/journal"
)

// ceiling is the most that an account of the saga form takes: there must be something
// that fails after the debit.
const ceiling = deposit + 150

var errFull = errors.New("the account is full")

// Transfer is what a saga carries from step to step.
type Transfer struct {
	ID, From, To string
	Amount       int64
}

// sagas is the bank's other way to move money: debit and credit are transactions of
// their own, and a journal in the same store says how far each transfer has come.
type sagas struct {
	bank      *bank
	runner    *saga.Runner
	transfers *saga.Sagas[Transfer]
	watchers  sync.Map // of orders by id: func(step), called with how far a transfer is
}

// openSagas goes on with the transfers that the last bank left, and returns when they
// have ended: until then money may be on its way between two accounts.
func (b *bank) openSagas(ctx context.Context) (*sagas, error) {
	j, err := journal.Open(ctx, b.db, journal.Options{})
	if err != nil {
		return nil, err
	}
	s := &sagas{bank: b}
	if s.runner, err = saga.NewRunner(j, saga.Options{}); err != nil {
		return nil, err
	}
	s.transfers, err = saga.Register(s.runner, saga.Definition[Transfer]{
		Name:  "transfer",
		Steps: []saga.Step[Transfer]{journal.Step("debit", s.debit, s.giveBack), journal.Step("credit", s.credit, nil)},
	})
	if err == nil {
		err = s.settle(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.runner.Close())
	}
	return s, nil
}

// settle resumes what is under way and waits for it.
func (s *sagas) settle(ctx context.Context) error {
	found, err := s.runner.Resume(ctx)
	if err != nil {
		return err
	}
	for _, stuck := range found.Stuck {
		return stuck.Err() // nothing in this bank can be
	}
	for info, err := range s.runner.List(ctx, saga.Filter{States: []saga.State{saga.Running, saga.Compensating}}) {
		if err != nil {
			return err
		}
		if _, err := s.transfers.Wait(ctx, info.ID); err != nil && !errors.Is(err, saga.ErrCompensated) {
			return err
		}
	}
	return nil
}

// transfer moves money, or says why it was taken back. It may be asked for again with
// the same order: the answer is that of the first time.
func (s *sagas) transfer(ctx context.Context, o order, at func(step)) error {
	s.watchers.Store(o.id, at)
	defer s.watchers.Delete(o.id)
	_, err := s.transfers.Run(ctx, o.id, Transfer{o.id, o.from, o.to, o.amount})
	return err
}

// at reports to the watcher of a transfer how far it is.
func (s *sagas) at(t *Transfer, where step) {
	if at, ok := s.watchers.Load(t.ID); ok {
		at.(func(step))(where)
	}
}

// debit, giveBack and credit are each a transaction together with the journal's entry
// that it is done, so none of them is done twice.
func (s *sagas) debit(tx *cleave.Txn, t *Transfer) error {
	s.at(t, begun)
	balance, err := tx.Add(s.bank.accounts, []byte(t.From), -t.Amount)
	if err != nil {
		return err
	}
	if balance < 0 {
		return saga.Permanent(errFunds) // nothing happens
	}
	s.at(t, debited)
	return nil
}

func (s *sagas) giveBack(tx *cleave.Txn, t *Transfer) error {
	s.at(t, returning)
	_, err := tx.Add(s.bank.accounts, []byte(t.From), t.Amount)
	return err
}

func (s *sagas) credit(tx *cleave.Txn, t *Transfer) error {
	s.at(t, between)
	balance, err := tx.Add(s.bank.accounts, []byte(t.To), t.Amount)
	if err != nil {
		return err
	}
	if balance > ceiling {
		return saga.Permanent(errFull) // the debit is given back
	}
	s.at(t, credited)
	s.at(t, committing) // there is only this left
	o := order{t.ID, t.From, t.To, t.Amount}
	return tx.Set(s.bank.log, []byte(o.id), o.text())
}
