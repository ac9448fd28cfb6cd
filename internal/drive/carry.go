package drive

import (
	"context"
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/feed"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/wal"
	"github.com/cleavekv/cleave/partition"
)

// Carrier reads for one job at its source. It is one driver's, who does one thing at a
// time; the zero value works.
type Carrier struct {
	// Rest, if set, is called again and again while rows are carried, after some work
	// of a tenth of a millisecond or so.
	Rest    func()
	atOnce  int // about how many bytes a Verify brings at most, noLimit unless it is set
	touched touched
	follower
}

// Load is what was read at the source of a job for its destination.
type Load struct {
	carrier    *Carrier
	piece      int // about how many bytes a piece has
	round      uint64
	to         partition.GroupID
	span       partition.Span
	ingests    []mover.Ingest // in the order in which they are brought
	rows, size uint64
	// exact tells that the destination must be where it was when this was read: what
	// another driver brings there may be newer than what it is to be compared with.
	exact bool
	// finish says what the job hears, once all is at the destination, which is at
	// upto then.
	finish func(to Place, upto uint64) mover.Event
}

// Read reads at the source what a Copy, CatchUp or Verify wants brought to the
// destination. [Load.Bring] does the rest, here or elsewhere, now or later.
func (r *Carrier) Read(find Find, x mover.Effect) (Load, error) {
	switch x := x.(type) {
	case mover.Copy:
		return r.readCopy(find, x)
	case mover.CatchUp:
		return r.readLog(find, x)
	case mover.Verify:
		return r.readBoth(find, x)
	}
	return Load{}, fmt.Errorf("drive: %T carries nothing", x)
}

// Bring brings what was read to the destination, piece by piece, so that commands of
// others need not wait for all of it, and returns what the job hears.
func (l Load) Bring(ctx context.Context, find Find) mover.Event {
	to, err := find(l.to)
	if err != nil {
		return mover.Failed{Round: l.round, Err: err}
	}
	if l.exact && len(l.ingests) > 0 {
		if r, _ := to.Group.List().One(l.span); r.Upto != l.ingests[0].After {
			return mover.Failed{Round: l.round, Err: errFaster}
		}
	}
	upto := uint64(0)
	for _, c := range l.ingests { // a copy: it may be brought twice
		reply, err := to.Group.Try(ctx, group.Request{Command: &noting{&c, feed.CarriedKey(l.span)}})
		if err == nil {
			err = reply.Err
		}
		if err != nil {
			return mover.Failed{Round: l.round, Err: err}
		}
		upto = uint64(reply.Int)
		l.carrier.rest()
	}
	return l.finish(to, upto)
}

// pieces is in how many a load is brought: each takes its group some tenths of a
// millisecond. It is fewer for a range that takes no writes: they cost a write to the
// log each.
const pieces, frozenPieces = 64, 4

func (r *Carrier) rest() {
	if r.Rest != nil {
		r.Rest()
	}
}

func (r *Carrier) readCopy(find Find, x mover.Copy) (Load, error) {
	from, err := find(x.From)
	if err != nil {
		return Load{}, err
	}
	r.follow(from.Store, x.Span)
	l := Load{carrier: r, piece: x.LimitBytes / pieces, round: x.Round, to: x.To, span: x.Span}
	for next := x.Cursor; ; {
		var into effect.Builder
		if next, err = mover.ReadChunk(gentle{from.Store, r.rest}, x.Span, next, l.piece, &into); err != nil {
			return l, err
		}
		c := mover.Ingest{Job: x.Job, Attempt: x.Attempt, Span: x.Span, After: x.Base, Upto: x.Base}
		if err := l.add(c, &into); err != nil {
			return l, err
		}
		if len(next) > 0 && l.size < uint64(x.LimitBytes) {
			continue
		}
		l.finish = func(Place, uint64) mover.Event {
			return mover.Copied{Round: x.Round, Next: next, Rows: l.rows, Bytes: l.size}
		}
		return l, nil
	}
}

func (r *Carrier) readLog(find Find, x mover.CatchUp) (Load, error) {
	from, after, err := bothEnds(find, x.From, x.To, x.Span, x.Upto)
	if err != nil {
		return Load{}, err
	}
	r.follow(from.Store, x.Span)
	l := Load{carrier: r, piece: x.LimitBytes / pieces, round: x.Round, to: x.To, span: x.Span}
	if x.Until > 0 {
		l.piece = x.LimitBytes / frozenPieces
	}
	c := mover.Ingest{Job: x.Job, Attempt: x.Attempt, Span: x.Span, After: after}
	r.forget(x.Upto)
	more, err := l.advance(from.Store, c, uint64(from.Store.Position()), x.LimitBytes)
	if err != nil {
		return l, err
	}
	r.touched.follow(&l)
	l.finish = func(_ Place, came uint64) mover.Event {
		return mover.CaughtUp{Round: x.Round, Upto: max(after, came), More: more, Rows: l.rows, Bytes: l.size}
	}
	return l, nil
}

