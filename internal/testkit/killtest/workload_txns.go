package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/testkit/check"
)

// parseElements takes a list apart: numbers with a space before each.
func parseElements(value string) (list []uint64) {
	for _, f := range strings.Fields(value) {
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			n = 0 // which was never appended
		}
		list = append(list, n)
	}
	return list
}

// nextListKeys returns the lists of now, those of one keyspace first.
func (c *client) nextListKeys() (keys []string) {
	g := c.keyGeneration(c.listCalls.Add(1), 400)
	for _, l := range []string{"h", "o"} {
		for i := range 3 {
			keys = append(keys, fmt.Sprintf("%s:list %s %d", l, g, i))
		}
	}
	return keys
}

// runListOp reads lists at one moment, and perhaps appends to some of them.
func (c *client) runListOp() {
	keys := c.nextListKeys()
	c.rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	keys = keys[:1+c.rng.IntN(3)]
	ask := clientCall{Lists: &check.Txn{}, Work: "lists"}
	switch c.rng.IntN(6) {
	case 0:
		c.runCall(ask, func(ask *clientCall) error { return c.readList(ask.Lists, keys[0]) })
	case 1:
		c.runCall(ask, func(ask *clientCall) error { return c.readLists(ask.Lists, keys) })
	case 2:
		c.viewLists(keys)
	default:
		c.extendLists(keys, 1+c.rng.IntN(len(keys)))
	}
}

// runContendedOp does something with the same two lists as others, which are often on two
// stores: it reads both and appends to one, appends to one, or reads both. A client that reads
// one and writes the other is overtaken by the others unless it locks what it reads.
func (c *client) runContendedOp() {
	keys := c.nextListKeys()
	keys = []string{keys[0], keys[len(keys)-1]}
	if c.rng.IntN(2) == 0 {
		keys[0], keys[1] = keys[1], keys[0]
	}
	switch c.rng.IntN(3) {
	case 0:
		c.extendLists(keys, 1)
	case 1:
		c.extendLists(keys[:1], 1)
	default:
		c.viewLists(keys)
	}
}

// viewLists reads lists at one moment.
func (c *client) viewLists(keys []string) {
	c.runCall(clientCall{Lists: &check.Txn{}, Work: "lists"}, func(ask *clientCall) error {
		return c.db.View(ctx, func(tx *cleave.Txn) error { return c.readListsInTxn(ask.Lists, tx, keys) })
	})
}

// extendLists reads lists and appends to the first n of them.
func (c *client) extendLists(keys []string, n int) {
	ask := clientCall{Lists: &check.Txn{}, Work: "lists"}
	for i := range n {
		ask.Lists.Ops = append(ask.Lists.Ops, check.Append(keys[i], c.nextNumber()))
	}
	appends := slices.Clone(ask.Lists.Ops)
	c.runCall(ask, func(ask *clientCall) error {
		return c.db.Update(ctx, func(tx *cleave.Txn) error {
			// It may be run again.
			if err := c.readListsInTxn(ask.Lists, tx, keys); err != nil {
				return err
			}
			for _, op := range appends {
				if err := c.appendElement(tx, op); err != nil {
					return err
				}
				ask.Lists.Ops = append(ask.Lists.Ops, op)
			}
			return nil
		})
	})
}

func (c *client) readList(t *check.Txn, key string) error {
	ks, k := c.locateKey(key)
	value, err := ks.Get(ctx, k)
	if errors.Is(err, cleave.ErrNotFound) {
		err = nil
	}
	t.Ops = []check.Op{check.Read(key, parseElements(string(value))...)}
	return err
}

// readLists reads the keys of one keyspace without a transaction.
func (c *client) readLists(t *check.Txn, keys []string) error {
	ks, _ := c.locateKey(keys[0])
	var names []string
	var some [][]byte
	for _, key := range keys {
		if of, k := c.locateKey(key); of == ks {
			names, some = append(names, key), append(some, k)
		}
	}
	values, err := ks.GetMany(ctx, some...)
	for i := range values {
		t.Ops = append(t.Ops, check.Read(names[i], parseElements(string(values[i]))...))
	}
	return err
}

func (c *client) readListsInTxn(t *check.Txn, tx *cleave.Txn, keys []string) error {
	t.Ops = nil
	for _, key := range keys {
		ks, k := c.locateKey(key)
		value, err := tx.Get(ks, k)
		if err != nil && !errors.Is(err, cleave.ErrNotFound) {
			return err
		}
		t.Ops = append(t.Ops, check.Read(key, parseElements(string(value))...))
	}
	return nil
}

