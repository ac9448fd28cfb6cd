package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/testkit/check"
	"github.com/cleavekv/cleave/internal/testkit/check/register"
)

// A hash whose fields are always written together is a register: a job or a kill that
// loses or brings back one of them tears it.
var hashFields = [][]byte{[]byte("one"), []byte("three"), []byte("two")}

func makeFields(n register.Value) (all []cleave.Field) {
	for _, name := range hashFields {
		all = append(all, cleave.Field{Name: name, Value: formatDecimal(int64(n))})
	}
	return all
}

// checkWholeHash returns what all fields of a hash hold.
func checkWholeHash(key string, got []cleave.Field) (register.Value, error) {
	if len(got) == 0 {
		return 0, nil
	}
	for i, f := range got {
		if len(got) != len(hashFields) || !bytes.Equal(f.Name, hashFields[i]) || !bytes.Equal(f.Value, got[0].Value) {
			return 0, fmt.Errorf("the hash %s is torn: %q", key, got)
		}
	}
	n, err := parseDecimal(got[0].Value, nil)
	return register.Value(n), err
}

// runHashOp reads, fills or empties a hash.
func (c *client) runHashOp() {
	key := fmt.Sprintf("%s:hash %s %d", c.drawLetter(), c.keyGeneration(c.hashCalls.Add(1), 3000), c.rng.IntN(4))
	r := &register.Call{Key: key, New: register.Value(c.nextNumber())}
	ask := clientCall{Register: r, Work: "hashes"}
	switch n := c.rng.IntN(9); {
	case n < 4:
		r.Kind = register.Get
		c.runCall(ask, func(*clientCall) (err error) {
			r.Got, err = c.readHash(key, n)
			return err
		})
	case n < 7:
		r.Kind = register.Set
		c.runCall(ask, func(*clientCall) error { return c.fillHash(key, r.New, n == 4) })
	default:
		r.Kind = register.Delete
		ks, k := c.locateKey(key)
		c.runCall(ask, func(*clientCall) error {
			gone, err := 0, error(nil)
			if n == 7 {
				gone, err = ks.HDel(ctx, k, hashFields...)
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
	ks, k := c.locateKey(key)
	if way == 0 {
		n, err := parseDecimal(ks.HGet(ctx, k, hashFields[c.rng.IntN(len(hashFields))]))
		return register.Value(n), err
	}
	if way == 1 {
		err = c.db.View(ctx, func(tx *cleave.Txn) error {
			all, err := tx.HGetAll(ks, k)
			if err == nil {
				got, err = checkWholeHash(key, all)
			}
			return err
		})
		return got, err
	}
	all, err := ks.HGetAll(ctx, k)
	if err != nil {
		return 0, err
	}
	return checkWholeHash(key, all)
}

// fillHash sets all fields, by one call or field by field in a transaction.
func (c *client) fillHash(key string, n register.Value, apart bool) error {
	ks, k := c.locateKey(key)
	all := makeFields(n)
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

// A lease is a key that expires: the client that sets it while it is absent has it until then,
// wherever its shard moves and however often the process is killed.
type lease struct {
	Key string
	For time.Duration
	// Asked and Told are when the call began and ended, by the machine's clock: a client whose
	// call got the lease has it from then on, for as long as it was asked for.
	Asked, Told time.Time
	Won         bool
}

// endsAt is when its holder must release it. Groups count whole milliseconds: a lease may end as
// much earlier.
func (l *lease) endsAt() time.Time { return l.Asked.Add(l.For - time.Millisecond) }

// leaseKeys returns the keys of leases.
func leaseKeys() (keys []string) {
	for _, l := range []string{"h", "o"} {
		for i := range 3 {
			keys = append(keys, fmt.Sprintf("%s:lease %d", l, i))
		}
	}
	return keys
}

// acquireLease tries to get a lease.
func (c *client) acquireLease() {
	keys := leaseKeys()
	l := &lease{Key: keys[c.rng.IntN(len(keys))], For: time.Duration(2+c.rng.IntN(60)) * time.Millisecond}
	ks, k := c.locateKey(l.Key)
	value := formatDecimal(int64(c.nextNumber()))
	inside := c.rng.IntN(3) == 0
	o := cleave.SetOptions{IfAbsent: true, TTL: l.For}
	c.runCall(clientCall{Lease: l, Work: "leases"}, func(*clientCall) (err error) {
		l.Asked = time.Now()
		if inside {
			err = c.db.Update(ctx, func(tx *cleave.Txn) error { return tx.SetWith(ks, k, value, o) })
		} else {
			_, err = ks.SetWith(ctx, k, value, o)
		}
		l.Told, l.Won = time.Now(), err == nil
		if errors.Is(err, cleave.ErrNotStored) {
			return nil
		}
		return err
	})
}

// waitLeasesEnded waits until no lease is held. One whose end was lost on the way is never over:
// that is noticed as a child that is stuck.
func (c *child) waitLeasesEnded() {
	for _, key := range leaseKeys() {
		ks, k := c.locateKey(key)
		for {
			has, err := ks.Exists(ctx, k)
			if err != nil {
				c.reportTrouble("wait for the end of %s: %v", key, err)
			}
			if err != nil || !has {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// checkLeases returns two that had the same lease at once, if there are any.
func checkLeases(all []lease) (wrong []error) {
	slices.SortFunc(all, func(a, b lease) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), a.Told.Compare(b.Told))
	})
	for i, l := range all {
		// Another may have been given before it and reported later.
		for _, next := range all[i+1:] {
			if next.Key != l.Key || !next.Told.Before(l.endsAt()) {
				break
			}
			if next.Told.Before(next.endsAt()) {
				wrong = append(wrong, fmt.Errorf("two have a lease at once: %+v and %+v", l, next))
			}
		}
	}
	return wrong
}

// scanKeyCount is how many keys come and go for scans.
const scanKeyCount = 24

func scanKey(i int) string { return fmt.Sprintf("o:scan %02d", i) }

// changeScanKey puts or deletes a key for scans.
func (c *client) changeScanKey() {
	key := scanKey(c.rng.IntN(scanKeyCount))
	ks, k := c.locateKey(key)
	ask := clientCall{Change: &check.Change{Key: key, Delete: c.rng.IntN(5) < 2}, Work: "changes"}
	c.runCall(ask, func(ask *clientCall) error {
		if ask.Change.Delete {
			_, err := ks.Delete(ctx, k)
			return err
		}
		return ks.Set(ctx, k, []byte("1"))
	})
}

// runScan lists keys: at one moment, or page by page.
func (c *client) runScan() {
	from := c.rng.IntN(scanKeyCount)
	s := &check.Scan{Start: scanKey(from), End: scanKey(from + 1 + c.rng.IntN(scanKeyCount-from)), Reverse: c.rng.IntN(3) == 0}
	o := cleave.ScanOptions{Start: []byte(s.Start), End: []byte(s.End), Reverse: s.Reverse, KeysOnly: c.rng.IntN(2) == 0}
	way := c.rng.IntN(4)
	if way == 0 {
		s.Limit = 1 + c.rng.IntN(8)
	}
	c.runCall(clientCall{Scan: s, Work: "scans"}, func(*clientCall) error {
		switch way {
		case 0:
			o.Limit = s.Limit
			p, err := c.ordered.ScanPage(ctx, o)
			s.Keys = appendKeys(nil, p.Items)
			return err
		case 1:
			return c.scanPages(s, o)
		case 2:
			return c.db.View(ctx, func(tx *cleave.Txn) error {
				s.Keys = nil
				for item, err := range tx.Scan(c.ordered, o) {
					if err != nil {
						return err
					}
					s.Keys = append(s.Keys, string(item.Key))
				}
				return nil
			})
		}
		for item, err := range c.ordered.Scan(ctx, o) {
			if err != nil {
				return err
			}
			s.Keys = append(s.Keys, string(item.Key))
		}
		return nil
	})
}

func (c *client) scanPages(s *check.Scan, o cleave.ScanOptions) error {
	for o.Limit = 1 + c.rng.IntN(5); ; {
		p, err := c.ordered.ScanPage(ctx, o)
		if err != nil {
			return err
		}
		s.Keys = appendKeys(s.Keys, p.Items)
		if o.After = p.Next; p.Next == nil {
			return nil
		}
	}
}

func appendKeys(keys []string, items []cleave.Item) []string {
	for _, i := range items {
		keys = append(keys, string(i.Key))
	}
	return keys
}
