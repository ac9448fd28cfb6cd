package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/check"
)

// elements takes a list apart: numbers with a space before each.
func elements(value string) (list []uint64) {
	for _, f := range strings.Fields(value) {
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			n = 0 // which nobody has appended
		}
		list = append(list, n)
	}
	return list
}

// listKeys returns the lists of now, those of one keyspace first.
func (c *client) listKeys() (keys []string) {
	g := c.generation(c.lists.Add(1), 400)
	for _, l := range []string{"h", "o"} {
		for i := range 3 {
			keys = append(keys, fmt.Sprintf("%s:list %s %d", l, g, i))
		}
	}
	return keys
}

// list reads lists at one moment, and perhaps appends to some of them.
func (c *client) list() {
	keys := c.listKeys()
	c.rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	keys = keys[:1+c.rng.IntN(3)]
	ask := call{Lists: &check.Txn{}, Work: "lists"}
	switch c.rng.IntN(6) {
	case 0:
		c.do(ask, func(ask *call) error { return c.readOne(ask.Lists, keys[0]) })
	case 1:
		c.do(ask, func(ask *call) error { return c.readMany(ask.Lists, keys) })
	case 2:
		c.view(keys)
	default:
		c.extendSome(keys, 1+c.rng.IntN(len(keys)))
	}
}

// duel does something with the same two lists as others, which are often on two
// stores: it reads both and appends to one, appends to one, or reads both. Who reads
// one and writes the other is overtaken by the others unless he locks what he reads.
func (c *client) duel() {
	keys := c.listKeys()
	keys = []string{keys[0], keys[len(keys)-1]}
	if c.rng.IntN(2) == 0 {
		keys[0], keys[1] = keys[1], keys[0]
	}
	switch c.rng.IntN(3) {
	case 0:
		c.extendSome(keys, 1)
	case 1:
		c.extendSome(keys[:1], 1)
	default:
		c.view(keys)
	}
}

// view reads lists at one moment.
func (c *client) view(keys []string) {
	c.do(call{Lists: &check.Txn{}, Work: "lists"}, func(ask *call) error {
		return c.db.View(ctx, func(tx *cleave.Txn) error { return c.readAll(ask.Lists, tx, keys) })
	})
}

// extendSome reads lists and appends to the first n of them.
func (c *client) extendSome(keys []string, n int) {
	ask := call{Lists: &check.Txn{}, Work: "lists"}
	for i := range n {
		ask.Lists.Ops = append(ask.Lists.Ops, check.Append(keys[i], c.number()))
	}
	appends := slices.Clone(ask.Lists.Ops)
	c.do(ask, func(ask *call) error {
		return c.db.Update(ctx, func(tx *cleave.Txn) error {
			// It may be run again.
			if err := c.readAll(ask.Lists, tx, keys); err != nil {
				return err
			}
			for _, op := range appends {
				if err := c.extend(tx, op); err != nil {
					return err
				}
				ask.Lists.Ops = append(ask.Lists.Ops, op)
			}
			return nil
		})
	})
}

func (c *client) readOne(t *check.Txn, key string) error {
	ks, k := c.at(key)
	value, err := ks.Get(ctx, k)
	if errors.Is(err, cleave.ErrNotFound) {
		err = nil
	}
	t.Ops = []check.Op{check.Read(key, elements(string(value))...)}
	return err
}

// readMany reads the keys of one keyspace without a transaction.
func (c *client) readMany(t *check.Txn, keys []string) error {
	ks, _ := c.at(keys[0])
	var names []string
	var some [][]byte
	for _, key := range keys {
		if of, k := c.at(key); of == ks {
			names, some = append(names, key), append(some, k)
		}
	}
	values, err := ks.GetMany(ctx, some...)
	for i := range values {
		t.Ops = append(t.Ops, check.Read(names[i], elements(string(values[i]))...))
	}
	return err
}

func (c *client) readAll(t *check.Txn, tx *cleave.Txn, keys []string) error {
	t.Ops = nil
	for _, key := range keys {
		ks, k := c.at(key)
		value, err := tx.Get(ks, k)
		if err != nil && !errors.Is(err, cleave.ErrNotFound) {
			return err
		}
		t.Ops = append(t.Ops, check.Read(key, elements(string(value))...))
	}
	return nil
}

// extend appends an element to a list.
func (c *client) extend(tx *cleave.Txn, op check.Op) error {
	ks, k := c.at(op.Key)
	value, err := tx.Get(ks, k)
	if err != nil && !errors.Is(err, cleave.ErrNotFound) {
		return err
	}
	return tx.Set(ks, k, fmt.Appendf(value, " %d", op.Element))
}

