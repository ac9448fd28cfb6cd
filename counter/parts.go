package counter

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strconv"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/internal/patterns/splitcount"
	"github.com/cleavekv/cleave/key"
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
		if err := tx.Set(c.keyspace, c.layout.partKey(name, i), []byte("0")); err != nil {
			return err
		}
	}
	return tx.Set(c.keyspace, c.layout.manifestKey(name), splitcount.AppendManifest(nil, to))
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
		_, err = tx.Delete(c.keyspace, c.layout.manifestKey(name))
		return err
	}
	return tx.Set(c.keyspace, c.layout.manifestKey(name), splitcount.AppendManifest(nil, to))
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
		keys := append(c.layout.partKeys(name, n), c.layout.manifestKey(name))
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

// layout makes the keys of the parts of counters. They are the same for ever, whatever
// the options: part 0 where the name says, the others evenly around it, so that
// 2, 4, 8 … parts fall into halves, quarters, eighths … of the keyspace.
type layout struct {
	keyspace *cleave.Keyspace
	slots    int // 0 for a range keyspace
}

func newLayout(ks *cleave.Keyspace) layout {
	l := layout{keyspace: ks}
	if o := ks.Options(); o.Kind == cleave.Hash {
		if l.slots = o.Slots; l.slots == 0 {
			l.slots = hash.Slots
		}
	}
	return l
}

// checkName refuses names whose keys would be too long.
func checkName(name string) error {
	if len(name) > maxNameBytes {
		return fmt.Errorf("%w: it has %d bytes: use at most %d", ErrName, len(name), maxNameBytes)
	}
	return nil
}

// manifestKey is the key of the manifest: next to part 0.
func (l layout) manifestKey(name string) []byte {
	if l.slots == 0 {
		return l.saltedKey(name, 0, "manifest")
	}
	return hashTaggedKey(0, name, "m")
}

// partKey is the key of a part.
func (l layout) partKey(name string, i int) []byte {
	if l.slots == 0 {
		return l.saltedKey(name, i, int64(i))
	}
	return hashTaggedKey(l.findHashTag(name, i), name, strconv.Itoa(i))
}

// partKeys are the keys of the first n parts.
func (l layout) partKeys(name string, n int) [][]byte {
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = l.partKey(name, i)
	}
	return keys
}

// hashTaggedKey is a key of a hash keyspace. The hash tag begins with the number, and ends with
// the name or with a brace in it, so that it is different for each number, and the same
// for all keys with that number and name.
func hashTaggedKey(number int, name, what string) []byte {
	k := append(strconv.AppendInt([]byte{'{'}, int64(number), 10), ':')
	return append(append(append(k, name...), '}'), what...)
}

// coarseStretches and finest are into how many stretches the slots are cut to place parts: the
// first 64 parts are looked for in one of 64, which takes 64 tries on average.
const (
	coarseStretches = 64
	maxStretches    = MaxParts
	// maxTagTries bounds the search, which has no end if no number leads to a stretch.
	// With at most 256 stretches, that many have never been needed.
	maxTagTries = 1 << 13
)

// findHashTag is the number that brings a part into its stretch of slots.
func (l layout) findHashTag(name string, i int) int {
	if i == 0 {
		return 0
	}
	stretches := coarseStretches
	if i >= coarseStretches {
		stretches = maxStretches
	}
	stretches = min(stretches, l.slots)
	k := hashTaggedKey(0, name, "")
	stretch := func() int { return int(hash.SlotOf(k)) & (l.slots - 1) * stretches / l.slots }
	turn := int(bits.Reverse8(uint8(i))) * stretches / 256
	want := (stretch() + turn) % stretches
	for n := 1; n < maxTagTries; n++ {
		k = append(append(strconv.AppendInt(k[:1], int64(n), 10), ':'), name...)
		if k = append(k, '}'); stretch() == want {
			return n
		}
	}
	return i
}

// saltedKey is a key of a range keyspace: a byte that spreads, and a tuple.
func (l layout) saltedKey(name string, i int, what any) []byte {
	salt := uint8(hash.XXH3String(name).Uint64()) + bits.Reverse8(uint8(i))
	k, err := key.Append([]byte{salt}, key.Tuple{name, what})
	if err != nil {
		panic(err) // a string and a number always fit
	}
	return k
}

// SplitKeys returns the keys at which to cut a keyspace of kind Range, so that the parts
// of counters fall evenly into n pieces, at most MaxParts:
//
//	job, err := db.Start(ctx, cleave.SplitAtKeys(ks, counter.SplitKeys(8)...))
//
// Then give some of the shards to other groups, with a [cleave.Move] for each. One of
// kind Hash needs nothing: its slots are spread from the start. [Counters.Spread] does both, for
// all groups.
func SplitKeys(n int) [][]byte {
	var keys [][]byte
	for i := 1; i < min(n, MaxParts); i++ {
		keys = append(keys, []byte{byte(i * 256 / min(n, MaxParts))})
	}
	return keys
}

// readPartCount reads how many parts a counter has.
func (c *Counters) readPartCount(tx *cleave.Txn, name string) (parts int, err error) {
	if err := checkName(name); err != nil {
		return 0, err
	}
	value, err := tx.Get(c.keyspace, c.layout.manifestKey(name))
	if err != nil && !errors.Is(err, cleave.ErrNotFound) {
		return 0, err
	}
	return c.parsePartCount(name, value)
}

func (c *Counters) parsePartCount(name string, value []byte) (int, error) {
	parts, err := splitcount.ParseManifest(value)
	if err != nil {
		return 0, fmt.Errorf("%w: key %q is that of the manifest of counter %.40q, and holds %.40q", cleave.ErrWrongType, c.layout.manifestKey(name), name, value)
	}
	return parts, nil
}

// readParts reads all parts of a counter.
func (c *Counters) readParts(tx *cleave.Txn, name string) (keys [][]byte, parts []int64, err error) {
	n, err := c.readPartCount(tx, name)
	if err != nil {
		return nil, nil, err
	}
	keys = c.layout.partKeys(name, n)
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
