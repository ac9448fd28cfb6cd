package runs

import (
	"sync"
	"sync/atomic"
)

// Op is one operation: a key got a value, or was deleted.
type Op struct {
	Key, Value []byte
	Deleted    bool
}

// Set collects operations in commit order. The zero value is empty and ready.
type Set struct {
	blocks   atomic.Pointer[[]*block]
	revealed atomic.Uint32 // operations that readers may look at

	// Of the one who appends.
	staged  uint32
	writing *block

	mu     sync.Mutex // held by who sorts, never by who appends
	sorted atomic.Pointer[sorted]
}

const (
	blockBits = 9
	blockOps  = 1 << blockBits
)

type block [blockOps]Op

// Stage adds an operation that nobody sees before [Set.Reveal].
func (s *Set) Stage(key, value []byte, deleted bool) {
	at := s.staged % blockOps
	if at == 0 {
		s.writing = s.grow()
	}
	s.writing[at] = Op{key, value, deleted}
	s.staged++
}

// grow adds a block. Readers of the old list of blocks keep theirs: append
// writes only behind its end.
func (s *Set) grow() *block {
	var list []*block
	if old := s.blocks.Load(); old != nil {
		list = *old
	}
	b := new(block)
	list = append(list, b)
	s.blocks.Store(&list)
	return b
}

// Reveal makes all staged operations visible at once.
func (s *Set) Reveal() { s.revealed.Store(s.staged) }

// Append stages operations in commit order and reveals them.
func (s *Set) Append(ops ...Op) {
	for i := range ops {
		s.Stage(ops[i].Key, ops[i].Value, ops[i].Deleted)
	}
	s.Reveal()
}

// Len returns how many operations are visible, older ones of a key included.
func (s *Set) Len() int { return int(s.revealed.Load()) }

// opLog is the operations that a reader may look at.
type opLog []*block

// log returns the operations up to at least the count that was loaded before.
func (s *Set) log() opLog {
	if l := s.blocks.Load(); l != nil {
		return *l
	}
	return nil
}

func (l opLog) at(i uint32) *Op    { return &l[i>>blockBits][i%blockOps] }
func (l opLog) key(e entry) []byte { return l.at(e.op).Key }
