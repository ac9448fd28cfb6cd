package store

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cleavekv/cleave/internal/rows"
	"github.com/cleavekv/cleave/internal/wal"
)

// Store is an open store. Its methods may be called from any goroutine.
type Store struct {
	opts   Options
	number uint64 // in the order in which stores were opened
	dir    *directory
	health health
	table  *rows.Table
	chunks unapplied
	db     *pebble.DB
	log    *wal.Log

	// gate is held for reading by every call that needs the log or Pebble, and
	// by every open snapshot. Close takes it for good, so that TryRLock is the
	// question whether the store is open.
	gate    sync.RWMutex
	closing atomic.Bool

	applier applier

	// absent tells that of the keys that were read together last more than an eighth did not
	// exist.
	absent atomic.Bool
	// began is when the store was opened, and nearAfter how long after that reads of tables
	// are thought to be near again: see GetNear.
	began     time.Time
	nearAfter atomic.Int64

	hooks hooks
}

// opened counts the stores that were opened: their numbers are one order for all.
var opened atomic.Uint64

// hooks are called, if a test sets them, where something rare has to happen in
// between.
type hooks struct {
	afterRead     func() // Pebble was read, the row table is not yet filled with it
	beforeApply   func() // a chunk is about to go into Pebble
	beforeDurable func() // Pebble is about to be asked what is durable
}

// at calls the hook of a place, if there is one.
func at(hook func()) {
	if hook != nil {
		hook()
	}
}

// enter asks to use the log and Pebble; leave must follow.
func (s *Store) enter() error {
	if !s.gate.TryRLock() {
		return ErrClosed
	}
	if err := s.health.err(); err != nil {
		s.gate.RUnlock()
		return err
	}
	return nil
}

func (s *Store) leave() { s.gate.RUnlock() }

// Position is the place in the log up to which everything is visible.
func (s *Store) Position() wal.Position { return wal.Position(s.chunks.published.Load()) }

// ID is the store's own: no other has it, not even a restored copy.
func (s *Store) ID() ID { return s.dir.id }

// Close waits for calls in progress and for open snapshots, brings everything
// into Pebble and ends all goroutines, so that the next Open has nothing to
// replay. Later calls get [ErrClosed]. If it returns an error everything that
// was committed is still on disk; the next Open replays what it has to.
func (s *Store) Close() error {
	if s.closing.Swap(true) {
		return ErrClosed
	}
	s.applier.giveUpIfFull.Store(true)
	s.applier.wake.send()
	s.gate.Lock() // for good
	err := s.log.Close()
	if errors.Is(err, wal.ErrFailed) {
		s.health.die(err)
	}
	s.applier.stop()
	if err == nil {
		err = s.flush()
	}
	closing := s.db.Close()
	if s.health.err() != nil {
		closing = nil // Pebble could not write either: err says why
	}
	return errors.Join(err, closing, s.dir.close())
}
