package protocol

import (
	"context"
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/internal/reshard/feed"
	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

// Copier reads at the source of one job. It belongs to one driver, which does one thing at a
// time; the zero value works.
type Copier struct {
	// Yield, if set, is called again and again while rows are copied, after some work of a tenth
	// of a millisecond or so.
	Yield            func()
	verifyLimitBytes int // about how many bytes a Verify copies at most, noLimit unless it is set
	sample           keySample
	changeTracker
}

// Chunk is what was read at the source of a job for its destination.
type Chunk struct {
	copier          *Copier
	ingestBytes     int // about how many bytes a piece has
	round           uint64
	to              partition.GroupID
	span            partition.Span
	ingests         []mover.Ingest // in the order in which they are applied
	rows, sizeBytes uint64
	// needsSamePosition means that the destination must be where it was when this was read: what
	// another driver has applied there may be newer than what it is to be compared with.
	needsSamePosition bool
	// makeEvent returns the event for the job, once all is at the destination, which is at
	// upto then.
	makeEvent func(to GroupHost, upto uint64) mover.Event
}

// ReadChunk reads at the source what a Copy, CatchUp or Verify wants copied to the destination.
// [Chunk.Apply] does the rest, here or elsewhere, now or later.
func (r *Copier) ReadChunk(find Finder, x mover.Effect) (Chunk, error) {
	switch x := x.(type) {
	case mover.Copy:
		return r.readCopy(find, x)
	case mover.CatchUp:
		return r.readCatchUp(find, x)
	case mover.Verify:
		return r.readVerify(find, x)
	}
	return Chunk{}, fmt.Errorf("protocol: %T carries nothing", x)
}

// Apply writes what was read to the destination, piece by piece, so that commands of others need
// not wait for all of it, and returns the event for the job.
func (l Chunk) Apply(ctx context.Context, find Finder) mover.Event {
	to, err := find(l.to)
	if err != nil {
		return mover.Failed{Round: l.round, Err: err}
	}
	if l.needsSamePosition && len(l.ingests) > 0 {
		if r, _ := to.Group.OwnershipTable().FindContaining(l.span); r.CopiedUpTo != l.ingests[0].After {
			return mover.Failed{Round: l.round, Err: errDestinationMoved}
		}
	}
	upto := uint64(0)
	for _, c := range l.ingests { // a copy: it may be applied twice
		reply, err := to.Group.Execute(ctx, group.Request{NoWait: true, Command: &annotatedCommand{&c, feed.CopiedSpanKey(l.span)}})
		if err == nil {
			err = reply.Err
		}
		if err != nil {
			return mover.Failed{Round: l.round, Err: err}
		}
		upto = uint64(reply.Int)
		l.copier.maybeYield()
	}
	return l.makeEvent(to, upto)
}

// ingestsPerChunk is in how many pieces a chunk is applied: each takes its group some tenths of
// a millisecond. There are fewer for a range that takes no writes: each costs a write to the
// log.
const ingestsPerChunk, frozenIngestsPerChunk = 64, 4

func (r *Copier) maybeYield() {
	if r.Yield != nil {
		r.Yield()
	}
}

func (r *Copier) readCopy(find Finder, x mover.Copy) (Chunk, error) {
	from, err := find(x.From)
	if err != nil {
		return Chunk{}, err
	}
	r.trackChanges(from.Store, x.Span)
	l := Chunk{copier: r, ingestBytes: x.LimitBytes / ingestsPerChunk, round: x.Round, to: x.To, span: x.Span}
	for next := x.Cursor; ; {
		var into effect.Builder
		if next, err = mover.ReadChunk(yieldingReader{from.Store, r.maybeYield}, x.Span, next, l.ingestBytes, &into); err != nil {
			return l, err
		}
		c := mover.Ingest{Job: x.Job, Attempt: x.Attempt, Span: x.Span, After: x.BasePosition, UpTo: x.BasePosition}
		if err := l.addIngest(c, &into); err != nil {
			return l, err
		}
		if len(next) > 0 && l.sizeBytes < uint64(x.LimitBytes) {
			continue
		}
		l.makeEvent = func(GroupHost, uint64) mover.Event {
			return mover.Copied{Round: x.Round, Next: next, Rows: l.rows, Bytes: l.sizeBytes}
		}
		return l, nil
	}
}

func (r *Copier) readCatchUp(find Finder, x mover.CatchUp) (Chunk, error) {
	from, after, err := findEnds(find, x.From, x.To, x.Span, x.CopiedUpTo)
	if err != nil {
		return Chunk{}, err
	}
	r.trackChanges(from.Store, x.Span)
	l := Chunk{copier: r, ingestBytes: x.LimitBytes / ingestsPerChunk, round: x.Round, to: x.To, span: x.Span}
	if x.Until > 0 {
		l.ingestBytes = x.LimitBytes / frozenIngestsPerChunk
	}
	c := mover.Ingest{Job: x.Job, Attempt: x.Attempt, Span: x.Span, After: after}
	r.discardUpTo(x.CopiedUpTo)
	more, err := l.addCatchUp(from.Store, c, uint64(from.Store.Position()), x.LimitBytes)
	if err != nil {
		return l, err
	}
	r.sample.addChunk(&l)
	l.makeEvent = func(_ GroupHost, came uint64) mover.Event {
		return mover.CaughtUp{Round: x.Round, CopiedUpTo: max(after, came), More: more, Rows: l.rows, Bytes: l.sizeBytes}
	}
	return l, nil
}

// readVerify sums the source up, and reads what the destination lacks to be at the same
// place. All of it is summed up in a snapshot. Single rows are of a range that takes
// no writes, so they can be read as they are now, which is faster.
func (r *Copier) readVerify(find Finder, x mover.Verify) (Chunk, error) {
	from, after, err := findEnds(find, x.From, x.To, x.Span, x.CopiedUpTo)
	if err != nil {
		return Chunk{}, err
	}
	r.trackChanges(from.Store, x.Span)
	var source command.Reader = from.Store
	place := uint64(from.Store.Position())
	if x.Since == 0 {
		snap, err := from.Store.Snapshot()
		if err != nil {
			return Chunk{}, err
		}
		defer snap.Close()
		source, place = snap, uint64(snap.Position())
	}
	l := Chunk{copier: r, ingestBytes: mover.RoundBytes / ingestsPerChunk, round: x.Round, to: x.To, span: x.Span, needsSamePosition: true}
	c := mover.Ingest{Job: x.Job, Attempt: x.Attempt, Span: x.Span, After: after}
	more, err := l.addUpTo(from.Store, source, c, place)
	if err != nil {
		return l, err
	}
	r.sample.addChunk(&l)
	if more {
		l.makeEvent = func(GroupHost, uint64) mover.Event { return mover.Failed{Round: x.Round, Err: errTooManyChanges} }
		return l, nil
	}
	sum, err := r.prepareChecksum(from.Store, x, place)
	if err != nil {
		return l, err
	}
	want, err := sum(source)
	if err != nil {
		return l, err
	}
	if x.Since == 0 {
		r.sample.resetAt(x, place)
	}
	l.makeEvent = func(to GroupHost, _ uint64) mover.Event {
		ev, err := compareDestination(to, x, place, want, sum)
		if err != nil {
			return mover.Failed{Round: x.Round, Err: err}
		}
		ev.Rows, ev.Bytes = l.rows, l.sizeBytes
		return ev
	}
	return l, nil
}

// checksums are of all tables of a span, or of the keys that the log names.
type checksums struct {
	tables mover.TableDigests
	keys   mover.Digest
}

// prepareChecksum returns how to sum a side up for a Verify.
func (r *Copier) prepareChecksum(source *store.Store, x mover.Verify, place uint64) (func(command.Reader) (checksums, error), error) {
	if x.Since == 0 {
		return func(side command.Reader) (s checksums, err error) {
			s.tables, err = mover.SumSpan(yieldingReader{side, r.maybeYield}, x.Span)
			return s, err
		}, nil
	}
	t := &r.sample
	if !t.coversVerify(x, place) {
		t.resetAt(x, x.Since)
		l := Chunk{copier: r}
		if _, err := l.addFromLog(source, mover.Ingest{Span: x.Span, After: x.Since}, place, noLimit); err != nil {
			return nil, err
		}
		t.addChunk(&l)
	}
	keys := t.sortedKeys()
	return func(side command.Reader) (s checksums, err error) {
		s.keys, err = mover.SumKeys(side, keys)
		return s, err
	}, nil
}

// errTooManyChanges means that a destination has only come nearer to where it is to be compared.
var errTooManyChanges = errors.New("protocol: more has changed than is brought at once: try again")

// errDestinationMoved means that a destination is not at the expected position.
var errDestinationMoved = errors.New("protocol: another driver has brought the range further: try again")

// compareDestination sums the destination up, if it is at the place of the source.
func compareDestination(to GroupHost, x mover.Verify, place uint64, want checksums, sum func(command.Reader) (checksums, error)) (mover.Verified, error) {
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
	// The range only goes forward: at this position now, it was not behind it then, and it was
	// copied up to there before.
	if r, ok := to.Group.OwnershipTable().FindContaining(x.Span); !ok || r.Job != x.Job || r.Attempt != x.Attempt || r.CopiedUpTo != place {
		return mover.Verified{}, errDestinationMoved
	}
	rows := uint64(0)
	for _, d := range want.tables {
		rows += d.Rows
	}
	return mover.Verified{Round: x.Round, CopiedUpTo: place, Equal: got == want, ComparedRows: rows + want.keys.Rows}, nil
}

// findEnds returns the source, and the place in its log that the destination has
// come to.
func findEnds(find Finder, from, to partition.GroupID, s partition.Span, upto uint64) (GroupHost, uint64, error) {
	source, err := find(from)
	if err != nil {
		return GroupHost{}, 0, err
	}
	dest, err := find(to)
	if err != nil {
		return GroupHost{}, 0, err
	}
	r, _ := dest.Group.OwnershipTable().FindContaining(s)
	return source, max(r.CopiedUpTo, upto), nil
}

// A feed with these takes all that there is, up to a GiB at a time.
const (
	noEndPosition = 1 << 63
	noLimit       = 1 << 30
)

// errStopFeed ends a read of the feed.
var errStopFeed = errors.New("protocol: enough")

// yieldingReader reads what a job needs, and rests every few rows.
type yieldingReader struct {
	command.Reader
	yield func()
}

// rowsPerYield is how many rows are read before that: a moment's work.
const rowsPerYield = 32

// Scan rests every few rows.
func (r yieldingReader) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	n := 0
	return r.Reader.Scan(start, end, reverse, func(key, value []byte) bool {
		if n++; n%rowsPerYield == 0 {
			r.yield()
		}
		return visit(key, value)
	})
}
