// Package feed orders what was committed, for a reader of the logs of several stores.
//
// Promise: every commit of a store is delivered once, whole and in its order, and those to one
// key in theirs, wherever it is moved. What a job does to rows is not delivered: it changes no
// data. A reader that goes on from a position that it has stored gets what it has not received.
//
// Choice: a range that comes from another store comes with a note in the log: the position in
// the log of that store up to which the range has its past. A reader that meets the note before
// it has come so far leaves the store for now, and reads the other.
//
// Limit: commits to different stores that have no key in common come in any order.
//
// Package cleave turns commits into changes; the simulator plays readers.
package feed

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/partition"
)

// Reader is how far a reader has come in the logs of several stores.
type Reader struct {
	// Positions is a position in the log of each store: all before it was delivered.
	Positions []wal.Position
	// Until is where to end, nil for never.
	Until []wal.Position
	// MaxCommits and MaxBytes bound what is read at a time, unless one commit is larger.
	MaxCommits, MaxBytes int
	// KeyEvents means that operations of [effect.Events] are added, and those on rows are not.
	KeyEvents bool
}

// IsStoreDone reports whether nothing more of a store is wanted.
func (r *Reader) IsStoreDone(store int) bool {
	return r.Until != nil && r.Positions[store] >= r.Until[store]
}

// IsDone reports whether nothing more of any store is.
func (r *Reader) IsDone() bool {
	for i := range r.Positions {
		if !r.IsStoreDone(i) {
			return false
		}
	}
	return r.Until != nil
}

// MustWaitFor reports whether a range that was handed over has a past that was not delivered
// yet. What is behind the end of another store is not wanted, and not waited for.
//
// Two stores never wait for each other: a note is written when what it points to is
// there, so that of two notes one points to what was there before the other.
func (r *Reader) MustWaitFor(h Handover) bool {
	return h.Store < len(r.Positions) && r.Positions[h.Store] < wal.Position(h.Position) && !r.IsStoreDone(h.Store)
}

// Log is the log of a store, see [store.Store.Feed].
type Log interface {
	Feed(from wal.Position, visit func(store.FeedEntry) error) (wal.Position, error)
}

// Commit is what one commit to a store has changed, as T, with its place.
type Commit[T any] struct {
	Change T
	// End is the place behind it: where the reader is when it was delivered.
	End wal.Position
}

var errBatchFull = errors.New("feed: enough for now")

// ReadBatch returns the next commits of a store. Operations on rows, or events, except those
// that a job has copied, are added to what they are commits of; check, if it fails, ends the
// reading. The reader stays where it is, see [Deliver], unless there is nothing to deliver. With
// an error come the commits before it.
func ReadBatch[T any](r *Reader, from int, log Log, check func() error, add func(*T, effect.Op) error) (batch []Commit[T], err error) {
	size, table := 0, effect.Rows
	if r.KeyEvents {
		table = effect.Events
	}
	end, err := log.Feed(r.Positions[from], func(c store.FeedEntry) error {
		if err := check(); err != nil {
			return err
		}
		if n := len(batch); n == 0 || batch[n-1].End != c.Pos {
			// Behind a whole commit is a good place to stop.
			past := r.Until != nil && c.Pos > r.Until[from]
			if past && n == 0 {
				r.Positions[from] = max(r.Positions[from], r.Until[from]) // where no commit ends: all before it was delivered
			}
			if past || n >= r.MaxCommits || size >= r.MaxBytes {
				return errBatchFull
			}
			batch = append(batch, Commit[T]{End: c.Pos})
		}
		change := &batch[len(batch)-1].Change
		var carried []partition.Span
		for _, op := range c.Batch.All() {
			size += len(op.Key) + len(op.Value)
			if s, ok := ParseCopiedSpan(op); ok {
				carried = append(carried, s)
				continue
			}
			if h, ok := ParseHandover(op); ok && r.MustWaitFor(h) {
				batch = batch[:len(batch)-1]
				return errBatchFull // what happened to the range before comes first
			}
			if op.Key[0] != byte(table) || isInSpans(carried, op.Key[1:]) {
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
		// A log may end behind its last commit, and there may never be another.
		if r.Until != nil {
			end = min(end, r.Until[from])
		}
		r.Positions[from] = max(r.Positions[from], end)
	case errors.Is(err, errBatchFull):
		err = nil
	case err != nil && len(batch) > 0:
		batch = batch[:len(batch)-1] // it may not be whole: it comes again
	}
	return batch, err
}

// Deliver calls visit with the commits of a store, one after the other, until visit returns false:
// then Deliver returns false. During a call the reader is behind that commit, and before the
// next.
func Deliver[T any](r *Reader, from int, batch []Commit[T], visit func(*T) bool) bool {
	for i := range batch {
		r.Positions[from] = batch[i].End
		if !visit(&batch[i].Change) {
			return false
		}
	}
	return true
}

func isInSpans(spans []partition.Span, p partition.Position) bool {
	return slices.ContainsFunc(spans, func(s partition.Span) bool { return s.Contains(p) })
}

// A note is the deletion of a row that never was: it is in the log, in the batch that it
// is about, and leaves nothing in the store. It comes before the rows that it is about.

// Note tags, behind the table of a group's own state.
const (
	copiedTag   = 'c'
	handoverTag = 'h'
)

// CopiedSpanKey is the note that rows of a span were written, or removed, by a job.
func CopiedSpanKey(s partition.Span) []byte {
	key := binary.AppendUvarint([]byte{byte(effect.State), copiedTag}, uint64(len(s.Start)))
	return append(append(key, s.Start...), s.End...)
}

// ParseCopiedSpan returns the span of which an entry of the log writes or removes rows that a
// job has copied, if the operation is a note of that.
func ParseCopiedSpan(op effect.Op) (s partition.Span, ok bool) {
	rest, ok := parseNote(op, copiedTag)
	if !ok {
		return s, false
	}
	n, size := binary.Uvarint(rest)
	if size <= 0 || n > uint64(len(rest)-size) {
		return s, false
	}
	rest = rest[size:]
	return partition.Span{Start: rest[:n], End: rest[n:]}, true
}

// Handover is the note that a range comes from another store: what became of its keys before
// is in the log of that one, up to a position.
type Handover struct {
	Store    int
	Position uint64
}

// Key is the note of it.
func (h Handover) Key() []byte {
	key := binary.AppendUvarint([]byte{byte(effect.State), handoverTag}, uint64(h.Store))
	return binary.AppendUvarint(key, h.Position)
}

// ParseHandover returns where a range comes from that begins to be served with an entry
// of the log, if the operation is a note of that.
func ParseHandover(op effect.Op) (h Handover, ok bool) {
	rest, ok := parseNote(op, handoverTag)
	if !ok {
		return h, false
	}
	store, n := binary.Uvarint(rest)
	if n <= 0 {
		return h, false
	}
	position, m := binary.Uvarint(rest[n:])
	return Handover{Store: int(store), Position: position}, m > 0
}

func parseNote(op effect.Op, tag byte) (rest []byte, ok bool) {
	if !op.Delete || len(op.Key) < 2 || op.Key[0] != byte(effect.State) || op.Key[1] != tag {
		return nil, false
	}
	return op.Key[2:], true
}
