package rows

import (
	"math/bits"
	"sync"
)

// slab gives out the ordinary blocks of all stripes, cut from large pieces of memory. The
// system can back those with large pages, and who looks at one row of a million waits less
// often for the tables that say where a page is.
//
// A block that is given back is given out again. The memory of a table that has shrunk, after
// many rows were pinned say, stays its own.
type slab struct {
	mu    sync.Mutex
	size  int    // bytes of a piece; 0 if each block is memory of its own
	piece []byte // what is left of the newest one
	free  [][]byte
}

const (
	leastPiece = 4 << 20 // a smaller one has hardly a large page
	mostPiece  = 16 << 20
	// piecesPerTable keeps what is not given out yet a small part of the table.
	piecesPerTable = 8
)

func (s *slab) init(bytes int64) {
	size := int64(1) << (bits.Len64(uint64(bytes/piecesPerTable)) - 1)
	if size >= leastPiece {
		s.size = int(min(size, mostPiece))
	}
}

// take returns so many bytes, which are the same at each call and divide a piece.
func (s *slab) take(n int) []byte {
	if s.size == 0 {
		return make([]byte, n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := len(s.free); k > 0 {
		b := s.free[k-1]
		s.free[k-1], s.free = nil, s.free[:k-1]
		return b
	}
	if len(s.piece) < n {
		s.piece = make([]byte, s.size)
		largePages(s.piece)
	}
	b := s.piece[:n:n]
	s.piece = s.piece[n:]
	return b
}

// give takes a block back that nobody looks at any more.
func (s *slab) give(b []byte) {
	if s.size == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, b)
}
