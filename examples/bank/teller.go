package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"

	"github.com/cleavekv/cleave/saga"
)

// bankCommand is the word that makes the program a bank: the child.
const bankCommand = "open"

// What a bank says, a line each. It is said with one write, so that a kill
// leaves no half of it in the pipe.
const (
	sayOpening = "opening"
	sayBalance = "balance" // account, amount
	sayEntry   = "entry"   // id, from, to, amount: in the log
	sayOpen    = "open"    // all was shown
	sayAsked   = "asked"   // id, from, to, amount: is going to be executed
	sayAt      = "at"      // id: is at the step where the bank is to be killed
	sayDone    = "done"    // id
	sayRefused = "refused" // id
	// Its input: sayAsked for each order that is to be executed again, then
	// hearWork, and the end of the input to close.
	hearWork = "work"
)

// tellers work at the same time.
const tellers = 4

// branch is a bank at work.
type branch struct {
	bank *bank
	// transfer is the form that the bank moves money in.
	transfer func(ctx context.Context, o order, at func(step)) error
	out      io.Writer
	life     int
	stop     step // where to be killed
	nth      int  // from which order of the first teller on
}

// runBank is the child: it opens the bank, shows it, executes the orders of its input,
// and makes transfers until it is killed or its input ends.
func runBank(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet(bankCommand, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the error says it
	form := flags.String("form", asTransaction, "how money is moved")
	dir := flags.String("dir", "", "where the bank is")
	life := flags.Int("life", 0, "how many banks there were before")
	stop := flags.Int("stop", int(never), "the step at which to be killed")
	nth := flags.Int("nth", 0, "from which order of the first teller on: one that is refused does not get there")
	seed := flags.Uint64("seed", 0, "what to choose the orders by")
	if err := flags.Parse(args); err != nil {
		return err
	}
	fmt.Fprintln(out, sayOpening)
	b, err := openBank(ctx, *dir)
	if err != nil {
		return err
	}
	r := &branch{bank: b, transfer: b.transfer, out: out, life: *life, stop: step(*stop), nth: *nth}
	if *form == asTransaction {
		return errors.Join(r.open(ctx, in, *seed), b.db.Close())
	}
	s, err := b.openSagas(ctx)
	if err != nil {
		return errors.Join(err, b.db.Close())
	}
	r.transfer = s.transfer
	return errors.Join(r.open(ctx, in, *seed), s.runner.Close(), b.db.Close())
}

func orderID(life, teller, n int) string { return fmt.Sprintf("%d.%d.%d", life, teller, n) }

func (r *branch) open(ctx context.Context, in io.Reader, seed uint64) error {
	s, err := r.bank.look(ctx)
	if err != nil {
		return err
	}
	show := bufio.NewWriter(r.out)
	for name, balance := range s.balances {
		fmt.Fprintln(show, sayBalance, name, balance)
	}
	for _, o := range s.log {
		fmt.Fprintln(show, sayEntry, o.id, o.from, o.to, o.amount)
	}
	fmt.Fprintln(show, sayOpen)
	if err := show.Flush(); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() && lines.Text() != hearWork {
		var o order
		if _, err := fmt.Sscan(lines.Text(), new(string), &o.id, &o.from, &o.to, &o.amount); err != nil {
			return fmt.Errorf("told %q: %w", lines.Text(), err)
		}
		if err := r.execute(ctx, o, false); err != nil {
			return err
		}
	}
	if lines.Text() != hearWork {
		return lines.Err() // nothing more is wanted
	}
	return r.work(ctx, lines, seed)
}

// work makes transfers until there is no more input.
func (r *branch) work(ctx context.Context, lines *bufio.Scanner, seed uint64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	for t := range tellers {
		rng := rand.New(rand.NewPCG(seed, uint64(t)))
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				from := rng.IntN(accounts)
				to := (from + 1 + rng.IntN(accounts-1)) % accounts
				o := order{orderID(r.life, t, n), account(from), account(to), 1 + rng.Int64N(50)}
				if err := r.execute(ctx, o, t == 0 && n >= r.nth); err != nil {
					cancel(err)
				}
			}
		})
	}
	go func() {
		for lines.Scan() {
		}
		cancel(io.EOF) // the parent process has gone, or wants it to end
	}()
	<-ctx.Done()
	if r.stop != never {
		return context.Cause(ctx) // a teller may stand still for ever
	}
	wg.Wait()
	if err := context.Cause(ctx); err != io.EOF {
		return err
	}
	return nil
}

// execute reports what it does, and does it. The order is the one to be killed if
// it may be and gets as far as that.
func (r *branch) execute(ctx context.Context, o order, victim bool) error {
	fmt.Fprintln(r.out, sayAsked, o.id, o.from, o.to, o.amount)
	at := func(s step) {
		if s != r.stop || !victim {
			return
		}
		fmt.Fprintln(r.out, sayAt, o.id)
		if s.stops() {
			select {} // until it is killed
		}
	}
	switch err := r.transfer(ctx, o, at); {
	case errors.Is(err, errFunds), errors.Is(err, saga.ErrCompensated):
		fmt.Fprintln(r.out, sayRefused, o.id)
	case err != nil:
		return fmt.Errorf("order %s: %w", o.id, err)
	default:
		at(committed)
		fmt.Fprintln(r.out, sayDone, o.id)
	}
	return nil
}
