package feed

import (
	"errors"
	"slices"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/wal"
	"github.com/cleavekv/cleave/partition"
)

// Reader is how far somebody has come with the logs of several stores.
type Reader struct {
	// At is a place in the log of each store: all before it was told.
	At []wal.Position
	// To is where to end, nil for never.
	To []wal.Position
	// MaxCommits and MaxBytes bound what is read at a time, unless one commit is larger.
	MaxCommits, MaxBytes int
}

// Ended tells whether nothing more of a store is wanted.
func (r *Reader) Ended(store int) bool { return r.To != nil && r.At[store] >= r.To[store] }

// AtEnd tells whether nothing more of any store is.
func (r *Reader) AtEnd() bool {
	for i := range r.At {
		if !r.Ended(i) {
			return false
		}
	}
	return r.To != nil
}

// Waits tells whether a range that was handed over has a past that was not told yet. What
// is behind the end of another store is not wanted, and nobody waits for it.
//
// Two stores never wait for each other: a note is written when what it points to is
// there, so that of two notes one points to what was there before the other.
func (r *Reader) Waits(h Handed) bool {
	return h.Store < len(r.At) && r.At[h.Store] < wal.Position(h.Position) && !r.Ended(h.Store) &&
		!plant.Bug("feed-new-owner-first")
}

// Log is the log of a store, see [store.Store.Feed].
type Log interface {
	Feed(from wal.Position, visit func(store.Committed) error) (wal.Position, error)
}

// Commit is what one commit to a store has changed, as T, with its place.
type Commit[T any] struct {
	Change T
	// End is the place behind it: what the reader is at when it was told.
	End wal.Position
}

var errEnough = errors.New("feed: enough for now")

// Read returns the next commits of a store. Operations on rows, but for those that a job
// has carried, are added to what they are commits of; check, if it fails, ends the
// reading. The reader stays where it is, see [Tell], but if there is nothing to tell. With
// an error come the commits before it.
func Read[T any](r *Reader, from int, log Log, check func() error, add func(*T, effect.Op) error) (batch []Commit[T], err error) {
	size := 0
	end, err := log.Feed(r.At[from], func(c store.Committed) error {
		if err := check(); err != nil {
			return err
		}
		if n := len(batch); n == 0 || batch[n-1].End != c.Pos {
			// Behind a whole commit is a good place to stop.
			past := r.To != nil && c.Pos > r.To[from]
			if past && n == 0 {
				r.At[from] = max(r.At[from], r.To[from]) // where no commit ends: all before it was told
			}
			if past || n >= r.MaxCommits || size >= r.MaxBytes {
				return errEnough
			}
			batch = append(batch, Commit[T]{End: c.Pos})
		}
		change := &batch[len(batch)-1].Change
		var carried []partition.Span
		for _, op := range c.Batch.All() {
			size += len(op.Key) + len(op.Value)
			if s, ok := Carried(op); ok && !plant.Bug("feed-tells-copies") {
				carried = append(carried, s)
				continue
			}
			if h, ok := HandedOver(op); ok && r.Waits(h) {
				batch = batch[:len(batch)-1]
				return errEnough // what happened to the range before comes first
			}
			if op.Key[0] != byte(effect.Rows) || within(carried, op.Key[1:]) {
				continue
			}
			if err := add(change, op); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case err == nil && len(batch) == 0:
		// A log may end behind its last commit, and nobody may ever commit to it again.
		if r.To != nil {
			end = min(end, r.To[from])
		}
		r.At[from] = max(r.At[from], end)
	case errors.Is(err, errEnough):
		err = nil
	case err != nil && len(batch) > 0:
		batch = batch[:len(batch)-1] // it may not be whole: it comes again
	}
	return batch, err
}

// Tell tells commits of a store, one after the other, until it is told to stop: then it
// returns false. While one is told the reader is behind it, and before the next.
func Tell[T any](r *Reader, from int, batch []Commit[T], tell func(*T) bool) bool {
	for i := range batch {
		r.At[from] = batch[i].End
		if plant.Bug("feed-place-ahead") {
			r.At[from] = batch[len(batch)-1].End
		}
		if !tell(&batch[i].Change) {
			return false
		}
	}
	return true
}

func within(spans []partition.Span, p partition.Position) bool {
	return slices.ContainsFunc(spans, func(s partition.Span) bool { return s.Contains(p) })
}
