package drive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/wal"
	"github.com/cleavekv/cleave/partition"
)

// Load is what was read at the source of a job for its destination.
type Load struct {
	round  uint64
	to     partition.GroupID
	span   partition.Span
	ingest *mover.Ingest // nil if there is nothing to bring
	size   uint64
	// finish says what the job hears, once all is at the destination, which is at
	// upto then.
	finish func(to Place, upto uint64) mover.Event
}

// Read reads at the source what a Copy, CatchUp or Verify wants brought to the
// destination. [Load.Bring] does the rest, here or elsewhere, now or later.
func Read(find Find, x mover.Effect) (Load, error) {
	switch x := x.(type) {
	case mover.Copy:
		return readCopy(find, x)
	case mover.CatchUp:
		return readLog(find, x)
	case mover.Verify:
		return readBoth(find, x)
	}
	return Load{}, fmt.Errorf("drive: %T carries nothing", x)
}

// Bring brings what was read to the destination and returns what the job hears.
func (l Load) Bring(ctx context.Context, find Find) mover.Event {
	to, err := find(l.to)
	upto := uint64(0)
	if err == nil && l.ingest != nil {
		c := *l.ingest // it may be brought twice
		var reply command.Reply
		if reply, err = to.Group.Try(ctx, group.Request{Command: &noting{&c, carriedKey(l.span)}}); err == nil {
			err = reply.Err
		}
		upto = uint64(reply.Int)
	}
	if err != nil {
		return mover.Failed{Round: l.round, Err: err}
	}
	return l.finish(to, upto)
}

func readCopy(find Find, x mover.Copy) (Load, error) {
	from, err := find(x.From)
	if err != nil {
		return Load{}, err
	}
	var into effect.Builder
	next, err := mover.ReadChunk(from.Store, x.Span, x.Cursor, x.LimitBytes, &into)
	if err != nil {
		return Load{}, err
	}
	l := Load{round: x.Round, to: x.To, span: x.Span}
	l.ingest = &mover.Ingest{Job: x.Job, Attempt: x.Attempt, Span: x.Span, After: x.Base, Upto: x.Base}
	if err := l.take(&into); err != nil {
		return l, err
	}
	rows := uint64(l.ingest.Rows.Len())
	l.finish = func(Place, uint64) mover.Event {
		return mover.Copied{Round: x.Round, Next: next, Rows: rows, Bytes: l.size}
	}
	return l, nil
}

func readLog(find Find, x mover.CatchUp) (Load, error) {
	from, after, err := bothEnds(find, x.From, x.To, x.Span, x.Upto)
	if err != nil {
		return Load{}, err
	}
	limit := x.LimitBytes
	if x.Until > after {
		limit = max(limit, frozenLimit)
	}
	into, upto, more, err := feed(from.Store, x.Span, after, noEnd, limit)
	if err != nil {
		return Load{}, err
	}
	l := Load{round: x.Round, to: x.To, span: x.Span}
	rows := uint64(0)
	if upto > after {
		l.ingest = &mover.Ingest{Job: x.Job, Attempt: x.Attempt, Span: x.Span, After: after, Upto: upto}
		if err := l.take(into); err != nil {
			return l, err
		}
		rows = uint64(l.ingest.Rows.Len())
	}
	l.finish = func(_ Place, came uint64) mover.Event {
		return mover.CaughtUp{Round: x.Round, Upto: max(after, came), More: more, Rows: rows, Bytes: l.size}
	}
	return l, nil
}

// readBoth sums the source up in a snapshot, and reads what the destination lacks
// to be at the same place.
func readBoth(find Find, x mover.Verify) (Load, error) {
	from, after, err := bothEnds(find, x.From, x.To, x.Span, x.Upto)
	if err != nil {
		return Load{}, err
	}
	snap, err := from.Store.Snapshot()
	if err != nil {
		return Load{}, err
	}
	defer snap.Close()
	place := uint64(snap.Position())
	into, _, _, err := feed(from.Store, x.Span, after, place, noLimit)
	if err != nil {
		return Load{}, err
	}
	sum, err := summer(from.Store, x, place)
	if err != nil {
		return Load{}, err
	}
	want, err := sum(snap)
	if err != nil {
		return Load{}, err
	}
	l := Load{round: x.Round, to: x.To, span: x.Span}
	if place > after {
		l.ingest = &mover.Ingest{Job: x.Job, Attempt: x.Attempt, Span: x.Span, After: after, Upto: place}
		if err := l.take(into); err != nil {
			return l, err
		}
	}
	l.finish = func(to Place, _ uint64) mover.Event {
		ev, err := compare(to, x, place, want, sum)
		if err != nil {
			return mover.Failed{Round: x.Round, Err: err}
		}
		ev.Bytes = l.size
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
func summer(source *store.Store, x mover.Verify, place uint64) (func(command.Reader) (sums, error), error) {
	if x.Since == 0 {
		return func(r command.Reader) (s sums, err error) {
			s.all, err = mover.Sum(r, x.Span)
			return s, err
		}, nil
	}
	touched, _, _, err := feed(source, x.Span, x.Since, place, noLimit)
	if err != nil {
		return nil, err
	}
	batch, err := effect.Parse(touched.Bytes())
	if err != nil {
		return nil, err
	}
	var keys [][]byte
	for _, op := range batch.All() {
		keys = append(keys, bytes.Clone(op.Key))
	}
	slices.SortFunc(keys, bytes.Compare)
	keys = slices.CompactFunc(keys, bytes.Equal)
	return func(r command.Reader) (s sums, err error) {
		s.some, err = mover.SumKeys(r, keys)
		return s, err
	}, nil
}

// errFaster means that a destination is not where it was brought to.
var errFaster = errors.New("drive: another driver has brought the range further: try again")

// compare sums the destination up, if it is at the place of the snapshot.
func compare(to Place, x mover.Verify, place uint64, want sums, sum func(command.Reader) (sums, error)) (mover.Verified, error) {
	snap, err := to.Store.Snapshot()
	if err != nil {
		return mover.Verified{}, err
	}
	defer snap.Close()
	got, err := sum(snap)
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
	return mover.Verified{Round: x.Round, Upto: place, Equal: got == want, Rows: rows + want.some.Rows}, nil
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

// frozenLimit is how much of the log is brought at a time to a range that takes no
// writes: what is left is little, or somebody should look at the time in between.
const frozenLimit = 4 << 20

// errEnough ends a look at the feed.
var errEnough = errors.New("drive: enough")

// feed reads what the log has about a span behind a place, up to another or until
// it has about limit bytes.
func feed(from *store.Store, s partition.Span, after, until uint64, limit int) (into *effect.Builder, upto uint64, more bool, err error) {
	into = &effect.Builder{}
	last := uint64(0) // the frame of the last entry: frames are taken whole
	pos, err := from.Feed(wal.Position(after), func(c store.Committed) error {
		if p := uint64(c.Pos); p > until || into.Size() > limit && p != last {
			more = p <= until
			return errEnough
		}
		last = uint64(c.Pos)
		mover.Pick(c.Batch, s, into)
		return nil
	})
	switch {
	case errors.Is(err, errEnough):
		err = nil
	case errors.Is(err, store.ErrGone):
		err = fmt.Errorf("%w: %w", mover.ErrGone, err)
	}
	return into, uint64(pos), more, err
}

// take makes what was read the rows of the ingest.
func (l *Load) take(b *effect.Builder) error {
	batch, err := effect.Parse(bytes.Clone(b.Bytes()))
	if l.ingest.Rows = batch; batch.Len() > 0 {
		l.size = uint64(b.Size())
	}
	return err
}
