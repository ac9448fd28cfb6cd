package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/wal"
)

// maxPayload bounds an entry far above what a transaction may be, and far below
// what the row table, the log and Pebble can count.
const maxPayload = 256 << 20

// Commit writes the entries to the log, all or none of them, waits until they
// are committed by the durability class, makes them visible and returns the
// position of the log behind them. The payloads are effect batches; the caller
// gets them back. Urgent entries may use the room that is kept for them when
// the disk is full.
//
// After [ErrPayload], [ErrDiskFull] and [ErrClosed] nothing was logged. After
// an error that matches [ErrUnknown] the entries may be there at the next Open.
func (s *Store) Commit(urgent bool, es ...wal.Entry) (wal.Position, error) {
	for i := range es {
		if n := len(es[i].Payload); n > maxPayload {
			return 0, fmt.Errorf("%w: entry %d has %d bytes, at most %d", ErrPayload, i, n, maxPayload)
		}
		if _, err := effect.Parse(es[i].Payload); err != nil {
			return 0, fmt.Errorf("%w: entry %d: %w", ErrPayload, i, err)
		}
	}
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	s.chunks.await(s.health.impaired)
	if !urgent && s.diskFull() {
		return 0, s.health.lack()
	}
	if plant.Bug("store-publish-before-durable") {
		s.chunks.premature(es)
	}
	pos, err := s.log.Append(urgent, es...)
	if errors.Is(err, wal.ErrFailed) {
		s.health.die(err)
	}
	if dead := s.health.err(); err == nil && dead != nil {
		// It is in the log, but nobody will bring it into Pebble before the
		// next Open.
		return 0, fmt.Errorf("%w: %w", ErrUnknown, dead)
	}
	return pos, err
}

// Room is [ErrDiskFull] if there is none for what is not urgent.
func (s *Store) Room() error {
	if s.diskFull() {
		return s.health.lack()
	}
	return nil
}

// diskFull reports whether Pebble has no room to flush. It may have met a full
// disk with work that it then gave up, and not notice that there is space
// again, so the disk is asked too.
func (s *Store) diskFull() bool {
	if !s.health.full.Load() {
		return false
	}
	u, err := s.opts.FS.GetDiskUsage(s.opts.Dir)
	noFiles := s.health.noFiles.Load() // of which the disk does not know
	switch {
	case err == nil && u.AvailBytes < 2*uint64(s.opts.SegmentBytes):
		return true
	case (err != nil || noFiles) && time.Since(time.Unix(0, s.health.fullAt.Load())) < fullFor:
		return true // nobody knows: Pebble is asked again after a while
	}
	s.health.succeeded()
	return false
}

// fullFor is for how long a disk that does not tell its room counts as full after Pebble
// has met that.
const fullFor = 100 * time.Millisecond

// publish is the log's call to make a frame visible. What it is given went
// through Commit, which had parsed it: that it does not parse now means that
// memory is damaged.
func (s *Store) publish(memory *wal.Chunk, es []wal.Entry) {
	if err := s.chunks.publish(memory, es); err != nil {
		s.health.die(fmt.Errorf("a committed entry changed in memory: %w", err))
	}
}
