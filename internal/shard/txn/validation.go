package txn

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// tryParticipant validates a part, evaluates its writes without applying them, and takes their
// versions. If a lock is in the way, that lock is the error: until it is gone, what the rest
// means is unknown.
func (s *Site) tryParticipant(e *command.Env, id ID, p *Participant) (lockSet, error) {
	s.recorder = recordingReader{env: e, locks: s.locks}
	defer func() { s.recorder = recordingReader{} }()
	c := &command.Commit{Reads: p.Reads, Ranges: p.Ranges, Writes: command.Batch{Commands: p.Writes}}
	s.trialEnv.RecordEvents(e.RecordsEvents())
	s.trialEnv.Begin(effect.Header{ClockMS: e.NowMS()}, e.NextVersion())
	err := s.trialEnv.Do(c).Err
	batch, bad := effect.Parse(s.trialEnv.Effects().Bytes())
	if bad != nil {
		return lockSet{}, bad
	}
	t, bad := collectLocks(&s.recorder, batch)
	switch {
	case bad == nil && err != nil && len(t.entries) == 0:
		bad = err // it was refused before it touched anything
	case bad == nil:
		bad = t.checkInside(p.Span)
	}
	if bad != nil {
		return lockSet{}, bad
	}
	if lock := s.findConflict(id, &t); lock != nil {
		return lockSet{}, &LockedError{Lock: *lock}
	}
	if err == nil {
		err = s.checkReserved(id, &t)
	}
	if err == nil {
		err = command.CheckTxn(0, s.trialEnv.Effects().Size()) // keys were counted as it was evaluated
	}
	if err != nil {
		return lockSet{}, err
	}
	e.RaiseNextVersion(s.trialEnv.NextVersion())
	return t, nil
}

// findConflict returns a lock of another transaction that is in the way of what a
// part has touched.
func (s *Site) findConflict(id ID, t *lockSet) *Lock {
	if s.locks.Len() == 0 {
		return nil
	}
	if s.recorder.expiredLock != nil {
		return s.recorder.expiredLock
	}
	for i := range t.entries {
		lock := &t.entries[i].lock
		var other *Lock
		switch {
		case lock.Range:
			other = s.locks.FindSpanConflict(id, lock.Start, lock.End)
		default:
			other = s.locks.FindKeyConflict(id, lock.Start, lock.Write)
		}
		if other != nil {
			return other
		}
	}
	return nil
}

// checkReserved reports whether another transaction comes first. Locks come before that: a
// transaction that has locks does not wait for another.
func (s *Site) checkReserved(id ID, t *lockSet) error {
	if s.reservations.Len() == 0 {
		return nil
	}
	for i := range t.entries {
		lock := &t.entries[i].lock
		if err := s.reservations.Check(id, ReservedSpan{Span: lock.Span(), Write: lock.Write}); err != nil {
			return err
		}
	}
	return nil
}

// recordingReader is the state as a part sees it, with a note of all that it reads. So
// what has to be locked is known, whatever the commands are: also of one that
// writes nothing because of what it has read.
type recordingReader struct {
	env   *command.Env
	locks *Locks
	keys  []partition.Position // of rows: keys, and elements behind them
	spans []partition.Span
	// expiredLock is a lock under which a row was found that has expired since the
	// lock was taken: its owner still counts on the row.
	expiredLock *Lock
}

// Get implements [command.Reader].
func (n *recordingReader) Get(key, dst []byte) ([]byte, bool, error) {
	value, ok, err := n.env.Get(key, dst)
	if err == nil && key[0] == byte(effect.Rows) {
		n.keys = append(n.keys, clonePosition(key[1:]))
		if ok {
			n.recordIfExpired(key[1:], value)
		}
	}
	return value, ok, err
}

// Scan implements [command.Reader].
func (n *recordingReader) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	if start[0] != byte(effect.Rows) {
		return n.env.Scan(start, end, reverse, visit)
	}
	span := partition.Span{Start: clonePosition(start[1:])}
	if end[0] == start[0] {
		span.End = clonePosition(end[1:])
	}
	n.spans = append(n.spans, span)
	return n.env.Scan(start, end, reverse, func(key, value []byte) bool {
		n.recordIfExpired(key[1:], value)
		return visit(key, value)
	})
}

// recordIfExpired notes a row that is dead now but was alive when it was locked.
func (n *recordingReader) recordIfExpired(p partition.Position, value []byte) {
	if n.locks.Len() == 0 {
		return
	}
	row, err := command.DecodeRow(value)
	if err != nil || row.IsAlive(n.env.NowMS()) {
		return
	}
	if lock := n.locks.findOldest(p); lock != nil && row.IsAlive(lock.PrepareMS) {
		n.expiredLock = lock
	}
}

