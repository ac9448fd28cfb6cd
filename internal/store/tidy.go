package store

import (
	"context"
	"fmt"
	"time"
)

// tidyPause is how long Tidy waits before it looks again whether the applier has come
// along.
const tidyPause = 5 * time.Millisecond

// Tidy gives back the room of what was deleted and overwritten before it was called. That
// comes about by itself while others write; Tidy is for when they may not until there is
// room. It rewrites tables, which costs time, and for a while room too.
func (s *Store) Tidy(ctx context.Context) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	until := s.Position()
	s.applier.awaited.Add(1)
	defer s.applier.awaited.Add(-1)
	if err := s.log.Rotate(); err != nil {
		return fmt.Errorf("tidy: %w", err)
	}
	s.applier.wake.send()
	for s.applier.position() < until {
		if err := s.health.err(); err != nil {
			return err
		}
		select {
		case <-time.After(tidyPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	flushed, err := s.db.AsyncFlush()
	if err != nil {
		return fmt.Errorf("tidy: %w", err)
	}
	select {
	case <-flushed:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.db.Compact(ctx, []byte{0}, []byte{0xff}, false); err != nil {
		return fmt.Errorf("tidy: %w", err)
	}
	return s.health.err()
}
