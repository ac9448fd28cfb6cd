package counter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/sums"
)

// Add adds delta to a counter, which it makes if there is none. After an error that
// matches cleave.ErrUnknown it may have been added or not: use AddOnce if that matters.
// It is refused with cleave.ErrOverflow only if the sum would not fit into 64 bits, and
// with cleave.ErrNotInteger or cleave.ErrWrongType if somebody else wrote to its keys.
func (c *Counters) Add(ctx context.Context, name string, delta int64) error {
	s, err := c.of(ctx, name)
	if err != nil {
		return err
	}
	began := c.opts.Now()
	err = c.addTo(ctx, s, delta)
	s.waited.Add(int64(c.opts.Now().Sub(began)))
	s.adds.Add(1)
	return err
}

func (c *Counters) addTo(ctx context.Context, s *state, delta int64) error {
	v := s.view.Load()
	i := pick(len(v.keys))
	// A part that was closed sends to the newest view, and a second one to part 0,
	// which is always open: nobody runs after a counter that changes all the time.
	for tries := 0; i > 0 && tries < 2; tries++ {
		err := c.addToPart(ctx, v.keys[i], delta, cleave.RequestID{})
		if !errors.Is(err, cleave.ErrNotStored) {
			return c.overflowed(ctx, s.name, delta, err)
		}
		if v, err = c.refresh(ctx, s); err != nil {
			return err
		}
		i = pick(len(v.keys))
	}
	_, err := c.space.Add(ctx, v.keys[0], delta)
	return c.overflowed(ctx, s.name, delta, err)
}

// addToPart adds to a part that is not the first, if it is open.
func (c *Counters) addToPart(ctx context.Context, key []byte, delta int64, id cleave.RequestID) error {
	o := cleave.AddOptions{IfPresent: !plant.Bug("counter-add-to-closed-part"), Request: id}
	_, err := c.space.AddWith(ctx, key, delta, o)
	return err
}

// pick chooses a part at random: with as many writers as make a split worth while
// that is even enough, and needs nothing that they share.
func pick(parts int) int {
	if parts == 1 {
		return 0
	}
	return rand.IntN(parts)
}

// overflowed adds in a transaction what a part had no room for: the others may have.
func (c *Counters) overflowed(ctx context.Context, name string, delta int64, err error) error {
	if !errors.Is(err, cleave.ErrOverflow) {
		return err
	}
	return c.db.Update(ctx, func(tx *cleave.Txn) error {
		keys, parts, err := c.read(tx, name)
		if err != nil {
			return err
		}
		level, err := sums.Level(parts, delta)
		if err != nil {
			return fmt.Errorf("%w: counter %.40q", cleave.ErrOverflow, name)
		}
		return c.write(tx, keys, parts, level)
	})
}

// AddTx adds as a part of a transaction. That reads the part that it adds to, so it
// conflicts with every other add to it: for an add that goes together with writes that
// depend on nothing, Write is better.
func (c *Counters) AddTx(tx *cleave.Txn, name string, delta int64) error {
	parts, err := c.manifest(tx, name)
	if err != nil {
		return err
	}
	_, err = tx.Add(c.space, c.layout.part(name, pick(parts)), delta)
	return err
}
