// Command interleave answers one question: what may two sagas do that two transactions may not?
//
// A hotel has one room for each night. Ann takes the room and is charged, but her card is declined;
// Ben asks for the same room meanwhile. As a saga, each step is a transaction of its own: Ben sees the
// room taken, goes away, and then Ann's is given back. The room is empty, and no one has it: an outcome
// that there is in no order of the two one after the other. As one transaction over both stores, what
// Ann did was never seen, and Ben has the room.
//
// Both are played a number of times, with the same steps at the same moments, and what came of it is
// printed with the times it took.
//
// Usage:
//
//	go run ./examples/interleave [-nights n]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/saga"
	"github.com/cleavekv/cleave/saga/journal"
)

func main() {
	log.SetFlags(0)
	nights := flag.Int("nights", 50, "how many nights the room is sold for in each way")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *nights); err != nil {
		log.Fatal(err)
	}
}

var (
	errTaken    = errors.New("the room is taken")
	errDeclined = errors.New("the card is declined")
)

// stay is a guest's wish for a night.
type stay struct{ Guest, Night string }

// hotel has rooms and the accounts of guests in stores of their own, so that a transaction of both has two phases.
type hotel struct {
	db              *cleave.DB
	rooms, accounts *cleave.Keyspace
}

// openHotel opens its keyspaces, the accounts in the store that the rooms are not in.
func openHotel(ctx context.Context, db *cleave.DB) (*hotel, error) {
	h := &hotel{db: db}
	var err error
	if h.rooms, err = db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "rooms", Kind: cleave.Range}); err != nil {
		return nil, err
	}
	if h.accounts, err = db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "accounts", Kind: cleave.Range}); err != nil {
		return nil, err
	}
	at := h.accounts.Locate(nil)
	if at.Store != h.rooms.Locate(nil).Store {
		return h, nil
	}
	other := slices.IndexFunc(db.Groups(), func(g cleave.GroupInfo) bool { return g.Store != at.Store })
	job, err := db.Start(ctx, cleave.Move{Shard: at.Shard, To: db.Groups()[other].ID})
	if err == nil {
		_, err = job.Wait(ctx)
	}
	return h, err
}

// take gives a guest the room of a night, if it is free.
func (h *hotel) take(tx *cleave.Txn, s *stay) error {
	_, err := tx.Get(h.rooms, []byte(s.Night))
	if err == nil {
		return errTaken
	}
	if !errors.Is(err, cleave.ErrNotFound) {
		return err
	}
	return tx.Set(h.rooms, []byte(s.Night), []byte(s.Guest))
}

// giveBack frees the room.
func (h *hotel) giveBack(tx *cleave.Txn, s *stay) error {
	_, err := tx.Delete(h.rooms, []byte(s.Night))
	return err
}

// charge takes the price. Ann's card is always declined.
func (h *hotel) charge(tx *cleave.Txn, s *stay) error {
	if s.Guest == "Ann" {
		return errDeclined
	}
	_, err := tx.Add(h.accounts, []byte(s.Guest), -100)
	return err
}

// outcome is what came of all nights in one way.
type outcome struct {
	way                string
	benRefused, benHas int
	empty              int
	benTimes           []time.Duration
}

// run plays both ways.
func run(ctx context.Context, out io.Writer, nights int) (err error) {
	db, err := cleave.OpenMemory(cleave.Options{Stores: 2, Groups: 2})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	h, err := openHotel(ctx, db)
	if err != nil {
		return err
	}
	bySaga, err := h.bookBySaga(ctx, nights)
	if err != nil {
		return err
	}
	byTxn, err := h.bookByTxn(ctx, nights)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "way\tnights\tBen refused\tBen has it\troom empty\tmedian of Ben's request\t")
	for _, o := range []*outcome{bySaga, byTxn} {
		slices.Sort(o.benTimes)
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%v\t\n", o.way, nights, o.benRefused, o.benHas, o.empty, o.benTimes[len(o.benTimes)/2].Round(time.Microsecond))
	}
	return w.Flush()
}

