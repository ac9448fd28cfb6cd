package counter

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/sums"
)

// Resize gives a counter so many parts, a power of two up to MaxParts, in one
// transaction. Counters do that by themselves within Options.Max: use it to prepare for a
// crowd that is known to come. A fold that would overflow a part is refused with
// cleave.ErrOverflow.
func (c *Counters) Resize(ctx context.Context, name string, parts int) error {
	if !sums.Valid(parts) {
		return fmt.Errorf("%w: counter: %d parts: use a power of two up to %d", cleave.ErrOptions, parts, MaxParts)
	}
	err := c.db.Update(ctx, func(tx *cleave.Txn) error {
		n, err := c.manifest(tx, name)
		switch {
		case err != nil || n == parts:
			return err
		case n < parts:
			return c.grow(tx, name, n, parts)
		}
		return c.fold(tx, name, parts)
	})
	if err != nil {
		return fmt.Errorf("resize counter %.40q to %d: %w", name, parts, err)
	}
	if s, err := c.of(ctx, name); err == nil { // it is done, and what is known may be old
		_, _ = c.refresh(ctx, s)
	}
	return nil
}

// grow opens parts. It reads none of those that are open, so that it is in nobody's way.
func (c *Counters) grow(tx *cleave.Txn, name string, from, to int) error {
	for i := from; i < to; i++ {
		if err := tx.Set(c.space, c.layout.part(name, i), []byte("0")); err != nil {
			return err
		}
	}
	return tx.Set(c.space, c.layout.manifest(name), sums.AppendManifest(nil, to))
}

// fold closes parts, and adds what they hold to others.
func (c *Counters) fold(tx *cleave.Txn, name string, to int) error {
	keys, parts, err := c.read(tx, name)
	if err != nil {
		return err
	}
	folded, err := sums.Resize(parts, to)
	if err != nil {
		return fmt.Errorf("%w: what they hold does not fit into so few parts: leave it split", cleave.ErrOverflow)
	}
	if err := c.write(tx, keys[:to], parts, folded); err != nil {
		return err
	}
	if _, err := tx.Delete(c.space, keys[to:]...); err != nil {
		return err
	}
	if to == 1 {
		_, err = tx.Delete(c.space, c.layout.manifest(name))
		return err
	}
	return tx.Set(c.space, c.layout.manifest(name), sums.AppendManifest(nil, to))
}

// write writes the parts that have changed.
func (c *Counters) write(tx *cleave.Txn, keys [][]byte, old, parts []int64) error {
	for i, key := range keys {
		if parts[i] == old[i] {
			continue
		}
		if err := tx.Set(c.space, key, strconv.AppendInt(nil, parts[i], 10)); err != nil {
			return err
		}
	}
	return nil
}

// Reset sets a counter to 0 and returns what it was, at one moment: no add is lost
// between two resets. Its parts stay.
func (c *Counters) Reset(ctx context.Context, name string) (sum int64, err error) {
	err = c.db.Update(ctx, func(tx *cleave.Txn) error {
		keys, parts, err := c.read(tx, name)
		if err != nil {
			return err
		}
		if sum, err = sums.Total(parts); err != nil {
			return fmt.Errorf("%w: the sum of counter %.40q", cleave.ErrOverflow, name)
		}
		return c.write(tx, keys, parts, make([]int64, len(parts)))
	})
	return sum, err
}

// Delete removes a counter, with whatever its keys hold, and tells whether there was
// one. An add that comes later makes it again. One that was made by AddOnce and is
// retried later is not made again.
func (c *Counters) Delete(ctx context.Context, name string) (found bool, err error) {
	err = c.db.Update(ctx, func(tx *cleave.Txn) error {
		n, err := c.manifest(tx, name)
		if errors.Is(err, cleave.ErrWrongType) {
			n, err = MaxParts, nil // not a manifest: whatever there is
		}
		if err != nil {
			return err
		}
		keys := append(c.layout.parts(name, n), c.layout.manifest(name))
		deleted, err := tx.Delete(c.space, keys...)
		found = deleted > 0
		return err
	})
	return found, err
}

// Parts returns how many parts a counter has now.
func (c *Counters) Parts(ctx context.Context, name string) (parts int, err error) {
	err = c.db.View(ctx, func(tx *cleave.Txn) error {
		parts, err = c.manifest(tx, name)
		return err
	})
	return parts, err
}
