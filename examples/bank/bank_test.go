package main

import (
	"errors"
	"sync"
	"testing"
)

func nowhere(step) {}

func newBank(t *testing.T) *bank {
	t.Helper()
	b, err := openBank(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.db.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestAnOrderIsExecutedOnceHoweverOftenItIsAsked(t *testing.T) {
	b := newBank(t)
	o := order{"1", account(0), account(1), 30}
	for range 3 {
		if err := b.transfer(t.Context(), o, nowhere); err != nil {
			t.Fatal(err)
		}
	}
	tooMuch := order{"2", account(1), account(0), 2 * deposit}
	if err := b.transfer(t.Context(), tooMuch, nowhere); !errors.Is(err, errFunds) {
		t.Errorf("more than there is: %v", err)
	}
	s, err := b.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.balances[account(0)] != deposit-30 || s.balances[account(1)] != deposit+30 {
		t.Errorf("balances %v", s.balances)
	}
	if len(s.log) != 1 || s.log["1"] != o {
		t.Errorf("log %v", s.log)
	}
}

// A read while money moves sees a bank that could be closed that moment.
func TestMoneyIsNeitherMadeNorLost(t *testing.T) {
	b := newBank(t)
	var movers, auditors sync.WaitGroup
	done := make(chan struct{})
	for teller := range tellers {
		movers.Go(func() {
			for n := range 20 {
				o := order{orderID(0, teller, n), account((teller + n) % accounts), account((teller + 5*n + 1) % accounts), int64(1 + n%7)}
				if o.from == o.to {
					continue
				}
				if err := b.transfer(t.Context(), o, nowhere); err != nil {
					t.Error(err)
				}
			}
		})
	}
	auditors.Go(func() {
		for {
			s, err := b.look(t.Context())
			if err := errors.Join(append(auditMoney(s), err)...); err != nil {
				t.Error(err)
			}
			select {
			case <-done:
				if len(s.log) < 50 {
					t.Errorf("%d transfers: the test shows nothing", len(s.log))
				}
				return
			default:
			}
		}
	})
	movers.Wait()
	close(done)
	auditors.Wait()
}
