package protocol

import (
	"bytes"
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/partition"
)

// changeTracker knows which rows of a span have changed at the source since it was first asked:
// these are copied as they are now, once, however often they were written. It is a memory: where
// it does not go back far enough, the log does.
type changeTracker struct {
	changes *store.ChangeTracker
	source  *store.Store
	span    partition.Span
}

// maxTrackedBytes is how much memory it takes at most.
const maxTrackedBytes = 128 << 20

// trackChanges begins, if it has not.
func (f *changeTracker) trackChanges(source *store.Store, s partition.Span) {
	if f.source == source && bytes.Equal(f.span.Start, s.Start) && bytes.Equal(f.span.End, s.End) {
		return
	}
	f.Close()
	f.source, f.span = source, s
	f.changes = source.TrackChanges(func(key []byte) bool { return mover.IsSpanRow(key, s) }, maxTrackedBytes)
}

// Locate answers a mover.Locate about a span. What changes behind the place is known from now on.
func (f *changeTracker) Locate(find Finder, x mover.Locate, s partition.Span) mover.Event {
	from, err := find(x.From)
	if err != nil {
		return mover.Failed{Round: x.Round, Err: err}
	}
	f.trackChanges(from.Store, s)
	return mover.Located{Round: x.Round, Position: uint64(from.Store.Position())}
}

// Close forgets everything. The follower can be used again.
func (f *changeTracker) Close() {
	if f.changes != nil {
		f.changes.Close()
	}
	*f = changeTracker{}
}

// discardUpTo forgets what is at the destination, and stays there whichever side crashes.
func (f *changeTracker) discardUpTo(upto uint64) { f.changes.Forget(wal.Position(upto)) }

// ChangedBytes returns how many bytes the rows have that have changed since, if that is known.
func (f *changeTracker) ChangedBytes() (bytes int64, known bool) {
	if f.changes == nil {
		return 0, false
	}
	_, known = f.changes.Since()
	return f.changes.Bytes(), known
}

// RemainingBytes returns about how many bytes are still to be copied to a destination that is at
// a position, and stays there whichever side crashes. own reports whether most of these are of
// the range; carried is how much was copied since the destination was at before.
func (f *changeTracker) RemainingBytes(source *store.Store, before, upto, carried uint64) (left int64, own bool) {
	if f.source == source {
		f.discardUpTo(upto)
		if since, ok := f.changes.Since(); ok && uint64(since) <= upto {
			return f.changes.Bytes(), true
		}
	}
	left = source.LogBytesAfter(wal.Position(upto))
	return left, 2*int64(carried) > source.LogBytesAfter(wal.Position(before))-left
}

// addCatchUp adds what takes the destination nearer to a position at which the source is, about
// limit bytes of it. more reports whether it goes on.
func (l *Chunk) addCatchUp(from *store.Store, c mover.Ingest, place uint64, limit int) (more bool, err error) {
	changes := l.copier.changes
	if more, ok, err := l.addTrackedChanges(from, c, place, limit); ok {
		return more, err
	}
	// The log up to where changes are known, if that is not too late.
	until := uint64(noEndPosition)
	since, ok := changes.Since()
	if ok {
		until = uint64(since)
	}
	more, err = l.addFromLog(from, c, until, limit)
	return more || ok && uint64(since) < place, err
}

// addUpTo adds what takes the destination to a position, at which side shows the source, or if
// that is too much at once, nearer to it. More reports whether it goes on.
func (l *Chunk) addUpTo(from *store.Store, side command.Reader, c mover.Ingest, place uint64) (more bool, err error) {
	limit := cmp.Or(l.copier.verifyLimitBytes, noLimit)
	if more, ok, err := l.addTrackedChanges(side, c, place, limit); ok {
		return more, err
	}
	return l.addFromLog(from, c, place, limit)
}

// addTrackedChanges adds rows as a side of the source has them at a place, about limit bytes of those
// that have changed, if these are known. More reports whether it goes on.
func (l *Chunk) addTrackedChanges(side command.Reader, c mover.Ingest, place uint64, limit int) (more, ok bool, err error) {
	rows, more, ok := l.copier.changes.Next(wal.Position(c.After), int64(limit))
	if !ok {
		return false, false, nil
	}
	if more {
		place = min(place, uint64(rows[len(rows)-1].At))
	}
	return more, true, l.addChangedRows(side, c, rows, place)
}

// addChangedRows adds rows as a side of the source has them, in the order in which they have
// changed last. A destination that has them all is at the place.
//
// It is at the place of the last of some, too, though it lacks what was changed before
// and again later: that comes with the later change, from here or from the log.
func (l *Chunk) addChangedRows(side command.Reader, c mover.Ingest, rows []store.Change, place uint64) error {
	into := new(effect.Builder)
	var value []byte
	c.UpTo = c.After
	for i, row := range rows {
		at := min(uint64(row.At), place) // it has changed again
		if at != c.UpTo && into.Size() > l.ingestBytes {
			if err := l.addIngest(c, into); err != nil {
				return err
			}
			c.After, into = c.UpTo, new(effect.Builder)
		}
		c.UpTo = at
		v, found, err := side.Get(row.Key, value[:0])
		if err != nil {
			return err
		}
		if value = v; found {
			into.Put(row.Key, value)
		} else {
			into.Delete(row.Key)
		}
		if i%rowsPerYield == rowsPerYield-1 {
			l.copier.maybeYield()
		}
	}
	if c.UpTo = place; c.After < c.UpTo {
		return l.addIngest(c, into)
	}
	return nil
}

