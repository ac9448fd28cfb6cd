package counter

import (
	"context"
	"errors"
	"fmt"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/plant"
)

// requestPart is the byte of a request id that names the part it is for. It is one of
// those that are random otherwise.
const requestPart = 6

// NewRequestID returns an id for AddOnce on a counter. One of cleave.DB.NewRequestID does
// too, but then the add may take two steps.
func (c *Counters) NewRequestID(ctx context.Context, name string) (cleave.RequestID, error) {
	s, err := c.of(ctx, name)
	if err != nil {
		return cleave.RequestID{}, err
	}
	id := c.db.NewRequestID()
	id[requestPart] = byte(pick(len(s.view.Load().keys)))
	return id, nil
}

// AddOnce is Add with a request id: a retry with the same one does not add again. Ids
// are remembered for cleave.Options.Remember. It is refused with cleave.ErrOverflow if
// its part has no room for delta.
//
// The id names a part, and where the add is made depends on nothing else: that part, or
// if it was closed then, part 0. That it was closed is remembered as well, so that a
// retry takes the same way though the part is open again.
func (c *Counters) AddOnce(ctx context.Context, id cleave.RequestID, name string, delta int64) error {
	if id == (cleave.RequestID{}) {
		return fmt.Errorf("%w: counter: no request id: use one of NewRequestID, or Add", cleave.ErrOptions)
	}
	s, err := c.of(ctx, name)
	if err != nil {
		return err
	}
	began := c.opts.Now()
	err = c.addOnce(ctx, id, s, delta)
	s.waited.Add(int64(c.opts.Now().Sub(began)))
	s.adds.Add(1)
	return err
}

func (c *Counters) addOnce(ctx context.Context, id cleave.RequestID, s *state, delta int64) error {
	v := s.view.Load()
	i := int(id[requestPart])
	if plant.Bug("counter-once-follows-the-count") {
		i %= len(v.keys)
	}
	if i > 0 {
		var key []byte
		if i < len(v.keys) {
			key = v.keys[i]
		} else {
			key = c.layout.part(s.name, i)
		}
		if err := c.addToPart(ctx, key, delta, id); !errors.Is(err, cleave.ErrNotStored) {
			return err
		}
	}
	_, err := c.space.AddOnce(ctx, id, v.keys[0], delta)
	return err
}

// Write adds to a counter together with other writes: all of it or nothing. fill puts
// these into a batch, and is called again if the counter has changed meanwhile, so it must
// do nothing else. Errors are those of cleave.DB.Write: cleave.ErrNotStored, say, if a
// condition of fill's does not hold. With a Batch.Request a retry is harmless; then fill
// must write something, and the same key first each time, which the request is kept by.
func (c *Counters) Write(ctx context.Context, name string, delta int64, fill func(b *cleave.Batch)) error {
	s, err := c.of(ctx, name)
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
			i = pick(len(v.keys))
		}
		b.AddWith(c.space, v.keys[i], delta, cleave.AddOptions{IfPresent: i > 0})
		err := c.db.Write(ctx, b)
		if i == 0 || !errors.Is(err, cleave.ErrNotStored) {
			return err
		}
		// The part may have been closed, or a condition of fill's does not hold. If
		// the manifest is still the same one, the part was open all the time.
		old := v
		if v, err = c.refresh(ctx, s); err != nil {
			return err
		}
		if v.version == old.version {
			return fmt.Errorf("write with counter %.40q: %w", name, cleave.ErrNotStored)
		}
	}
}
