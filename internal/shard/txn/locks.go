package txn

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// Locks are the locks of one group, in memory. They hold what the records in the table of
// intents hold, no more and no less: the commands of this package change both, and [Locks.Load]
// reads one from the other.
//
// They change when a command is evaluated, so that the next one of the batch meets the new
// locks. The evaluating group takes back what does not become durable: see [Locks.BeginBatch].
type Locks struct {
	tree       lockTree
	txns       map[ID][]*Lock
	lockCount  int
	rangeCount int // of them are of ranges
	// journal is what has changed since Begin.
	journal []LockChange
	// markedTxns are the transactions that may have left marks here.
	markedTxns recentTxns
}

// LockChange is the addition or removal of one lock.
type LockChange struct {
	Lock  *Lock
	Added bool
}

// NewLocks returns no locks.
func NewLocks() *Locks { return &Locks{txns: map[ID][]*Lock{}} }

// Len returns how many there are.
func (l *Locks) Len() int { return l.lockCount }

// RangeCount returns how many are of ranges.
func (l *Locks) RangeCount() int { return l.rangeCount }

// Load adds the locks of a span from their records, and notes which transactions have left
// marks: when a group opens, and when a range has come to it. If mine is not nil, locks are left
// out whose records it does not answer for.
func (l *Locks) Load(r command.Reader, s partition.Span, mine func(partition.Position) bool) error {
	from, to := effect.Intents.SpanBetween(s.Start, s.End)
	var bad error
	err := r.Scan(from, to, false, func(key, value []byte) bool {
		if mine != nil && !mine(key[1:]) {
			return true
		}
		var x Intent
		if x, bad = DecodeIntent(key, value); bad != nil {
			return false
		}
		l.Add(x.Lock)
		return true
	})
	if err == nil && bad == nil {
		bad = l.loadMarks(r, s)
	}
	if err == nil {
		err = bad
	}
	if err != nil {
		return fmt.Errorf("load the locks of %v: %w", s, err)
	}
	return nil
}

// loadMarks notes which transactions have left marks in a span. Those of others do no harm.
func (l *Locks) loadMarks(r command.Reader, s partition.Span) error {
	from, to := effect.Marks.SpanBetween(s.Start, s.End)
	var bad error
	err := r.Scan(from, to, false, func(key, value []byte) bool {
		var m Mark
		var id ID
		if m, bad = DecodeMark(value); bad != nil {
			return false
		}
		if len(key) < len(id) {
			bad = fmt.Errorf("%w: a mark at %x", ErrBadRecord, key)
			return false
		}
		copy(id[:], key[len(key)-len(id):])
		l.markedTxns.add(id, m.DeadlineMS, 0)
		return true
	})
	if err == nil {
		err = bad
	}
	return err
}

// ListIn returns the locks whose records lie in a span, in the order of their starts.
// They are not to be changed.
func (l *Locks) ListIn(s partition.Span) (found []*Lock) {
	// A record may lie some zeros behind the start of its lock: see RecordPosition.
	start := bytes.TrimRight(s.Start, "\x00")
	l.tree.visitSpan(start, s.End, func(lock *Lock) {
		if lock.isRecordIn(s) {
			found = append(found, lock)
		}
	})
	return found
}

// Add adds a lock, in the place of one that its transaction has on the same key
// or from the same start.
func (l *Locks) Add(lock Lock) {
	l.Remove(lock.Txn, lock.Start, lock.Range)
	l.insertLock(&lock)
	l.journal = append(l.journal, LockChange{&lock, true})
}

// Remove removes a lock, if it is there.
func (l *Locks) Remove(id ID, start partition.Position, isRange bool) {
	if lock := l.tree.get(&Lock{Txn: id, Start: start, Range: isRange}); lock != nil {
		l.removeLock(lock)
		l.journal = append(l.journal, LockChange{lock, false})
	}
}

func (l *Locks) insertLock(lock *Lock) {
	l.tree.insert(lock)
	lock.txnIndex = len(l.txns[lock.Txn])
	l.txns[lock.Txn] = append(l.txns[lock.Txn], lock)
	l.lockCount++
	if lock.Range {
		l.rangeCount++
	}
}

// removeLock puts the last lock of the transaction where the lock was, so that
// thousands of them are not moved for each.
func (l *Locks) removeLock(lock *Lock) {
	l.tree.remove(lock)
	mine := l.txns[lock.Txn]
	last := len(mine) - 1
	mine[lock.txnIndex] = mine[last]
	mine[lock.txnIndex].txnIndex = lock.txnIndex
	mine[last] = nil
	if l.txns[lock.Txn] = mine[:last]; last == 0 {
		delete(l.txns, lock.Txn)
	}
	l.lockCount--
	if lock.Range {
		l.rangeCount--
	}
}

