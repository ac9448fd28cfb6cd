package store

import (
	"sync"

	"github.com/cleavekv/cleave/internal/wal"
)

// KeepLog keeps all of the log that is there now, and what comes, until the
// returned function is called: for those who read the feed behind a copy, as a move
// does. The log grows meanwhile, so whoever keeps it looks at [Store.Behind].
func (s *Store) KeepLog() (release func()) { return sync.OnceFunc(s.applier.hold()) }

// Behind returns about how many bytes of log there are behind a position.
func (s *Store) Behind(pos wal.Position) int64 {
	now := s.Position()
	segments := int64(uint64(now)>>32) - int64(uint64(pos)>>32)
	return segments*s.opts.SegmentBytes + int64(uint32(now)) - int64(uint32(pos))
}