// appendElement appends an element to a list.
func (c *client) appendElement(tx *cleave.Txn, op check.Op) error {
	ks, k := c.locateKey(op.Key)
	value, err := tx.Get(ks, k)
	if err != nil && !errors.Is(err, cleave.ErrNotFound) {
		return err
	}
	return tx.Set(ks, k, fmt.Appendf(value, " %d", op.Element))
}

// The bank has so many accounts, in turn in each keyspace, with so much at first.
const (
	accountCount   = 10
	openingBalance = 100
)

func accountKey(i int) string { return fmt.Sprintf("%s:bank %d", []string{"h", "o"}[i%2], i/2) }

// transferMoney moves money from one account to another.
func (c *client) transferMoney() {
	from := c.rng.IntN(accountCount)
	to := (from + 1 + c.rng.IntN(accountCount-1)) % accountCount
	amount := 1 + c.rng.Int64N(20)
	added := c.rng.IntN(2) == 0
	c.runCall(clientCall{Work: "transfers"}, func(*clientCall) error {
		return c.db.Update(ctx, func(tx *cleave.Txn) error {
			for i, by := range map[int]int64{from: -amount, to: amount} {
				ks, k := c.locateKey(accountKey(i))
				has, err := c.addToAccount(tx, ks, k, by, added)
				if err != nil {
					return err
				}
				if has < 0 {
					return errNotChanged // it is not overdrawn
				}
			}
			return nil
		})
	})
}

// addToAccount adds to an account, in one step or by reading and writing it.
func (c *client) addToAccount(tx *cleave.Txn, ks *cleave.Keyspace, k []byte, by int64, added bool) (int64, error) {
	if added {
		return tx.Add(ks, k, by)
	}
	has, err := parseDecimal(tx.Get(ks, k))
	if err != nil {
		return 0, err
	}
	return has + by, tx.Set(ks, k, formatDecimal(has+by))
}

// auditBank reads all accounts at one moment: key by key, or what there is.
func (c *client) auditBank() {
	scanned := c.rng.IntN(2) == 0
	c.runCall(clientCall{Bank: &check.Balances{}, Work: "audits"}, func(ask *clientCall) error {
		return c.db.View(ctx, func(tx *cleave.Txn) error {
			of := map[string]int64{}
			ask.Bank.Of = of
			if scanned {
				return c.visitKeys(tx, "bank ", func(key string, value []byte) (err error) {
					of[key], err = parseDecimal(value, nil)
					return err
				})
			}
			for i := range accountCount {
				ks, k := c.locateKey(accountKey(i))
				value, err := tx.Get(ks, k)
				if err != nil {
					return fmt.Errorf("%s: %w", accountKey(i), err)
				}
				if of[accountKey(i)], err = parseDecimal(value, nil); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// visitKeys visits the keys of both keyspaces of a sort.
func (c *client) visitKeys(tx *cleave.Txn, sort string, visit func(key string, value []byte) error) error {
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

// bookingsKey counts bookings.
const bookingsKey = "o:booked"

// bookCabin tries to get a cabin that others want too.
func (c *client) bookCabin() {
	n := c.claimCalls.Add(1)
	cabin := fmt.Sprintf("%s:cab %d.%d", []string{"h", "o"}[n/5%2], c.Life/2, n/5)
	claim := &check.Claim{Cabin: cabin, Customer: c.nextNumber(), Won: true}
	c.runCall(clientCall{Claim: claim, Work: "claims"}, func(*clientCall) error {
		return c.db.Update(ctx, func(tx *cleave.Txn) error {
			ks, k := c.locateKey(cabin)
			taken, err := tx.Exists(ks, k)
			if claim.Won = !taken; err != nil || taken {
				return err
			}
			if err := tx.Set(ks, k, formatDecimal(int64(claim.Customer))); err != nil {
				return err
			}
			ks, k = c.locateKey(bookingsKey)
			_, err = tx.Add(ks, k, 1)
			return err
		})
	})
}

// readEverything reads everything at one moment.
func (c *client) readEverything() {
	c.runCall(clientCall{Look: true, Work: "looks at everything"}, func(ask *clientCall) error {
		return c.db.View(ctx, func(tx *cleave.Txn) error {
			ask.Rows = map[string]string{}
			return c.visitKeys(tx, "", func(key string, value []byte) error {
				if _, twice := ask.Rows[key]; twice {
					return fmt.Errorf("%s came twice", key)
				}
				ask.Rows[key] = string(value)
				if value != nil {
					return nil
				}
				ks, k := c.locateKey(key)
				all, err := tx.HGetAll(ks, k)
				if err != nil {
					return err
				}
				n, err := checkWholeHash(key, all)
				ask.Rows[key] = string(formatDecimal(int64(n)))
				return err
			})
		})
	})
}
