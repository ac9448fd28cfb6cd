// Package memruns answers one question: which operations wait to be applied, in
// the order of their keys?
//
// A [Set] takes the operations of one chunk of the log as they are committed.
// Order costs nothing until it is asked for: a [View] sorts what came since the
// last one, and joins sorted runs so that only few are left.
//
// # Promises
//
//   - [Set.Append] never waits and never sorts. All operations of one call
//     become visible at once.
//   - A View never changes. It shows every operation appended before it was
//     asked for, of each key the newest only.
//   - However often Views are taken, an operation is sorted once and then moved
//     O(log n) times.
//   - [Set.Cut] is a constant number of steps: take it under a lock, and its
//     View later.
//   - [Drain] returns what several Sets hold, of each key the newest.
//
// # Choices
//
// Keys and values are not copied. Sorting works on 32-byte entries without
// pointers, of which 24 bytes are a piece of the key: most comparisons touch no
// key. DESIGN.md has the details.
//
// # Limits
//
// One goroutine appends at a time; everything else may be called from any.
// The slices handed in must not change as long as the Set or one of its Views
// is in use. At most 2^32-1 operations.
package memruns

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Op is one operation: a key got a value, or was deleted.
type Op struct {
	Key, Value []byte
	Deleted    bool
}

// Set collects operations in commit order. The zero value is empty and ready.
type Set struct {
	blocks      atomic.Pointer[[]*opBlock]
	revealedOps atomic.Uint32 // operations that readers may look at

	// Of the appender.
	stagedOps uint32
	lastBlock *opBlock

	mu     sync.Mutex // held to sort, never to append
	sorted atomic.Pointer[sortedRuns]
}

const (
	blockBits = 9
	blockOps  = 1 << blockBits
)

type opBlock [blockOps]packedOp

// packedOp is an Op in less than half the memory, as there are very many of them.
type packedOp struct {
	key, value *byte
	keyLen     uint32 // above it a bit for deleted
	valueLen   uint32
}

const (
	deletedBit    = 1 << 31
	maxKeyBytes   = deletedBit - 1
	maxValueBytes = 1<<31 - 1
)

func (o *packedOp) keyBytes() []byte   { return unsafe.Slice(o.key, o.keyLen&maxKeyBytes) }
func (o *packedOp) valueBytes() []byte { return unsafe.Slice(o.value, o.valueLen) }
func (o *packedOp) isDeleted() bool    { return o.keyLen&deletedBit != 0 }
func (o *packedOp) toOp() Op           { return Op{o.keyBytes(), o.valueBytes(), o.isDeleted()} }

// Stage adds an operation that is invisible before [Set.Reveal].
func (s *Set) Stage(key, value []byte, deleted bool) {
	at := s.stagedOps % blockOps
	if at == 0 {
		s.lastBlock = s.addBlock()
	}
	if len(key) > maxKeyBytes || len(value) > maxValueBytes || s.stagedOps == math.MaxUint32 {
		panic(fmt.Sprintf("memruns: operation %d with a key of %d bytes and a value of %d: limits are the caller's to enforce", s.stagedOps, len(key), len(value)))
	}
	o := packedOp{unsafe.SliceData(key), unsafe.SliceData(value), uint32(len(key)), uint32(len(value))}
	if deleted {
		o.keyLen |= deletedBit
	}
	s.lastBlock[at] = o
	s.stagedOps++
}

// addBlock adds a block. Readers of the old list of blocks keep theirs: append
// writes only behind its end.
func (s *Set) addBlock() *opBlock {
	var list []*opBlock
	if old := s.blocks.Load(); old != nil {
		list = *old
	}
	b := new(opBlock)
	list = append(list, b)
	s.blocks.Store(&list)
	return b
}

// Reveal makes all staged operations visible at once.
func (s *Set) Reveal() { s.revealedOps.Store(s.stagedOps) }

// Append stages operations in commit order and reveals them.
func (s *Set) Append(ops ...Op) {
	for i := range ops {
		s.Stage(ops[i].Key, ops[i].Value, ops[i].Deleted)
	}
	s.Reveal()
}

// Len returns how many operations are visible, older ones of a key included.
func (s *Set) Len() int { return int(s.revealedOps.Load()) }

// opLog is the operations that a reader may look at.
type opLog []*opBlock

// loadLog returns the operations up to at least the count that was loaded before.
func (s *Set) loadLog() opLog {
	if l := s.blocks.Load(); l != nil {
		return *l
	}
	return nil
}

