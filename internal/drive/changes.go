package drive

import (
	"bytes"
	"cmp"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/wal"
	"github.com/cleavekv/cleave/partition"
)

// follower knows which rows of a span have changed at the source since it was first asked:
// these are brought as they are now, once, however often they were written. It is a
// memory: where it does not go back far enough, the log does.
type follower struct {
	changes *store.Changes
	source  *store.Store
	span    partition.Span
}

// followBytes is how much memory it takes at most.
const followBytes = 128 << 20

// follow begins, if it has not.
func (f *follower) follow(source *store.Store, s partition.Span) {
	if f.source == source && bytes.Equal(f.span.Start, s.Start) && bytes.Equal(f.span.End, s.End) {
		return
	}
	f.Close()
	f.source, f.span = source, s
	f.changes = source.Follow(func(key []byte) bool { return mover.Moves(key, s) }, followBytes)
}

// Locate answers a mover.Locate about a span. What changes behind the place is known from now on.
func (f *follower) Locate(find Find, x mover.Locate, s partition.Span) mover.Event {
	from, err := find(x.From)
	if err != nil {
		return mover.Failed{Round: x.Round, Err: err}
	}
	f.follow(from.Store, s)
	return mover.Located{Round: x.Round, Position: uint64(from.Store.Position())}
}

// Close forgets everything. The follower can be used again.
func (f *follower) Close() {
	if f.changes != nil {
		f.changes.Close()
	}
	*f = follower{}
}

// forget forgets what is at the destination, and stays there whoever crashes.
func (f *follower) forget(upto uint64) { f.changes.Forget(wal.Position(upto)) }

// Changed returns how many bytes the rows have that have changed since, if that is known.
func (f *follower) Changed() (bytes int64, known bool) {
	if f.changes == nil {
		return 0, false
	}
	_, known = f.changes.Since()
	return f.changes.Bytes(), known
}

// Left returns about how many bytes are still to be brought to a destination that is at a
// place, and stays there whoever crashes. Own tells that these are of the range for the most
// part; carried is how much was since it was at the place before.
func (f *follower) Left(source *store.Store, before, upto, carried uint64) (left int64, own bool) {
	if f.source == source {
		f.forget(upto)
		if since, ok := f.changes.Since(); ok && uint64(since) <= upto {
			return f.changes.Bytes(), true
		}
	}
	left = source.Behind(wal.Position(upto))
	return left, 2*int64(carried) > source.Behind(wal.Position(before))-left
}

// advance adds what brings the destination nearer to a place at which the source is, about
// limit bytes of it. More tells that it goes on.
func (l *Load) advance(from *store.Store, c mover.Ingest, place uint64, limit int) (more bool, err error) {
	changes := l.carrier.changes
	if more, ok, err := l.known(from, c, place, limit); ok {
		return more, err
	}
	// The log up to where changes are known, if that is not too late.
	until := uint64(noEnd)
	since, ok := changes.Since()
	if ok {
		until = uint64(since)
	}
	more, err = l.feed(from, c, until, limit)
	return more || ok && uint64(since) < place, err
}

// reach adds what brings the destination to a place, at which side shows the source, or if
// that is too much at once, nearer to it. More tells that it goes on.
func (l *Load) reach(from *store.Store, side command.Reader, c mover.Ingest, place uint64) (more bool, err error) {
	limit := cmp.Or(l.carrier.atOnce, noLimit)
	if more, ok, err := l.known(side, c, place, limit); ok {
		return more, err
	}
	return l.feed(from, c, place, limit)
}

// known adds rows as a side of the source has them at a place, about limit bytes of those
// that have changed, if these are known. More tells that it goes on.
func (l *Load) known(side command.Reader, c mover.Ingest, place uint64, limit int) (more, ok bool, err error) {
	rows, more, ok := l.carrier.changes.Next(wal.Position(c.After), int64(limit))
	if !ok {
		return false, false, nil
	}
	if more && !plant.Bug("drive-some-changes-taken-for-all") {
		place = min(place, uint64(rows[len(rows)-1].At))
	}
	return more, true, l.changed(side, c, rows, place)
}

// changed adds rows as a side of the source has them, in the order in which they have
// changed last. A destination that has them all is at the place.
//
// It is at the place of the last of some, too, though it lacks what was changed before
// and again later: that comes with the later change, from here or from the log.
func (l *Load) changed(side command.Reader, c mover.Ingest, rows []store.Change, place uint64) error {
	into := new(effect.Builder)
	var value []byte
	c.Upto = c.After
	for i, row := range rows {
		at := min(uint64(row.At), place) // it has changed again
		if at != c.Upto && into.Size() > l.piece {
			if err := l.add(c, into); err != nil {
				return err
			}
			c.After, into = c.Upto, new(effect.Builder)
		}
		c.Upto = at
		v, found, err := side.Get(row.Key, value[:0])
		if err != nil {
			return err
		}
		if value = v; found {
			into.Put(row.Key, value)
		} else {
			into.Delete(row.Key)
		}
		if i%gentleRows == gentleRows-1 {
			l.carrier.rest()
		}
	}
	if c.Upto = place; c.After < c.Upto {
		return l.add(c, into)
	}
	return nil
}