// maxSampledKeys is how many rows are compared while a range takes no writes. A store
// finds that many in a few milliseconds.
const maxSampledKeys = 2048

// keySample remembers which rows of a range were copied to a destination since both sides were
// found to have the same, so that they can be compared again before the range changes hands. Of
// more than a few thousand it remembers a sample, in which each is as likely to be as any other.
//
// It is the memory of one driver of one job. Where it is lost, the log is read.
type keySample struct {
	job     ownership.JobID
	attempt uint64
	// since and upto are the places in the log between which all rows were seen.
	since, upto uint64
	// keys are those with the smallest hashes, the largest of them first: which rows
	// these are does not depend on how often one is written.
	keys   sampleHeap
	hashes map[uint64]bool
}

// resetAt forgets all: both sides are the same at a place.
func (t *keySample) resetAt(x mover.Verify, place uint64) {
	*t = keySample{job: x.Job, attempt: x.Attempt, since: place, upto: place, hashes: map[uint64]bool{}}
}

// addChunk sees what was read of the log.
func (t *keySample) addChunk(l *Chunk) {
	if t.since == 0 || len(l.ingests) == 0 || l.ingests[0].After > t.upto {
		return
	}
	for i := range l.ingests {
		c := &l.ingests[i]
		for _, op := range c.Rows.All() {
			t.addKey(op.Key)
		}
		t.upto = max(t.upto, c.UpTo)
	}
}

func (t *keySample) addKey(key []byte) {
	h := xxh3.HashSeed(key, uint64(t.job))
	if len(t.keys) == maxSampledKeys && h >= t.keys[0].hash || t.hashes[h] {
		return
	}
	if len(t.keys) == maxSampledKeys {
		delete(t.hashes, t.keys[0].hash)
		heap.Pop(&t.keys)
	}
	heap.Push(&t.keys, sampledKey{h, bytes.Clone(key)})
	t.hashes[h] = true
}

// coversVerify reports whether all rows were seen that a Verify at a place is about.
func (t *keySample) coversVerify(x mover.Verify, place uint64) bool {
	return t.job == x.Job && t.attempt == x.Attempt && t.since == x.Since && t.upto >= place
}

func (t *keySample) sortedKeys() [][]byte {
	var keys [][]byte
	for _, k := range t.keys {
		keys = append(keys, k.key)
	}
	slices.SortFunc(keys, bytes.Compare)
	return keys
}

// sampledKey is a store key.
type sampledKey struct {
	hash uint64
	key  []byte
}

// sampleHeap is a heap with the largest hash on top.
type sampleHeap []sampledKey

func (s sampleHeap) Len() int           { return len(s) }
func (s sampleHeap) Less(i, j int) bool { return s[i].hash > s[j].hash }
func (s sampleHeap) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *sampleHeap) Push(x any)        { *s = append(*s, x.(sampledKey)) }
func (s *sampleHeap) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	*s = (*s)[:last]
	return x
}

// addFromLog adds what the log has about the span of an ingest behind its place, up to
// another or until that is about limit bytes. More reports whether it goes on.
func (l *Chunk) addFromLog(from *store.Store, c mover.Ingest, until uint64, limit int) (more bool, err error) {
	into, picked := new(effect.Builder), 0
	c.UpTo = c.After // the end of the last frame: frames are taken whole
	pos, err := from.Feed(wal.Position(c.After), func(e store.FeedEntry) error {
		p := uint64(e.Pos)
		if p > until {
			return errStopFeed
		}
		if p != c.UpTo && picked > 0 && into.Size() > l.ingestBytes {
			if err := l.addIngest(c, into); err != nil {
				return err
			}
			if more = l.sizeBytes > uint64(limit); more {
				return errStopFeed
			}
			c.After, into, picked = c.UpTo, new(effect.Builder), 0
		}
		c.UpTo = p
		picked += mover.AppendSpanOps(e.Batch, c.Span, into)
		l.copier.maybeYield()
		return nil
	})
	switch {
	case errors.Is(err, errStopFeed):
		err = nil
	case errors.Is(err, store.ErrGone):
		err = fmt.Errorf("%w: %w", mover.ErrGone, err)
	}
	if err != nil || more {
		return more, err
	}
	if c.UpTo = uint64(pos); until != noEndPosition {
		c.UpTo = until // there is nothing in between
	}
	if c.After < c.UpTo {
		err = l.addIngest(c, into)
	}
	return false, err
}

// addIngest adds an ingest with what was read for it.
func (l *Chunk) addIngest(c mover.Ingest, b *effect.Builder) (err error) {
	if c.Rows, err = effect.Parse(b.Bytes()); err != nil {
		return err
	}
	l.ingests = append(l.ingests, c)
	if n := c.Rows.Len(); n > 0 {
		l.rows += uint64(n)
		l.sizeBytes += uint64(b.Size())
	}
	return nil
}