// count looks what a night has come to.
func (o *outcome) count(ctx context.Context, h *hotel, night string, ben error, took time.Duration) error {
	switch {
	case errors.Is(ben, errTaken):
		o.benRefused++
	case ben != nil:
		return fmt.Errorf("Ben: %w", ben)
	}
	o.benTimes = append(o.benTimes, took)
	guest, err := h.rooms.Get(ctx, []byte(night))
	switch {
	case errors.Is(err, cleave.ErrNotFound):
		o.empty++
	case err != nil:
		return err
	case string(guest) == "Ben":
		o.benHas++
	}
	return nil
}

// bookBySaga books with sagas: Ben comes between Ann's two steps.
func (h *hotel) bookBySaga(ctx context.Context, nights int) (*outcome, error) {
	j, err := journal.Open(ctx, h.db, journal.Options{})
	if err != nil {
		return nil, err
	}
	runner, err := saga.NewRunner(j, saga.Options{})
	if err != nil {
		return nil, err
	}
	defer runner.Close()
	between := func(*stay) {} // what happens after Ann has the room and before she is charged
	stays, err := saga.Register(runner, saga.Definition[stay]{Name: "stay", Steps: []saga.Step[stay]{
		journal.Step("take", func(tx *cleave.Txn, s *stay) error { return permanent(h.take(tx, s)) }, h.giveBack),
		journal.Step("charge", func(tx *cleave.Txn, s *stay) error {
			between(s)
			return permanent(h.charge(tx, s))
		}, nil),
	}})
	if err != nil {
		return nil, err
	}
	o := &outcome{way: "two sagas"}
	for n := range nights {
		night := fmt.Sprintf("saga/%04d", n)
		var ben error
		var took time.Duration
		asked := false
		between = func(s *stay) {
			if s.Guest != "Ann" || asked { // a step may be tried again
				return
			}
			asked = true
			began := time.Now()
			_, ben = stays.Run(ctx, night+"/Ben", stay{"Ben", night})
			ben = causeOf(ben)
			took = time.Since(began)
		}
		_, ann := stays.Run(ctx, night+"/Ann", stay{"Ann", night})
		if ann = causeOf(ann); !errors.Is(ann, errDeclined) {
			return nil, fmt.Errorf("Ann: %w", ann)
		}
		if err := o.count(ctx, h, night, ben, took); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// causeOf is why a saga was taken back. The journal keeps the text of an error alone.
func causeOf(err error) error {
	for _, cause := range []error{errTaken, errDeclined} {
		if errors.Is(err, saga.ErrCompensated) && strings.Contains(err.Error(), cause.Error()) {
			return cause
		}
	}
	return err
}

// permanent marks what no retry helps.
func permanent(err error) error {
	if errors.Is(err, errTaken) || errors.Is(err, errDeclined) {
		return saga.Permanent(err)
	}
	return err
}

// bookByTxn books with transactions: Ben comes after Ann's has read and written the room, and before it ends.
func (h *hotel) bookByTxn(ctx context.Context, nights int) (*outcome, error) {
	book := func(s stay, between func()) error {
		return h.db.Update(ctx, func(tx *cleave.Txn) error {
			if err := h.take(tx, &s); err != nil {
				return err
			}
			between()
			return h.charge(tx, &s)
		})
	}
	o := &outcome{way: "two transactions"}
	for n := range nights {
		night := fmt.Sprintf("txn/%04d", n)
		var ben error
		var took time.Duration
		ann := book(stay{"Ann", night}, func() {
			began := time.Now()
			ben = book(stay{"Ben", night}, func() {})
			took = time.Since(began)
		})
		if !errors.Is(ann, errDeclined) {
			return nil, fmt.Errorf("Ann: %w", ann)
		}
		if err := o.count(ctx, h, night, ben, took); err != nil {
			return nil, err
		}
	}
	return o, nil
}
