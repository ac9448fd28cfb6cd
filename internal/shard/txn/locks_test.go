package txn

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/cleavekv/cleave/partition"
	"pgregory.net/rapid"
)

// lockList is Locks as a list.
type lockList []Lock

func (n lockList) isSameLock(a *Lock, b Lock) bool {
	return a.Txn == b.Txn && a.Range == b.Range && bytes.Equal(a.Start, b.Start)
}

func (n lockList) withoutLock(lock Lock) lockList {
	return slices.DeleteFunc(slices.Clone(n), func(x Lock) bool { return n.isSameLock(&x, lock) })
}

func (n lockList) withLock(lock Lock) lockList { return append(n.withoutLock(lock), lock) }

// findConflicts returns the locks of others that overlap a span.
func (n lockList) findConflicts(id ID, s partition.Span, all bool) (found lockList) {
	for _, lock := range n {
		if lock.Txn != id && (all || lock.Write) && lock.Span().Overlaps(s) {
			found = append(found, lock)
		}
	}
	return found
}

func drawLock(t *rapid.T) Lock {
	lock := Lock{
		Txn: ID{byte(rapid.IntRange(1, 4).Draw(t, "txn"))}, Start: drawKey(t), ParticipantStart: positionOf("a"), CoordinatorGroup: 1,
		Write: rapid.Bool().Draw(t, "write"), DeadlineMS: rapid.Int64Range(0, 9).Draw(t, "deadline"),
		PrepareMS: rapid.Int64Range(0, 9).Draw(t, "prepare"),
	}
	if rapid.IntRange(0, 2).Draw(t, "range") == 0 {
		lock.Range, lock.Write, lock.End = true, false, drawEnd(t)
		if (partition.Span{Start: lock.Start, End: lock.End}).Empty() {
			lock.End = nil
		}
	}
	return lock
}

func drawKey(t *rapid.T) partition.Position {
	return positionOf(fmt.Sprint(rapid.IntRange(0, 12).Draw(t, "key")))
}

func drawEnd(t *rapid.T) partition.Position {
	if rapid.IntRange(0, 5).Draw(t, "open") == 0 {
		return nil
	}
	return drawKey(t)
}

func TestLocksFindWhatAListFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		locks, list := NewLocks(), lockList(nil)
		behind := NewLocks()      // a copy that follows before each Begin
		states := []lockList{nil} // the list at each mark since Begin
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch lock := drawLock(t); rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				behind.ApplyChanges(locks)
				compareWithList(t, behind, list)
				locks.BeginBatch()
				states = []lockList{list}
			case 1:
				mark := rapid.IntRange(0, locks.Savepoint()).Draw(t, "mark")
				locks.RollbackTo(mark)
				states = states[:mark+1]
				list = states[mark]
			case 2, 3, 4:
				before := locks.Savepoint()
				locks.Remove(lock.Txn, lock.Start, lock.Range)
				if list = list.withoutLock(lock); locks.Savepoint() > before {
					states = append(states, list)
				}
			default:
				before := locks.Savepoint()
				locks.Add(lock)
				if locks.Savepoint() == before+2 { // it replaced another
					states = append(states, list.withoutLock(lock))
				}
				list = list.withLock(lock)
				states = append(states, list)
			}
			compareWithList(t, locks, list)
		}
	})
}

func compareWithList(t *rapid.T, locks *Locks, list lockList) {
	if locks.Len() != len(list) || len(locks.ListAll()) != len(list) {
		t.Fatalf("%d locks, %d in order, want %d", locks.Len(), len(locks.ListAll()), len(list))
	}
	if !slices.IsSortedFunc(locks.ListAll(), compareLocks) {
		t.Fatal("they are not in order")
	}
	id := ID{byte(rapid.IntRange(0, 4).Draw(t, "asker"))}
	key, write := drawKey(t), rapid.Bool().Draw(t, "for writing")
	check := func(what string, got *Lock, want lockList) {
		if (got != nil) != (len(want) > 0) || got != nil && !slices.ContainsFunc(want, func(x Lock) bool { return want.isSameLock(got, x) }) {
			t.Fatalf("%s: found %+v, want one of %+v", what, got, want)
		}
	}
	check("key", locks.FindKeyConflict(id, key, write), list.findConflicts(id, (&Lock{Start: key}).Span(), write))
	if s := (partition.Span{Start: key, End: drawEnd(t)}); !s.Empty() {
		check("span", locks.FindSpanConflict(id, s.Start, s.End), list.findConflicts(id, s, false))
	}
	if s := (partition.Span{Start: key, End: drawEnd(t)}); !s.Empty() {
		found := slices.DeleteFunc(slices.Clone(list), func(x Lock) bool { return !x.isRecordIn(s) })
		if got := locks.ListIn(s); len(got) != len(found) || !slices.IsSortedFunc(got, compareLocks) {
			t.Fatalf("%d locks in %v, want %d", len(got), s, len(found))
		}
	}
	judge := int64(5)
	for _, lock := range list.findConflicts(ID{}, (&Lock{Start: key}).Span(), true) {
		judge = min(judge, lock.PrepareMS)
	}
	if got := locks.ExpiryCheckMS(key, 5); got != judge {
		t.Fatalf("judged at %d, want %d", got, judge)
	}
	mine := slices.DeleteFunc(slices.Clone(list), func(x Lock) bool { return x.Txn != id })
	if got := locks.ListTxn(id); len(got) != len(mine) {
		t.Fatalf("%d locks of %v, want %d", len(got), id, len(mine))
	}
}

func TestLocksThatAreDueAreOnePerTransaction(t *testing.T) {
	locks := NewLocks()
	for i, deadline := range []int64{5, 6, 7} {
		for _, key := range []string{"a", "b"} {
			locks.Add(Lock{Txn: ID{byte(9 - i)}, Start: positionOf(key), DeadlineMS: deadline})
		}
	}
	var got []int64
	for _, lock := range locks.ListOverdue(7) {
		got = append(got, lock.DeadlineMS)
	}
	if !slices.Equal(got, []int64{6, 5}) { // in the order of the ids
		t.Errorf("deadlines %v are due at 7, want 6 and 5", got)
	}
}

// The tree is balanced by hashes: ten times as many locks make a search a
// little longer, not ten times.
func TestTheTreeOfLocksIsShallow(t *testing.T) {
	locks := NewLocks()
	for i := range 10_000 {
		locks.Add(Lock{Txn: ID{1}, Start: positionOf(fmt.Sprintf("%06d", i))})
	}
	var depth func(n *treeNode) int
	depth = func(n *treeNode) int {
		if n == nil {
			return 0
		}
		return 1 + max(depth(n.left), depth(n.right))
	}
	if d := depth(locks.tree.root); d > 50 {
		t.Errorf("10,000 locks are %d deep", d)
	}
}
