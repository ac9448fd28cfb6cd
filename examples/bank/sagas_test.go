package main

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/cleavekv/cleave/saga"
)

func newSagas(t *testing.T) (*bank, *sagas) {
	t.Helper()
	b := newBank(t)
	s, err := b.openSagas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.runner.Close(); err != nil {
			t.Error(err)
		}
	})
	return b, s
}

func TestAnOrderThatIsASagaIsExecutedOnceOrGivenBack(t *testing.T) {
	b, s := newSagas(t)
	o := order{"1", account(0), account(1), 100}
	for range 3 {
		if err := s.transfer(t.Context(), o, nowhere); err != nil {
			t.Fatal(err)
		}
	}
	returned := 0
	for range 2 { // the account would have more than it takes
		err := s.transfer(t.Context(), order{"2", account(2), account(1), 60}, func(at step) {
			if at == returning {
				returned++
			}
		})
		if !errors.Is(err, saga.ErrCompensated) || !strings.Contains(err.Error(), errFull.Error()) {
			t.Errorf("more than fits: %v", err)
		}
	}
	if err := s.transfer(t.Context(), order{"3", account(1), account(0), 2 * deposit}, nowhere); !errors.Is(err, saga.ErrCompensated) {
		t.Errorf("more than there is: %v", err)
	}
	state, err := b.look(t.Context())
	if err := errors.Join(append(auditMoney(state), err)...); err != nil {
		t.Error(err)
	}
	if returned != 1 || len(state.log) != 1 || state.log["1"] != o {
		t.Errorf("given back %d times, log %v", returned, state.log)
	}
}

// A read while sagas are under way may miss what is between two accounts, but never
// finds more than there is; at rest all is there.
func TestMoneyInSagasIsBetweenAccountsAtMost(t *testing.T) {
	b, s := newSagas(t)
	var movers sync.WaitGroup
	for teller := range tellers {
		movers.Go(func() {
			for n := range 15 {
				from := (teller + n) % accounts
				o := order{orderID(0, teller, n), account(from), account((from + 1 + n%5) % accounts), int64(1 + n)}
				if err := s.transfer(t.Context(), o, nowhere); err != nil && !errors.Is(err, saga.ErrCompensated) {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		state, err := b.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sum := int64(0)
		for _, n := range state.balances {
			sum += n
		}
		if sum > accounts*deposit || sum < accounts*deposit-tellers*15 {
			t.Errorf("all accounts together have %d", sum)
		}
	}
	movers.Wait()
	state, err := b.look(t.Context())
	if err := errors.Join(append(auditMoney(state), err)...); err != nil {
		t.Error(err)
	}
	if len(state.log) < 30 {
		t.Errorf("%d transfers: the test shows nothing", len(state.log))
	}
}
