package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cleavekv/cleave"
)

// A lease is a key that expires: who sets it while it is absent has it until then,
// wherever its shard moves and however often the process is killed.
type lease struct {
	Key string
	For time.Duration
	// Asked and Told are when the call began and ended, by the machine's clock: who was
	// told that the lease is his has it from then on, for as long as it was asked for.
	Asked, Told time.Time
	Won         bool
}

// end is when its holder must let go. Groups count whole milliseconds: a lease may end as
// much earlier.
func (l *lease) end() time.Time { return l.Asked.Add(l.For - time.Millisecond) }

// leaseKeys returns the keys of leases.
func leaseKeys() (keys []string) {
	for _, l := range []string{"h", "o"} {
		for i := range 3 {
			keys = append(keys, fmt.Sprintf("%s:lease %d", l, i))
		}
	}
	return keys
}

// acquire tries to get a lease.
func (c *client) acquire() {
	keys := leaseKeys()
	l := &lease{Key: keys[c.rng.IntN(len(keys))], For: time.Duration(2+c.rng.IntN(60)) * time.Millisecond}
	ks, k := c.at(l.Key)
	value := decimal(int64(c.number()))
	inside := c.rng.IntN(3) == 0
	o := cleave.SetOptions{IfAbsent: true, TTL: l.For}
	c.do(call{Lease: l, Work: "leases"}, func(*call) (err error) {
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

// expire waits until nobody has a lease. One that lost its end on the way is never over:
// that is noticed as a child that is stuck.
func (c *child) expire() {
	for _, key := range leaseKeys() {
		ks, k := c.at(key)
		for {
			has, err := ks.Exists(ctx, k)
			if err != nil {
				c.trouble("wait for the end of %s: %v", key, err)
			}
			if err != nil || !has {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// judgeLeases returns two that had the same lease at once, if there are any.
func judgeLeases(all []lease) (wrong []error) {
	slices.SortFunc(all, func(a, b lease) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), a.Told.Compare(b.Told))
	})
	for i, l := range all {
		// Another may have been given before it and be told later.
		for _, next := range all[i+1:] {
			if next.Key != l.Key || !next.Told.Before(l.end()) {
				break
			}
			if next.Told.Before(next.end()) {
				wrong = append(wrong, fmt.Errorf("two have a lease at once: %+v and %+v", l, next))
			}
		}
	}
	return wrong
}
