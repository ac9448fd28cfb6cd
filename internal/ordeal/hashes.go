package main

import (
	"bytes"
	"fmt"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/check/register"
)

// A hash whose fields are always written together is a register: a job or a kill that
// loses or brings back one of them tears it.
var fields = [][]byte{[]byte("one"), []byte("three"), []byte("two")}

func fieldsOf(n register.Value) (all []cleave.Field) {
	for _, name := range fields {
		all = append(all, cleave.Field{Name: name, Value: decimal(int64(n))})
	}
	return all
}

// whole returns what all fields of a hash hold.
func whole(key string, got []cleave.Field) (register.Value, error) {
	if len(got) == 0 {
		return 0, nil
	}
	for i, f := range got {
		if len(got) != len(fields) || !bytes.Equal(f.Name, fields[i]) || !bytes.Equal(f.Value, got[0].Value) {
			return 0, fmt.Errorf("the hash %s is torn: %q", key, got)
		}
	}
	n, err := numberOf(got[0].Value, nil)
	return register.Value(n), err
}

// hashed reads, fills or empties a hash.
func (c *client) hashed() {
	key := fmt.Sprintf("%s:hash %s %d", c.letter(), c.generation(c.hashes.Add(1), 3000), c.rng.IntN(4))
	r := &register.Call{Key: key, New: register.Value(c.number())}
	ask := call{Register: r, Work: "hashes"}
	switch n := c.rng.IntN(9); {
	case n < 4:
		r.Kind = register.Get
		c.do(ask, func(*call) (err error) {
			r.Got, err = c.readHash(key, n)
			return err
		})
	case n < 7:
		r.Kind = register.Set
		c.do(ask, func(*call) error { return c.fillHash(key, r.New, n == 4) })
	default:
		r.Kind = register.Delete
		ks, k := c.at(key)
		c.do(ask, func(*call) error {
			gone, err := 0, error(nil)
			if n == 7 {
				gone, err = ks.HDel(ctx, k, fields...)
			} else { // which leaves fields to be swept
				gone, err = ks.Delete(ctx, k)
			}
			r.Done = gone > 0
			return err
		})
	}
}

// readHash reads a hash in one of four ways.
func (c *client) readHash(key string, way int) (got register.Value, err error) {
	ks, k := c.at(key)
	if way == 0 {
		n, err := numberOf(ks.HGet(ctx, k, fields[c.rng.IntN(len(fields))]))
		return register.Value(n), err
	}
	if way == 1 {
		err = c.db.View(ctx, func(tx *cleave.Txn) error {
			all, err := tx.HGetAll(ks, k)
			if err == nil {
				got, err = whole(key, all)
			}
			return err
		})
		return got, err
	}
	all, err := ks.HGetAll(ctx, k)
	if err != nil {
		return 0, err
	}
	return whole(key, all)
}

// fillHash sets all fields, by one call or field by field in a transaction.
func (c *client) fillHash(key string, n register.Value, apart bool) error {
	ks, k := c.at(key)
	all := fieldsOf(n)
	if !apart {
		_, err := ks.HSet(ctx, k, all...)
		return err
	}
	return c.db.Update(ctx, func(tx *cleave.Txn) error {
		for _, f := range all {
			if _, err := tx.HSet(ks, k, f); err != nil {
				return err
			}
		}
		return nil
	})
}