// BeginBatch makes what has changed so far final: the batch is durable.
func (l *Locks) BeginBatch() {
	clear(l.journal)
	l.journal = l.journal[:0]
}

// ListChanges are those since Begin, in order. They are not to be changed, and good until
// the next one.
func (l *Locks) ListChanges() []LockChange { return l.journal }

// Savepoint returns the present state for Rewind.
func (l *Locks) Savepoint() int { return len(l.journal) }

// RollbackTo takes back what has changed since mark, 0 for all since Begin: the
// command has failed, or the batch has.
func (l *Locks) RollbackTo(mark int) {
	for i := len(l.journal) - 1; i >= mark; i-- {
		if c := l.journal[i]; c.Added {
			l.removeLock(c.Lock)
		} else {
			l.insertLock(c.Lock)
		}
	}
	clear(l.journal[mark:])
	l.journal = l.journal[:mark]
}

// ApplyChanges does what others have changed since their Begin, which are the same but for
// that: so a copy keeps up with them, however many there are.
func (l *Locks) ApplyChanges(others *Locks) {
	for _, c := range others.journal {
		if lock := l.tree.get(c.Lock); lock != nil {
			l.removeLock(lock)
		}
		if c.Added {
			lock := *c.Lock
			l.insertLock(&lock)
		}
	}
}

// FindKeyConflict returns a lock of another transaction than id that a read of a key
// conflicts with, or a write, or nil.
func (l *Locks) FindKeyConflict(id ID, p partition.Position, write bool) *Lock {
	return l.tree.find(conflictQuery{exceptTxn: id, start: p, pointOnly: true, includeReads: write})
}

// FindSpanConflict returns a lock of another transaction than id that a read of a range
// conflicts with, or nil. An empty end is the end of the space.
func (l *Locks) FindSpanConflict(id ID, start, end partition.Position) *Lock {
	return l.tree.find(conflictQuery{exceptTxn: id, start: start, end: end})
}

// ExpiryCheckMS returns the time at which to check whether a key has expired: nowMS, or the time
// of the first lock on it. The transaction that locked the key saw it at that time, and must not
// be contradicted before it is decided.
func (l *Locks) ExpiryCheckMS(p partition.Position, nowMS int64) int64 {
	if lock := l.findOldest(p); lock != nil {
		return min(nowMS, lock.PrepareMS)
	}
	return nowMS
}

// ListTxn returns the locks of a transaction in the order of their starts. They are
// not to be changed.
func (l *Locks) ListTxn(id ID) []*Lock {
	mine := slices.Clone(l.txns[id])
	slices.SortFunc(mine, compareLocks)
	return mine
}

// listTxnIn returns the locks of a transaction whose records lie in a span, in the order of
// their starts. They are not to be changed.
func (l *Locks) listTxnIn(id ID, s partition.Span) (found []*Lock) {
	if mine := l.txns[id]; len(mine) <= maxScannedLocks {
		for _, lock := range mine {
			if lock.isRecordIn(s) {
				found = append(found, lock)
			}
		}
		slices.SortFunc(found, compareLocks)
		return found
	}
	// One that has thousands is resolved shard by shard: not all of them each time.
	return slices.DeleteFunc(l.ListIn(s), func(lock *Lock) bool { return lock.Txn != id })
}

// maxScannedLocks is how many locks of a transaction are checked one by one, whatever
// others there are in a span.
const maxScannedLocks = 32

// ListAll returns all locks in the order of their starts. They are not to be
// changed.
func (l *Locks) ListAll() []*Lock {
	all := make([]*Lock, 0, l.lockCount)
	l.tree.visitSpan(nil, nil, func(lock *Lock) { all = append(all, lock) })
	return all
}

// ListOverdue returns a lock of each transaction whose deadline has passed: ask its
// coordinator group. They are in the order of the IDs.
func (l *Locks) ListOverdue(nowMS int64) []*Lock {
	var due []*Lock
	for _, mine := range l.txns {
		if nowMS > mine[0].DeadlineMS {
			due = append(due, mine[0])
		}
	}
	slices.SortFunc(due, func(a, b *Lock) int { return bytes.Compare(a.Txn[:], b.Txn[:]) })
	return due
}

// findOldest returns the lock on a key that was taken first, or nil.
func (l *Locks) findOldest(p partition.Position) (first *Lock) {
	l.tree.visitAt(p, func(lock *Lock) {
		if first == nil || lock.PrepareMS < first.PrepareMS {
			first = lock
		}
	})
	return first
}
