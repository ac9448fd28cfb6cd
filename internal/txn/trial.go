package txn

import (
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/partition"
)

// try validates a part and evaluates its writes, without doing them, and takes
// their versions. What it fails with is the lock that is in the way, if there is
// one: until it is gone nobody knows what the rest means.
func (s *Site) try(e *command.Env, id ID, p *Part) (touched, error) {
	s.notes = notes{from: e, locks: s.locks}
	defer func() { s.notes = notes{} }()
	c := &command.Commit{Reads: p.Reads, Ranges: p.Ranges, Writes: command.Batch{Commands: p.Writes}}
	if plant.Bug("txn-digest-by-newest-version") {
		c.Ranges = s.notes.ignoreDeletes(p.Ranges)
	}
	s.trial.Begin(effect.Header{ClockMS: e.NowMS()}, e.NextVersion())
	err := s.trial.Do(c).Err
	batch, bad := effect.Parse(s.trial.Effects().Bytes())
	if bad != nil {
		return touched{}, bad
	}
	t, bad := gather(&s.notes, batch)
	switch {
	case bad == nil && err != nil && len(t.locks) == 0:
		bad = err // it was refused before it touched anything
	case bad == nil:
		bad = t.check(p.Span)
	}
	if bad != nil {
		return touched{}, bad
	}
	if lock := s.conflict(id, &t); lock != nil {
		return touched{}, &LockedError{Lock: *lock}
	}
	if err == nil {
		err = s.held(id, &t)
	}
	if err == nil {
		err = command.CheckTxn(len(t.locks), s.trial.Effects().Size())
	}
	if err != nil {
		return touched{}, err
	}
	e.UseVersions(s.trial.NextVersion())
	return t, nil
}

// conflict returns a lock of another transaction that is in the way of what a
// part has touched.
func (s *Site) conflict(id ID, t *touched) *Lock {
	if s.locks.Len() == 0 {
		return nil
	}
	if s.notes.outlived != nil {
		return s.notes.outlived
	}
	for i := range t.locks {
		lock := &t.locks[i].lock
		var other *Lock
		switch {
		case lock.Range:
			other = s.locks.Span(id, lock.Start, lock.End)
		case plant.Bug("txn-write-ignores-read-locks"):
			other = s.locks.Key(id, lock.Start, false)
		default:
			other = s.locks.Key(id, lock.Start, lock.Write)
		}
		if other != nil && (lock.Write || !plant.Bug("txn-validation-ignores-intents")) {
			return other
		}
	}
	return nil
}

// held tells whether another transaction comes first. Locks come before that:
// those who have them do not wait for anybody.
func (s *Site) held(id ID, t *touched) error {
	if s.holds.Len() == 0 {
		return nil
	}
	for i := range t.locks {
		lock := &t.locks[i].lock
		if err := s.holds.Check(id, Claim{Span: lock.Span(), Write: lock.Write}); err != nil {
			return err
		}
	}
	return nil
}

// notes is the state as a part sees it, with a note of all that it looks at. So
// what has to be locked is known, whatever the commands are: also of one that
// writes nothing because of what it has read.
type notes struct {
	from  *command.Env
	locks *Locks
	keys  []partition.Position // of rows: keys, and elements behind them
	spans []partition.Span
	// outlived is a lock under which a row was found that has expired since the
	// lock was taken: its owner still counts on the row.
	outlived *Lock
}

// Get implements [command.Reader].
func (n *notes) Get(key, dst []byte) ([]byte, bool, error) {
	value, ok, err := n.from.Get(key, dst)
	if err == nil && key[0] == byte(effect.Rows) {
		n.keys = append(n.keys, clonePosition(key[1:]))
		if ok {
			n.look(key[1:], value)
		}
	}
	return value, ok, err
}

// Scan implements [command.Reader].
func (n *notes) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	if start[0] != byte(effect.Rows) {
		return n.from.Scan(start, end, reverse, visit)
	}
	span := partition.Span{Start: clonePosition(start[1:])}
	if end[0] == start[0] {
		span.End = clonePosition(end[1:])
	}
	n.spans = append(n.spans, span)
	return n.from.Scan(start, end, reverse, func(key, value []byte) bool {
		n.look(key[1:], value)
		return visit(key, value)
	})
}

// look notes a row that is dead now but was alive when it was locked.
func (n *notes) look(p partition.Position, value []byte) {
	if n.locks.Len() == 0 {
		return
	}
	row, err := command.DecodeRow(value)
	if err != nil || row.Alive(n.from.NowMS()) || plant.Bug("txn-locked-rows-expire") {
		return
	}
	if lock := n.locks.first(p); lock != nil && row.Alive(lock.PrepareMS) {
		n.outlived = lock
	}
}

// ignoreDeletes is a bug to plant: a range is taken for unchanged if nothing in
// it is newer, and a delete leaves nothing newer.
func (n *notes) ignoreDeletes(ranges []command.RangeRead) (kept []command.RangeRead) {
	for _, r := range ranges {
		d, err := command.DigestRange(n, r.Start, r.End, command.AliveAt(n.from.NowMS()))
		if err != nil || d.Keys() >= r.Digest.Keys() {
			kept = append(kept, r)
		}
	}
	return kept
}
