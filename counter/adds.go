package counter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/patterns/splitcount"
)

// Add adds delta to a counter, which it makes if there is none. After an error that
// matches cleave.ErrUnknown it may have been added or not: use AddOnce if that matters.
// It is refused with cleave.ErrOverflow only if the sum would not fit into 64 bits, and
// with cleave.ErrNotInteger or cleave.ErrWrongType if another program wrote to its keys.
func (c *Counters) Add(ctx context.Context, name string, delta int64) error {
	s, err := c.getState(ctx, name)
	if err != nil {
		return err
	}
	began := c.opts.Now()
	err = c.addToAnyPart(ctx, s, delta)
	s.addTime.Add(int64(c.opts.Now().Sub(began)))
	s.adds.Add(1)
	return err
}

func (c *Counters) addToAnyPart(ctx context.Context, s *counterState, delta int64) error {
	v := s.view.Load()
	i := pickPart(len(v.partKeys))
	// A part that was closed sends to the newest view, and a second one to part 0,
	// which is always open: no add runs after a counter that changes all the time.
	for tries := 0; i > 0 && tries < 2; tries++ {
		err := c.addToOpenPart(ctx, v.partKeys[i], delta, cleave.RequestID{})
		if !errors.Is(err, cleave.ErrNotStored) {
			return c.retryOverflowed(ctx, s.name, delta, err)
		}
		if v, err = c.refreshView(ctx, s); err != nil {
			return err
		}
		i = pickPart(len(v.partKeys))
	}
	_, err := c.keyspace.Add(ctx, v.partKeys[0], delta)
	return c.retryOverflowed(ctx, s.name, delta, err)
}

// addToOpenPart adds to a part that is not the first, if it is open.
func (c *Counters) addToOpenPart(ctx context.Context, key []byte, delta int64, id cleave.RequestID) error {
	o := cleave.AddOptions{IfPresent: true, Request: id}
	_, err := c.keyspace.AddWith(ctx, key, delta, o)
	return err
}

// pickPart chooses a part at random: with as many writers as make a split worth while
// that is even enough, and needs nothing that they share.
func pickPart(parts int) int {
	if parts == 1 {
		return 0
	}
	return rand.IntN(parts)
}

// retryOverflowed adds in a transaction what a part had no room for: the others may have.
func (c *Counters) retryOverflowed(ctx context.Context, name string, delta int64, err error) error {
	if !errors.Is(err, cleave.ErrOverflow) {
		return err
	}
	return c.db.Update(ctx, func(tx *cleave.Txn) error {
		keys, parts, err := c.readParts(tx, name)
		if err != nil {
			return err
		}
		level, err := splitcount.MoveToFirst(parts, delta)
		if err != nil {
			return fmt.Errorf("%w: counter %.40q", cleave.ErrOverflow, name)
		}
		return c.writeChangedParts(tx, keys, parts, level)
	})
}

// AddTx adds as a part of a transaction. That reads the part that it adds to, so it
// conflicts with every other add to it: for an add that goes together with writes that
// depend on nothing, Write is better.
func (c *Counters) AddTx(tx *cleave.Txn, name string, delta int64) error {
	parts, err := c.readPartCount(tx, name)
	if err != nil {
		return err
	}
	_, err = tx.Add(c.keyspace, c.layout.Part(name, pickPart(parts)), delta)
	return err
}

// requestPartByte is the byte of a request id that names the part it is for. It is one of
// those that are random otherwise.
const requestPartByte = 6

// NewRequestID returns an id for AddOnce on a counter. One of cleave.DB.NewRequestID does
// too, but then the add may take two steps.
func (c *Counters) NewRequestID(ctx context.Context, name string) (cleave.RequestID, error) {
	s, err := c.getState(ctx, name)
	if err != nil {
		return cleave.RequestID{}, err
	}
	id := c.db.NewRequestID()
	id[requestPartByte] = byte(pickPart(len(s.view.Load().partKeys)))
	return id, nil
}

// AddOnce is Add with a request id: a retry with the same one does not add again. Ids
// are remembered for cleave.Options.RequestTTL. It is refused with cleave.ErrOverflow if
// its part has no room for delta.
//
// The id names a part, and where the add is made depends on nothing else: that part, or
// if it was closed then, part 0. That it was closed is remembered as well, so that a
// retry takes the same way though the part is open again.
func (c *Counters) AddOnce(ctx context.Context, id cleave.RequestID, name string, delta int64) error {
	if id == (cleave.RequestID{}) {
		return fmt.Errorf("%w: counter: no request id: use one of NewRequestID, or Add", cleave.ErrOptions)
	}
	s, err := c.getState(ctx, name)
	if err != nil {
		return err
	}
	began := c.opts.Now()
	err = c.addOnce(ctx, id, s, delta)
	s.addTime.Add(int64(c.opts.Now().Sub(began)))
	s.adds.Add(1)
	return err
}

func (c *Counters) addOnce(ctx context.Context, id cleave.RequestID, s *counterState, delta int64) error {
	v := s.view.Load()
	i := int(id[requestPartByte])
	if i > 0 {
		var key []byte
		if i < len(v.partKeys) {
			key = v.partKeys[i]
		} else {
			key = c.layout.Part(s.name, i)
		}
		if err := c.addToOpenPart(ctx, key, delta, id); !errors.Is(err, cleave.ErrNotStored) {
			return err
		}
	}
	_, err := c.keyspace.AddOnce(ctx, id, v.partKeys[0], delta)
	return err
}

// Write adds to a counter together with other writes: all of it or nothing. fill puts
// these into a batch, and is called again if the counter has changed meanwhile, so it must
// do nothing else. Errors are those of cleave.DB.Write: cleave.ErrNotStored, say, if a
// condition of fill's does not hold. With a Batch.Request a retry is harmless; then fill
// must write something, and the same key first each time, which the request is kept by.
func (c *Counters) Write(ctx context.Context, name string, delta int64, fill func(b *cleave.Batch)) error {
	s, err := c.getState(ctx, name)
	if err != nil {
		return err
	}
	v := s.view.Load()
	for tries := 0; ; tries++ {
		b := &cleave.Batch{}
		fill(b)
		if b.Len() == 0 && b.Request != (cleave.RequestID{}) {
			return fmt.Errorf("%w: counter: a batch with a Request that writes nothing: use AddOnce", cleave.ErrOptions)
		}
		i := 0
		if tries < 2 {
			i = pickPart(len(v.partKeys))
		}
		b.AddWith(c.keyspace, v.partKeys[i], delta, cleave.AddOptions{IfPresent: i > 0})
		err := c.db.Write(ctx, b)
		if i == 0 || !errors.Is(err, cleave.ErrNotStored) {
			return err
		}
		// The part may have been closed, or a condition of fill's does not hold. If
		// the manifest is still the same one, the part was open all the time.
		old := v
		if v, err = c.refreshView(ctx, s); err != nil {
			return err
		}
		if v.version == old.version {
			return fmt.Errorf("write with counter %.40q: %w", name, cleave.ErrNotStored)
		}
	}
}
