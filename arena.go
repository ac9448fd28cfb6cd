package cleave

// arena makes copies of short pieces in common blocks: a scan would otherwise
// allocate twice for each row. What one copy keeps in memory is bounded by the
// size of a block.
type arena struct {
	free []byte // of the newest block
	last int    // its size
}

const (
	arenaBlock = 4 << 10 // the largest block
	// arenaPiece is the longest piece that goes into a block: at most that much
	// of it is lost. It is also the size of the first block, as a scan may be of
	// a few rows.
	arenaPiece = 1 << 10
)

// clone returns a copy of b that can be appended to without harm to others. It
// is never nil.
func (a *arena) clone(b []byte) []byte {
	if len(b) > arenaPiece {
		return append([]byte(nil), b...)
	}
	if len(b) > len(a.free) || a.free == nil {
		a.last = min(max(2*a.last, arenaPiece), arenaBlock)
		a.free = make([]byte, a.last)
	}
	n := copy(a.free, b)
	c := a.free[:n:n]
	a.free = a.free[n:]
	return c
}
