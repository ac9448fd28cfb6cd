package counter

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/patterns/splitcount"
)

// Sum returns the exact sum of a counter, 0 if there is none: all of its parts as of one
// moment. If it does not fit into 64 bits the error is cleave.ErrOverflow; nothing is lost,
// and adds the other way bring it back.
func (c *Counters) Sum(ctx context.Context, name string) (sum int64, err error) {
	if sum, ok := c.trySumWithoutTxn(ctx, name); ok {
		return sum, nil
	}
	err = c.db.View(ctx, func(tx *cleave.Txn) error {
		sum, err = c.SumTx(tx, name)
		return err
	})
	return sum, err
}

// trySumWithoutTxn reads the manifest together with the parts that it is believed to name, which takes
// no transaction, and reports whether that is what it names.
func (c *Counters) trySumWithoutTxn(ctx context.Context, name string) (sum int64, ok bool) {
	s, err := c.getState(ctx, name)
	if err != nil {
		return 0, false
	}
	v := s.view.Load()
	values, err := c.keyspace.GetMany(ctx, append([][]byte{c.layout.Manifest(name)}, v.partKeys...)...)
	if err != nil {
		return 0, false
	}
	if n, err := splitcount.ParseManifest(values[0]); err != nil || n != len(v.partKeys) {
		return 0, false
	}
	parts := make([]int64, len(v.partKeys))
	for i, value := range values[1:] {
		if value == nil {
			continue
		}
		if parts[i], err = strconv.ParseInt(string(value), 10, 64); err != nil {
			return 0, false
		}
	}
	sum, err = splitcount.Total(parts)
	return sum, err == nil
}

// SumTx returns the exact sum as a part of a transaction: if the counter is added to
// before that commits, it is run again, and after some times waits for its turn.
func (c *Counters) SumTx(tx *cleave.Txn, name string) (int64, error) {
	_, parts, err := c.readParts(tx, name)
	if err != nil {
		return 0, err
	}
	sum, err := splitcount.Total(parts)
	if err != nil {
		return 0, fmt.Errorf("%w: the sum of counter %.40q", cleave.ErrOverflow, name)
	}
	return sum, nil
}

// Reading is a sum that may be old.
type Reading struct {
	Sum int64
	// Age is how long ago it was exact, at most.
	Age time.Duration
}

// cachedSum is the last sum of a counter that was read.
type cachedSum struct {
	readSlot chan struct{} // taken by the caller that reads
	sum      int64
	readAt   time.Time // before it was read; zero if it was not
}

// Fast returns a sum that was exact at some moment after the call, or before it by no more
// than bound, by the clock of Options.Now. It is kept in memory, and read again by one
// caller for all that wait when it is too old.
func (c *Counters) Fast(ctx context.Context, name string, bound time.Duration) (Reading, error) {
	s, err := c.getState(ctx, name)
	if err != nil {
		return Reading{}, err
	}
	asked := c.opts.Now()
	select {
	case s.cached.readSlot <- struct{}{}:
		defer func() { <-s.cached.readSlot }()
	case <-ctx.Done():
		return Reading{}, ctx.Err()
	}
	now := c.opts.Now()
	if !s.cached.isFreshFor(asked, now, bound) {
		sum, err := c.Sum(ctx, name)
		if err != nil {
			return Reading{}, err
		}
		s.cached.sum, s.cached.readAt = sum, now
	}
	return Reading{Sum: s.cached.sum, Age: c.opts.Now().Sub(s.cached.readAt)}, nil
}

// isFreshFor reports whether what is cached is young enough for a caller that asked then. What is
// of the future is of a clock that went back, and of no known age.
func (k *cachedSum) isFreshFor(asked, now time.Time, bound time.Duration) bool {
	return !k.readAt.IsZero() && !k.readAt.After(now) && asked.Sub(k.readAt) <= max(bound, 0)
}
