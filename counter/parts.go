package counter

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/patterns/splitcount"
	"github.com/cleavekv/cleave/internal/patterns/spread"
)

// Resize gives a counter so many parts, a power of two up to MaxParts, in one
// transaction. Counters do that by themselves within Options.Max: use it to prepare for a
// crowd that is known to come. A fold that would overflow a part is refused with
// cleave.ErrOverflow.
func (c *Counters) Resize(ctx context.Context, name string, parts int) error {
	if !splitcount.IsValidCount(parts) {
		return fmt.Errorf("%w: counter: %d parts: use a power of two up to %d", cleave.ErrOptions, parts, MaxParts)
	}
	err := c.db.Update(ctx, func(tx *cleave.Txn) error {
		n, err := c.readPartCount(tx, name)
		switch {
		case err != nil || n == parts:
			return err
		case n < parts:
			return c.openParts(tx, name, n, parts)
		}
		return c.closeParts(tx, name, parts)
	})
	if err != nil {
		return fmt.Errorf("resize counter %.40q to %d: %w", name, parts, err)
	}
	if s, err := c.getState(ctx, name); err == nil { // it is done, and what is known may be old
		_, _ = c.refreshView(ctx, s)
	}
	return nil
}

// openParts opens parts. It reads none of the open ones, so it conflicts with no adds.
func (c *Counters) openParts(tx *cleave.Txn, name string, from, to int) error {
	for i := from; i < to; i++ {
		if err := tx.Set(c.keyspace, c.layout.Part(name, i), []byte("0")); err != nil {
			return err
		}
	}
	return tx.Set(c.keyspace, c.layout.Manifest(name), splitcount.AppendManifest(nil, to))
}

// closeParts closes parts, and adds what they hold to others.
func (c *Counters) closeParts(tx *cleave.Txn, name string, to int) error {
	keys, parts, err := c.readParts(tx, name)
	if err != nil {
		return err
	}
	folded, err := splitcount.Resize(parts, to)
	if err != nil {
		return fmt.Errorf("%w: what they hold does not fit into so few parts: leave it split", cleave.ErrOverflow)
	}
	if err := c.writeChangedParts(tx, keys[:to], parts, folded); err != nil {
		return err
	}
	if _, err := tx.Delete(c.keyspace, keys[to:]...); err != nil {
		return err
	}
	if to == 1 {
		_, err = tx.Delete(c.keyspace, c.layout.Manifest(name))
		return err
	}
	return tx.Set(c.keyspace, c.layout.Manifest(name), splitcount.AppendManifest(nil, to))
}

// writeChangedParts writes the parts that have changed.
func (c *Counters) writeChangedParts(tx *cleave.Txn, keys [][]byte, old, parts []int64) error {
	for i, key := range keys {
		if parts[i] == old[i] {
			continue
		}
		if err := tx.Set(c.keyspace, key, strconv.AppendInt(nil, parts[i], 10)); err != nil {
			return err
		}
	}
	return nil
}

// Reset sets a counter to 0 and returns what it was, at one moment: no add is lost
// between two resets. Its parts stay.
func (c *Counters) Reset(ctx context.Context, name string) (sum int64, err error) {
	err = c.db.Update(ctx, func(tx *cleave.Txn) error {
		keys, parts, err := c.readParts(tx, name)
		if err != nil {
			return err
		}
		if sum, err = splitcount.Total(parts); err != nil {
			return fmt.Errorf("%w: the sum of counter %.40q", cleave.ErrOverflow, name)
		}
		return c.writeChangedParts(tx, keys, parts, make([]int64, len(parts)))
	})
	return sum, err
}

// Delete removes a counter, with whatever its keys hold, and reports whether there was
// one. An add that comes later makes it again. One that was made by AddOnce and is
// retried later is not made again.
func (c *Counters) Delete(ctx context.Context, name string) (found bool, err error) {
	err = c.db.Update(ctx, func(tx *cleave.Txn) error {
		n, err := c.readPartCount(tx, name)
		if errors.Is(err, cleave.ErrWrongType) {
			n, err = MaxParts, nil // not a manifest: whatever there is
		}
		if err != nil {
			return err
		}
		keys := append(c.layout.Parts(name, n), c.layout.Manifest(name))
		deleted, err := tx.Delete(c.keyspace, keys...)
		found = deleted > 0
		return err
	})
	return found, err
}

// Parts returns how many parts a counter has now.
func (c *Counters) Parts(ctx context.Context, name string) (parts int, err error) {
	err = c.db.View(ctx, func(tx *cleave.Txn) error {
		parts, err = c.readPartCount(tx, name)
		return err
	})
	return parts, err
}

// maxNameBytes leaves room for what is added to a name within the limit of a key.
const maxNameBytes = 8 << 10

// checkName refuses names whose keys would be too long.
func checkName(name string) error {
	if len(name) > maxNameBytes {
		return fmt.Errorf("%w: it has %d bytes: use at most %d", ErrName, len(name), maxNameBytes)
	}
	return nil
}

// SplitKeys returns the keys at which to cut a keyspace of kind Range, so that the parts
// of counters fall evenly into n pieces, at most MaxParts:
//
//	job, err := db.Start(ctx, cleave.SplitAtKeys(ks, counter.SplitKeys(8)...))
//
// Then give some of the shards to other groups, with a [cleave.Move] for each. One of
// kind Hash needs nothing: its slots are spread from the start. [Counters.Spread] does both, for
// all groups.
func SplitKeys(n int) [][]byte { return spread.PartSplitKeys(n) }

// readPartCount reads how many parts a counter has.
func (c *Counters) readPartCount(tx *cleave.Txn, name string) (parts int, err error) {
	if err := checkName(name); err != nil {
		return 0, err
	}
	value, err := tx.Get(c.keyspace, c.layout.Manifest(name))
	if err != nil && !errors.Is(err, cleave.ErrNotFound) {
		return 0, err
	}
	return c.parsePartCount(name, value)
}

func (c *Counters) parsePartCount(name string, value []byte) (int, error) {
	parts, err := splitcount.ParseManifest(value)
	if err != nil {
		return 0, fmt.Errorf("%w: key %q is that of the manifest of counter %.40q, and holds %.40q", cleave.ErrWrongType, c.layout.Manifest(name), name, value)
	}
	return parts, nil
}

// readParts reads all parts of a counter.
func (c *Counters) readParts(tx *cleave.Txn, name string) (keys [][]byte, parts []int64, err error) {
	n, err := c.readPartCount(tx, name)
	if err != nil {
		return nil, nil, err
	}
	keys = c.layout.Parts(name, n)
	values, err := c.readPartValues(tx, keys)
	if err != nil {
		return nil, nil, err
	}
	parts = make([]int64, n)
	for i, v := range values {
		if v == nil {
			continue
		}
		if parts[i], err = strconv.ParseInt(string(v), 10, 64); err != nil {
			return nil, nil, fmt.Errorf("%w: key %q is part %d of counter %.40q, and holds %.40q", cleave.ErrNotInteger, keys[i], i, name, v)
		}
	}
	return keys, parts, nil
}

func (c *Counters) readPartValues(tx *cleave.Txn, keys [][]byte) ([][]byte, error) {
	return tx.GetMany(c.keyspace, keys...)
}
