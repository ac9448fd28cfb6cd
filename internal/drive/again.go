package drive

import (
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/wal"
)

// again knows which keys of a span the log names again, and where last. When much of
// the log is behind, as after a copy, most keys that are written often are in it many
// times, and only the last of these need be carried.
//
// What is left out is named again behind, in what the source has synced before any of
// it is brought: whoever goes on brings it, this driver or another.
type again struct {
	job     own.Job
	attempt uint64
	// from and upto are the places between which the log was looked at.
	from, upto uint64
	last       map[string]uint64
}

const (
	// againBytes is how much log there has to be for a look at it, by default: less is
	// carried faster than looked at.
	againBytes = 2 * mover.RoundBytes
	// againRoom bounds the memory for keys, and keyRoom is what one takes beside its
	// own bytes.
	againRoom = 16 << 20
	keyRoom   = 64
)

// lookAhead reads the log behind a place, for the keys in a span.
func (r *Carrier) lookAhead(source *store.Store, x mover.CatchUp, after uint64) (again, error) {
	a := again{job: x.Job, attempt: x.Attempt, from: after, upto: after, last: map[string]uint64{}}
	room := againRoom
	_, err := source.Feed(wal.Position(after), func(e store.Committed) error {
		if room < 0 {
			return errEnough
		}
		a.upto = uint64(e.Pos)
		mover.Keys(e.Batch, x.Span, func(key []byte) {
			if _, ok := a.last[string(key)]; !ok {
				room -= len(key) + keyRoom
			}
			a.last[string(key)] = a.upto
		})
		r.rest()
		return nil
	})
	return a, lost(err)
}

// lost gives errors of a feed the words of package mover; enough is none.
func lost(err error) error {
	switch {
	case errors.Is(err, errEnough):
		return nil
	case errors.Is(err, store.ErrGone):
		return fmt.Errorf("%w: %w", mover.ErrGone, err)
	}
	return err
}

// covers tells whether the log behind a place was looked at, for a copy.
func (a *again) covers(job own.Job, attempt, after uint64) bool {
	return a.last != nil && a.job == job && a.attempt == attempt && a.from <= after && after < a.upto
}

// skips returns which keys of an entry need not be carried: those that the log names
// again, up to a place at which the destination is to be like the source.
func (a *again) skips(pos, until uint64) func(key []byte) bool {
	if a == nil || a.upto > until {
		return nil
	}
	return func(key []byte) bool {
		if plant.Bug("drive-newest-left-out") {
			return a.last[string(key)] >= pos
		}
		return a.last[string(key)] > pos
	}
}

// ahead returns what is known of the log behind a place, after a look if there is much
// of it. The Carrier has forgotten it until the load was brought: what a source has not
// synced it may lose.
func (r *Carrier) ahead(from Place, x mover.CatchUp, after uint64) (*again, error) {
	a := r.again
	r.again = again{}
	if a.covers(x.Job, x.Attempt, after) {
		return &a, nil
	}
	enough := r.LookAhead
	if enough == 0 {
		enough = againBytes
	}
	if x.Until > 0 || from.Store.Behind(wal.Position(after)) < enough {
		return nil, nil // a range that takes no writes waits for nothing but rows
	}
	a, err := r.lookAhead(from.Store, x, after)
	return &a, err
}

// known returns what is known of the log behind a place without a look.
func (r *Carrier) known(x mover.Verify, after uint64) *again {
	a := r.again
	r.again = again{}
	if !a.covers(x.Job, x.Attempt, after) {
		return nil
	}
	return &a
}
