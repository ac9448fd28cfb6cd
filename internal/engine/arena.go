package engine

// arena makes copies of short pieces in common blocks: a scan would otherwise
// allocate twice for each row. What one copy keeps in memory is bounded by the
// size of a block.
type arena struct {
	free       []byte // of the newest block
	blockBytes int    // its size
}

const (
	maxArenaBlockBytes = 4 << 10 // the largest block
	// maxArenaCopyBytes is the longest piece that goes into a block: at most that much
	// of it is lost. It is also the size of the first block, as a scan may be of
	// a few rows.
	maxArenaCopyBytes = 1 << 10
)

// clone returns a copy of b that can be appended to without harm to others. It
// is never nil.
func (a *arena) clone(b []byte) []byte {
	if len(b) > maxArenaCopyBytes {
		return append([]byte(nil), b...)
	}
	if len(b) > len(a.free) || a.free == nil {
		a.blockBytes = min(max(2*a.blockBytes, maxArenaCopyBytes), maxArenaBlockBytes)
		a.free = make([]byte, a.blockBytes)
	}
	n := copy(a.free, b)
	c := a.free[:n:n]
	a.free = a.free[n:]
	return c
}
