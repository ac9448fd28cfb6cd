// Command bank answers one question: what is left of a transfer when the
// process dies in the middle of it?
//
// Accounts are spread over three stores with six groups, so nearly every
// transfer is a transaction of several of them. The program runs itself as a
// child, the bank, and kills it (kill -9) at each step of a transfer and at
// random; the next child opens what the last one left and shows it. The parent,
// the auditor, never opens the store: it knows what it read from a pipe
// before each kill, and compares.
//
// Look at [bank.transfer] for the transaction: the request's id is written by
// the transaction that it names, which makes it safe to ask again when the
// outcome is unknown. Look at [book.audit] for what must hold after every kill:
//
//   - all accounts together have what they began with;
//   - each account has what it began with plus what the log says: no transfer is
//     half done, and none done twice;
//   - every transfer that was acknowledged is in the log, none that was refused;
//   - one killed before its commit has not happened, one killed after it has.
//
// Look at [sagas.transfer] for the same transfer as a saga: a debit, then a credit, and
// if that is refused, the debit given back. What each form guarantees:
//
//	                                transaction      saga
//	done once, or not at all        yes              yes
//	killed before its commit        has not happened goes on when the bank is open again
//	                                                 and ends done or given back
//	a read while money moves        sees it all in   may see money that has left one account
//	                                accounts         and not come to the other
//	a step can be elsewhere         no               yes
//	durable writes                  one commit       two: debit and credit
//
// So the saga form is audited when the transfers that were under way have ended, which
// is as soon as the bank is open. Here, where all accounts are in one store, the
// transaction is the right choice; the saga is what remains when they are not.
//
// Usage:
//
//	go run ./examples/bank [-form transaction|saga] [-rounds n] [-seed n]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) > 1 && os.Args[1] == bankCommand {
		if err := runBank(context.Background(), os.Args[2:], os.Stdin, os.Stdout); err != nil {
			log.Fatal(err)
		}
		return
	}
	form := flag.String("form", asTransaction, "how money is moved: "+asTransaction+" or "+asSaga)
	rounds := flag.Int("rounds", 2, "how often to go through all steps")
	seed := flag.Uint64("seed", rand.Uint64(), "what to repeat the choices of an earlier run by")
	flag.Parse()
	self, err := os.Executable()
	if err != nil {
		log.Fatal(err)
	}
	if err := run(context.Background(), os.Stdout, self, *form, *rounds, *seed); err != nil {
		log.Fatal(err)
	}
}

// run kills banks and prints what became of the transfers.
func run(ctx context.Context, out io.Writer, self, form string, rounds int, seed uint64) error {
	b, err := crash(ctx, self, form, rounds, seed)
	if err != nil {
		return fmt.Errorf("seed %d: %w", seed, err)
	}
	return b.report(out, seed)
}

// The forms of a transfer.
const (
	asTransaction = "transaction"
	asSaga        = "saga"
)

// plans are a round of each form. Recovery is killed where it has a commit to finish,
// and the commit more often than the rest: it has many places, and no name for them.
var plans = map[string][]step{
	asTransaction: {begun, looked, debited, credited, committing, opening, committing, committed, committing, anywhere},
	asSaga:        {begun, debited, between, returning, credited, committing, opening, committing, committed, anywhere},
}

// crash kills banks as planned, rounds times. self is this program's file.
func crash(ctx context.Context, self, form string, rounds int, seed uint64) (*book, error) {
	plan, ok := plans[form]
	if !ok {
		return nil, fmt.Errorf("form %q: use %s or %s", form, asTransaction, asSaga)
	}
	dir, err := os.MkdirTemp("", "bank")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	a := &auditor{self: self, form: form, dir: dir, rng: rand.New(rand.NewPCG(seed, 0)), book: newBook()}
	for range rounds {
		for _, s := range plan {
			if err := a.life(ctx, s); err != nil {
				return nil, fmt.Errorf("bank %d, to be killed %v: %w", a.lives, s, err)
			}
		}
	}
	for range 2 { // one executes what the last kill left, the next shows what is there then
		if err := errors.Join(a.life(ctx, never), a.book.settled()); err != nil {
			return nil, fmt.Errorf("bank %d, at the end: %w", a.lives, err)
		}
	}
	return a.book, nil
}
