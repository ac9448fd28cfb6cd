package runs

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

type block [blockOps]op

// op is an Op in less than half the memory, as there are very many of them.
type op struct {
	key, value *byte
	keyLen     uint32 // above it a bit for deleted
	valueLen   uint32
}

const (
	deletedBit = 1 << 31
	maxKey     = deletedBit - 1
	maxValue   = 1<<31 - 1
)

func (o *op) keyBytes() []byte   { return unsafe.Slice(o.key, o.keyLen&maxKey) }
func (o *op) valueBytes() []byte { return unsafe.Slice(o.value, o.valueLen) }
func (o *op) deleted() bool      { return o.keyLen&deletedBit != 0 }
func (o *op) public() Op         { return Op{o.keyBytes(), o.valueBytes(), o.deleted()} }

// Stage adds an operation that nobody sees before [Set.Reveal].
func (s *Set) Stage(key, value []byte, deleted bool) {
	at := s.staged % blockOps
	if at == 0 {
		s.writing = s.grow()
	}
	if len(key) > maxKey || len(value) > maxValue || s.staged == math.MaxUint32 {
		panic(fmt.Sprintf("runs: operation %d with a key of %d bytes and a value of %d: limits are the caller's to enforce", s.staged, len(key), len(value)))
	}
	o := op{unsafe.SliceData(key), unsafe.SliceData(value), uint32(len(key)), uint32(len(value))}
	if deleted {
		o.keyLen |= deletedBit
	}
	s.writing[at] = o
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

func (l opLog) at(i uint32) *op     { return &l[i>>blockBits][i%blockOps] }
func (l opLog) key(e *entry) []byte { return l.at(e.op).keyBytes() }
