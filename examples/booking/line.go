package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/key"
)

var (
	// errTaken means that another customer has the cabin: offer another one.
	errTaken = errors.New("booking: the cabin is taken")
	// errNotHeld means that the customer's hold has ended, or never was: hold the
	// cabin again.
	errNotHeld = errors.New("booking: the cabin is not held by the customer")
)

// line is a cruise line that keeps its rows by one design.
type line struct {
	design
	db     *cleave.DB
	rows   *cleave.Keyspace
	layout *key.Layout
}

// openLine opens the keyspace of a design.
func openLine(ctx context.Context, db *cleave.DB, d design) (*line, error) {
	parsed, err := key.ParseLayout(layout)
	if err != nil {
		return nil, err
	}
	rows, err := db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: strings.ReplaceAll(d.name, " ", "-"), Layout: parsed.String()})
	return &line{d, db, rows, parsed}, err
}

// What the row of a cabin says.
func held(customer string) string { return "held by " + customer }
func sold(customer string) string { return "sold to " + customer }

// read returns what a row says, or nothing.
func (l *line) read(tx *cleave.Txn, key []byte) (string, error) {
	value, err := tx.Get(l.rows, key)
	if errors.Is(err, cleave.ErrNotFound) {
		return "", nil
	}
	return string(value), err
}

// hold keeps a cabin for a customer for some time, at a price. The time begins
// anew if the customer holds it already, so it may be asked again.
func (l *line) hold(ctx context.Context, c cabin, customer, price string, keep time.Duration) error {
	k, err := l.keys(l.layout, c, customer)
	if err != nil {
		return err
	}
	return l.db.Update(ctx, func(tx *cleave.Txn) error {
		says, err := l.read(tx, k.cabin)
		if err != nil {
			return err
		}
		if says != "" && says != held(customer) {
			return fmt.Errorf("%w: %s is %s", errTaken, c, says)
		}
		// Both rows are gone when the time is over: no cleanup is needed.
		ttl := cleave.SetOptions{TTL: keep}
		if err := tx.SetWith(l.rows, k.cabin, []byte(held(customer)), ttl); err != nil {
			return err
		}
		return tx.SetWith(l.rows, k.hold, []byte(price), ttl)
	})
}

// release gives a cabin back that a customer holds.
func (l *line) release(ctx context.Context, c cabin, customer string) error {
	k, err := l.keys(l.layout, c, customer)
	if err != nil {
		return err
	}
	return l.db.Update(ctx, func(tx *cleave.Txn) error {
		says, err := l.read(tx, k.cabin)
		if err != nil {
			return err
		}
		if says != held(customer) {
			return fmt.Errorf("%w: %s, %s", errNotHeld, c, customer)
		}
		_, err = tx.Delete(l.rows, k.cabin, k.hold)
		return err
	})
}

// confirm sells a cabin to the customer who holds it, at the price of the hold.
// It may be asked again.
func (l *line) confirm(ctx context.Context, c cabin, customer string) error {
	k, err := l.keys(l.layout, c, customer)
	if err != nil {
		return err
	}
	return l.db.Update(ctx, func(tx *cleave.Txn) error {
		says, err := l.read(tx, k.cabin)
		if err != nil || says == sold(customer) {
			return err
		}
		price, err := l.read(tx, k.hold)
		if err != nil {
			return err
		}
		if says != held(customer) || price == "" {
			return fmt.Errorf("%w: %s, %s", errNotHeld, c, customer)
		}
		if err := tx.Set(l.rows, k.cabin, []byte(sold(customer))); err != nil { // for ever
			return err
		}
		if err := tx.Set(l.rows, k.contract, []byte(price)); err != nil {
			return err
		}
		_, err = tx.Delete(l.rows, k.hold)
		return err
	})
}

// plan returns what the rows of cabins say, nothing for those that are free.
func (l *line) plan(ctx context.Context, cabins []cabin) ([]string, error) {
	list := make([][]byte, len(cabins))
	for i, c := range cabins {
		k, err := l.keys(l.layout, c, "")
		if err != nil {
			return nil, err
		}
		list[i] = k.cabin
	}
	values, err := l.rows.GetMany(ctx, list...)
	says := make([]string, len(values))
	for i, v := range values {
		says[i] = string(v)
	}
	return says, err
}

// String is how people name a cabin.
func (c cabin) String() string { return c.sailing + "/" + c.number }

// deck returns the first n cabins of a sailing.
func deck(sailing string, n int) []cabin {
	cabins := make([]cabin, n)
	for i := range cabins {
		cabins[i] = cabin{sailing, fmt.Sprintf("C%03d", i+1)}
	}
	return cabins
}