// readBoth sums the source up, and reads what the destination lacks to be at the same
// place. All of it is summed up in a snapshot. Single rows are of a range that takes
// no writes, so they can be read as they are now, which is faster.
func (r *Carrier) readBoth(find Find, x mover.Verify) (Load, error) {
	from, after, err := bothEnds(find, x.From, x.To, x.Span, x.Upto)
	if err != nil {
		return Load{}, err
	}
	r.follow(from.Store, x.Span)
	var source command.Reader = from.Store
	place := uint64(from.Store.Position())
	if x.Since == 0 {
		snap, err := from.Store.Snapshot()
		if err != nil {
			return Load{}, err
		}
		defer snap.Close()
		source, place = snap, uint64(snap.Position())
	}
	l := Load{carrier: r, piece: mover.RoundBytes / pieces, round: x.Round, to: x.To, span: x.Span, exact: true}
	c := mover.Ingest{Job: x.Job, Attempt: x.Attempt, Span: x.Span, After: after}
	more, err := l.reach(from.Store, source, c, place)
	if err != nil {
		return l, err
	}
	r.touched.follow(&l)
	if more {
		l.finish = func(Place, uint64) mover.Event { return mover.Failed{Round: x.Round, Err: errMore} }
		return l, nil
	}
	sum, err := r.summer(from.Store, x, place)
	if err != nil {
		return l, err
	}
	want, err := sum(source)
	if err != nil {
		return l, err
	}
	if x.Since == 0 {
		r.touched.begin(x, place)
	}
	l.finish = func(to Place, _ uint64) mover.Event {
		ev, err := compare(to, x, place, want, sum)
		if err != nil {
			return mover.Failed{Round: x.Round, Err: err}
		}
		ev.Rows, ev.Bytes = l.rows, l.size
		return ev
	}
	return l, nil
}

// sums are of all tables of a span, or of the keys that the log names.
type sums struct {
	all  mover.Digests
	some mover.Digest
}

// summer returns how to sum a side up for a Verify.
func (r *Carrier) summer(source *store.Store, x mover.Verify, place uint64) (func(command.Reader) (sums, error), error) {
	if x.Since == 0 {
		return func(side command.Reader) (s sums, err error) {
			s.all, err = mover.Sum(gentle{side, r.rest}, x.Span)
			return s, err
		}, nil
	}
	t := &r.touched
	if !t.covers(x, place) {
		t.begin(x, x.Since)
		l := Load{carrier: r}
		if _, err := l.feed(source, mover.Ingest{Span: x.Span, After: x.Since}, place, noLimit); err != nil {
			return nil, err
		}
		t.follow(&l)
	}
	keys := t.sorted()
	return func(side command.Reader) (s sums, err error) {
		s.some, err = mover.SumKeys(side, keys)
		return s, err
	}, nil
}

// errMore means that a destination was only brought nearer to where it is to be compared.
var errMore = errors.New("drive: more has changed than is brought at once: try again")

// errFaster means that a destination is not where it was brought to.
var errFaster = errors.New("drive: another driver has brought the range further: try again")

// compare sums the destination up, if it is at the place of the source.
func compare(to Place, x mover.Verify, place uint64, want sums, sum func(command.Reader) (sums, error)) (mover.Verified, error) {
	var dest command.Reader = to.Store
	if x.Since == 0 {
		snap, err := to.Store.Snapshot()
		if err != nil {
			return mover.Verified{}, err
		}
		defer snap.Close()
		dest = snap
	}
	got, err := sum(dest)
	if err != nil {
		return mover.Verified{}, err
	}
	// The range only goes forward: at this place now, it was not behind it then,
	// and it was brought there before.
	if r, ok := to.Group.List().One(x.Span); !ok || r.Job != x.Job || r.Attempt != x.Attempt || r.Upto != place {
		return mover.Verified{}, errFaster
	}
	rows := uint64(0)
	for _, d := range want.all {
		rows += d.Rows
	}
	return mover.Verified{Round: x.Round, Upto: place, Equal: got == want, Compared: rows + want.some.Rows}, nil
}

// bothEnds returns the source, and the place in its log that the destination has
// come to.
func bothEnds(find Find, from, to partition.GroupID, s partition.Span, upto uint64) (Place, uint64, error) {
	source, err := find(from)
	if err != nil {
		return Place{}, 0, err
	}
	dest, err := find(to)
	if err != nil {
		return Place{}, 0, err
	}
	r, _ := dest.Group.List().One(s)
	return source, max(r.Upto, upto), nil
}

// A feed with these takes all that there is, up to a GiB at a time.
const (
	noEnd   = 1 << 63
	noLimit = 1 << 30
)

// errEnough ends a look at the feed.
var errEnough = errors.New("drive: enough")

// feed adds what the log has about the span of an ingest behind its place, up to
// another or until that is about limit bytes. More tells that it goes on.
func (l *Load) feed(from *store.Store, c mover.Ingest, until uint64, limit int) (more bool, err error) {
	into, picked := new(effect.Builder), 0
	c.Upto = c.After // the end of the last frame: frames are taken whole
	pos, err := from.Feed(wal.Position(c.After), func(e store.Committed) error {
		p := uint64(e.Pos)
		if p > until {
			return errEnough
		}
		if p != c.Upto && picked > 0 && into.Size() > l.piece {
			if err := l.add(c, into); err != nil {
				return err
			}
			if more = l.size > uint64(limit); more {
				return errEnough
			}
			c.After, into, picked = c.Upto, new(effect.Builder), 0
		}
		c.Upto = p
		picked += mover.Pick(e.Batch, c.Span, into)
		l.carrier.rest()
		return nil
	})
	switch {
	case errors.Is(err, errEnough):
		err = nil
	case errors.Is(err, store.ErrGone):
		err = fmt.Errorf("%w: %w", mover.ErrGone, err)
	}
	if err != nil || more {
		return more, err
	}
	if c.Upto = uint64(pos); until != noEnd {
		c.Upto = until // there is nothing in between
	}
	if c.After < c.Upto {
		err = l.add(c, into)
	}
	return false, err
}

// add adds an ingest with what was read for it.
func (l *Load) add(c mover.Ingest, b *effect.Builder) (err error) {
	if c.Rows, err = effect.Parse(b.Bytes()); err != nil {
		return err
	}
	l.ingests = append(l.ingests, c)
	if n := c.Rows.Len(); n > 0 {
		l.rows += uint64(n)
		l.size += uint64(b.Size())
	}
	return nil
}
