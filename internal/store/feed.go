package store

import (
	"fmt"
	"runtime"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/wal"
)

// Committed is one entry of the feed.
type Committed struct {
	Pos   wal.Position // resume behind it
	Group uint64
	Batch effect.Batch // good during the call only
}

// Feed calls visit with what was committed after from, in order, up to what is
// committed now, and returns the position to go on from. If visit returns an
// error, Feed returns that and the position before the commit that the entry
// belongs to: all of it comes again. [ErrGone] means that from is no longer
// retained: take a [Snapshot], use it, and go on from its position.
func (s *Store) Feed(from wal.Position, visit func(Committed) error) (wal.Position, error) {
	if err := s.enter(); err != nil {
		return from, err
	}
	defer s.leave()
	return s.feed(from, visit)
}

func (s *Store) feed(from wal.Position, visit func(Committed) error) (wal.Position, error) {
	// A row is visible a moment before the log counts it as committed. Who saw
	// it must find it in the feed.
	for at := s.Position(); s.log.Committed() < at; {
		runtime.Gosched()
	}
	return s.log.ReadFrom(from, func(e wal.Entry) error {
		b, err := effect.Parse(e.Payload)
		if err != nil {
			return fmt.Errorf("%w: entry at %v: %w", ErrCorrupt, e.Pos, err)
		}
		return visit(Committed{Pos: e.Pos, Group: e.Group, Batch: b})
	})
}