// lockSet is what a part reads and writes, in order.
type lockSet struct{ entries []lockEntry }

// lockEntry is a key or range, with the effects of a key that is written.
type lockEntry struct {
	lock    Lock
	effects effect.Builder
}

// rowAccess is a row that was read, or is to be changed.
type rowAccess struct {
	position partition.Position
	// effectIndex is the number of the effect on it, -1 if there is none.
	effectIndex int
}

// collectLocks finds the keys that rows belong to. The position of no key begins with that of
// another, and a command that reads an element also reads, or changes, its key: so in the order
// of positions each key comes before its elements, and what begins with the last key belongs to
// it.
func collectLocks(n *recordingReader, batch effect.Batch) (lockSet, error) {
	places := make([]rowAccess, 0, len(n.keys)+batch.Len())
	for _, p := range n.keys {
		places = append(places, rowAccess{p, -1})
	}
	for i, op := range batch.All() {
		places = append(places, rowAccess{op.Key[1:], i})
	}
	slices.SortStableFunc(places, func(a, b rowAccess) int { return bytes.Compare(a.position, b.position) })
	t := lockSet{}
	keys := make([]int, batch.Len()) // of each effect, the number of its key
	var at *lockEntry
	for _, x := range places {
		if at == nil || !bytes.HasPrefix(x.position, at.lock.Start) {
			if !bytes.HasSuffix(x.position, keySuffix) {
				return t, fmt.Errorf("%w: it touches %q, which is no key", ErrBadParticipant, []byte(x.position))
			}
			t.entries = append(t.entries, lockEntry{lock: Lock{Start: clonePosition(x.position)}})
			at = &t.entries[len(t.entries)-1]
		}
		if x.effectIndex >= 0 {
			at.lock.Write = true
			keys[x.effectIndex] = len(t.entries) - 1
		}
	}
	// In the order in which they were made: so the feed delivers them, and the fields of a hash
	// that were written before it was deleted must not come after.
	for i, op := range batch.All() {
		appendOp(&t.entries[keys[i]].effects, op)
	}
	t.addRanges(n.spans)
	return t, nil
}

func appendOp(b *effect.Builder, op effect.Op) {
	if op.Delete {
		b.Delete(op.Key)
	} else {
		b.Put(op.Key, op.Value)
	}
}

// addRanges adds what was scanned, but for elements of a key: those are locked
// with it. Ranges that meet become one.
func (t *lockSet) addRanges(spans []partition.Span) {
	keys := t.entries
	slices.SortFunc(spans, func(a, b partition.Span) int { return bytes.Compare(a.Start, b.Start) })
	var at *Lock
	for _, s := range spans {
		if s.Empty() || isElementSpan(keys, s) {
			continue
		}
		switch {
		case at == nil || len(at.End) > 0 && bytes.Compare(at.End, s.Start) < 0:
			t.entries = append(t.entries, lockEntry{lock: Lock{Range: true, Start: s.Start, End: s.End}})
			at = &t.entries[len(t.entries)-1].lock
		case len(s.End) == 0 || len(at.End) > 0 && bytes.Compare(at.End, s.End) < 0:
			at.End = s.End
		}
	}
}

// isElementSpan reports whether a span is one of elements of a key.
func isElementSpan(keys []lockEntry, s partition.Span) bool {
	i, _ := slices.BinarySearchFunc(keys, s.Start, func(c lockEntry, p partition.Position) int {
		return bytes.Compare(c.lock.Start, p)
	})
	// The key of elements comes before them, with no other in between.
	return i > 0 && bytes.HasPrefix(s.Start, keys[i-1].lock.Start) && bytes.HasPrefix(s.End, keys[i-1].lock.Start)
}

// checkInside refuses what is not inside of the part.
func (t *lockSet) checkInside(s partition.Span) error {
	if len(t.entries) == 0 {
		return fmt.Errorf("%w: it touches nothing: leave it out", ErrBadParticipant)
	}
	for i := range t.entries {
		switch lock := &t.entries[i].lock; {
		case !s.Contains(lock.Start):
			return newOutsideError(lock.Start, s)
		case lock.Range && len(s.End) > 0 && (len(lock.End) == 0 || bytes.Compare(lock.End, s.End) > 0):
			return newOutsideError(lock.End, s)
		case lock.Range && !lock.isRecordIn(s):
			return newOutsideError(lock.RecordPosition(), s) // no resolve would end it
		}
	}
	return nil
}