func (l opLog) opAt(i uint32) *packedOp { return &l[i>>blockBits][i%blockOps] }
func (l opLog) keyOf(e *entry) []byte   { return l.opAt(e.op).keyBytes() }

// sortedRuns is what was put in order: runs from the oldest to the newest, each at
// least twice as long as the next. It is never changed.
type sortedRuns struct {
	opCount uint32 // operations in the runs, those that newer ones replaced included
	depth   int    // at which all words were taken; all keys begin alike up to it
	runs    []run
}

// Cut is a moment in a Set. It takes a constant time to make, and its View
// shows exactly what was visible then.
type Cut struct {
	set     *Set
	opCount uint32
	sorted  *sortedRuns // what was in order at that moment
	log     opLog
}

// View is a Set's content at one moment, in order. It never changes.
type View struct {
	log opLog
	*sortedRuns
}

// Cut returns this moment. It never waits.
func (s *Set) Cut() Cut {
	// In this order: what is sorted may lag behind what is visible, but is
	// never ahead of it, and the blocks hold at least what is visible.
	c := Cut{set: s, sorted: s.loadSorted()}
	c.opCount = s.revealedOps.Load()
	c.log = s.loadLog()
	return c
}

// View returns everything that is visible now.
func (s *Set) View() View { return s.Cut().View() }

// noRuns is in order before the first View.
var noRuns = &sortedRuns{depth: math.MaxInt}

func (s *Set) loadSorted() *sortedRuns {
	if b := s.sorted.Load(); b != nil {
		return b
	}
	return noRuns
}

// View puts the cut's operations in order, as far as that is not done yet.
func (c Cut) View() View {
	if c.sorted.opCount == c.opCount {
		return View{c.log, c.sorted}
	}
	now := c.set.sortUpTo(c)
	if now.opCount > c.opCount {
		// Another View sorted past this moment, and newer operations may have
		// replaced ours in the runs: go on from what there was.
		now = c.sorted.extendTo(c.log, c.opCount)
	}
	return View{c.log, now}
}

// sortUpTo returns what is in order, up to the cut at least.
func (s *Set) sortUpTo(c Cut) *sortedRuns {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.loadSorted()
	if now.opCount < c.opCount {
		now = now.extendTo(c.log, c.opCount)
		s.sorted.Store(now)
	}
	return now
}

// extendTo sorts the operations that are missing up to count. As in a binary
// counter, runs are joined with the one before unless that is twice as long as
// they: so there are O(log n) runs, and a run grows by half when it is joined.
func (s *sortedRuns) extendTo(log opLog, count uint32) *sortedRuns {
	next := &sortedRuns{opCount: count, depth: s.measureSharedPrefix(log, count)}
	// New slices: Views hold the old ones.
	next.runs = append(make([]run, 0, len(s.runs)+1), s.runs...)
	if next.depth < s.depth {
		// Seldom: keys come that begin unlike all before.
		for i, r := range next.runs {
			next.runs[i] = r.withDepth(log, next.depth)
		}
	}
	last := sortRun(log, s.opCount, count, next.depth)
	n, newer := len(next.runs), len(last)
	for n > 0 && len(next.runs[n-1]) < 2*newer {
		n--
		newer += len(next.runs[n])
	}
	next.runs = append(next.runs, last)
	next.runs = append(next.runs[:n], mergeAll(log, next.runs[n:], next.depth))
	return next
}

// measureSharedPrefix returns how many bytes the keys in order and those of the
// operations up to count begin with in common.
func (s *sortedRuns) measureSharedPrefix(log opLog, count uint32) int {
	first := log.opAt(0).keyBytes()
	depth := min(s.depth, len(first))
	for i := s.opCount; i < count; i++ {
		depth = sharedPrefix(first, log.opAt(i).keyBytes(), depth)
	}
	return depth
}

// Get returns the newest operation on key.
func (v View) Get(key []byte) (op Op, ok bool) {
	if len(v.runs) == 0 {
		return Op{}, false
	}
	to := v.newSearchKey(key)
	for i := len(v.runs) - 1; i >= 0; i-- {
		r := v.runs[i]
		if at, found := r.search(v.log, &to); found {
			return v.log.opAt(r[at].op).toOp(), true
		}
	}
	return Op{}, false
}

// newSearchKey prepares to look for key in a View that is not empty.
func (v View) newSearchKey(key []byte) searchKey {
	return newSearchKey(key, v.log.opAt(0).keyBytes()[:v.depth])
}