// The bank has so many accounts, in turn in each keyspace, with so much at first.
const (
	accounts = 10
	opening  = 100
)

func account(i int) string { return fmt.Sprintf("%s:bank %d", []string{"h", "o"}[i%2], i/2) }

// transfer moves money from one account to another.
func (c *client) transfer() {
	from := c.rng.IntN(accounts)
	to := (from + 1 + c.rng.IntN(accounts-1)) % accounts
	amount := 1 + c.rng.Int64N(20)
	added := c.rng.IntN(2) == 0
	c.do(call{Work: "transfers"}, func(*call) error {
		return c.db.Update(ctx, func(tx *cleave.Txn) error {
			for i, by := range map[int]int64{from: -amount, to: amount} {
				ks, k := c.at(account(i))
				has, err := c.move(tx, ks, k, by, added)
				if err != nil {
					return err
				}
				if has < 0 {
					return errNothing // it is not overdrawn
				}
			}
			return nil
		})
	})
}

// move adds to an account, in one step or by reading and writing it.
func (c *client) move(tx *cleave.Txn, ks *cleave.Keyspace, k []byte, by int64, added bool) (int64, error) {
	if added {
		return tx.Add(ks, k, by)
	}
	has, err := numberOf(tx.Get(ks, k))
	if err != nil {
		return 0, err
	}
	return has + by, tx.Set(ks, k, decimal(has+by))
}

// audit reads all accounts at one moment: key by key, or what there is.
func (c *client) audit() {
	scanned := c.rng.IntN(2) == 0
	c.do(call{Bank: &check.Balances{}, Work: "audits"}, func(ask *call) error {
		return c.db.View(ctx, func(tx *cleave.Txn) error {
			of := map[string]int64{}
			ask.Bank.Of = of
			if scanned {
				return c.each(tx, "bank ", func(key string, value []byte) (err error) {
					of[key], err = numberOf(value, nil)
					return err
				})
			}
			for i := range accounts {
				ks, k := c.at(account(i))
				value, err := tx.Get(ks, k)
				if err != nil {
					return fmt.Errorf("%s: %w", account(i), err)
				}
				if of[account(i)], err = numberOf(value, nil); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// each visits the keys of both keyspaces of a sort.
func (c *client) each(tx *cleave.Txn, sort string, visit func(key string, value []byte) error) error {
	for _, ks := range []*cleave.Keyspace{c.hash, c.ordered} {
		o := cleave.ScanOptions{}
		if ks == c.ordered && sort != "" {
			o.Prefix = []byte("o:" + sort)
		}
		for item, err := range tx.Scan(ks, o) {
			if err != nil {
				return err
			}
			if strings.HasPrefix(string(item.Key[2:]), sort) {
				if err := visit(string(item.Key), item.Value); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// booked counts bookings.
const booked = "o:booked"

// book tries to get a cabin that others want too.
func (c *client) book() {
	n := c.claims.Add(1)
	cabin := fmt.Sprintf("%s:cab %d.%d", []string{"h", "o"}[n/5%2], c.Life/2, n/5)
	claim := &check.Claim{Cabin: cabin, Customer: c.number(), Won: true}
	c.do(call{Claim: claim, Work: "claims"}, func(*call) error {
		return c.db.Update(ctx, func(tx *cleave.Txn) error {
			ks, k := c.at(cabin)
			taken, err := tx.Exists(ks, k)
			if claim.Won = !taken; err != nil || taken {
				return err
			}
			if err := tx.Set(ks, k, decimal(int64(claim.Customer))); err != nil {
				return err
			}
			ks, k = c.at(booked)
			_, err = tx.Add(ks, k, 1)
			return err
		})
	})
}

// look reads everything at one moment.
func (c *client) look() {
	c.do(call{Look: true, Work: "looks at everything"}, func(ask *call) error {
		return c.db.View(ctx, func(tx *cleave.Txn) error {
			ask.Rows = map[string]string{}
			return c.each(tx, "", func(key string, value []byte) error {
				if _, twice := ask.Rows[key]; twice {
					return fmt.Errorf("%s came twice", key)
				}
				ask.Rows[key] = string(value)
				if value != nil {
					return nil
				}
				ks, k := c.at(key)
				all, err := tx.HGetAll(ks, k)
				if err != nil {
					return err
				}
				n, err := whole(key, all)
				ask.Rows[key] = string(decimal(int64(n)))
				return err
			})
		})
	})
}
