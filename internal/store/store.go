package store

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/rows"
	"github.com/cleavekv/cleave/internal/wal"
)

// Store is an open store. Its methods may be called from any goroutine.
type Store struct {
	opts   Options
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

	// afterRead is called between a read of Pebble and the filling of the row
	// table with it, if a test wants to see what may happen in between.
	afterRead func()
}

// Open opens the store in o.Dir, or makes one. It returns when everything that
// was committed before is visible; rows that Pebble did not have yet are
// replayed from the log.
func Open(o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{opts: o, table: rows.New(rows.Options{Bytes: o.CacheBytes})}
	s.chunks.init(s.table, o.Chunks)
	s.applier.init()
	s.health.wake = s.applier.signal
	if s.dir, err = openDirectory(newGuard(o.FS, &s.health), o.Dir); err != nil {
		return nil, err
	}
	if err := s.openParts(); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", o.Dir, err), s.dir.close())
	}
	return s, nil
}

// openParts opens Pebble and the log, and replays.
func (s *Store) openParts() (err error) {
	if err := s.openEngine(); err != nil {
		return err
	}
	go s.applyLoop()
	if err = s.openLog(); err == nil {
		m := s.log.Metrics()
		err = s.dir.finish(m.Needed+m.Retained > 0)
	}
	if err != nil {
		s.health.die(err) // nothing more is applied or written
		if s.log != nil {
			_ = s.log.Close()
		}
		s.applier.stop()
		_ = s.db.Close() // it repeats err
		return err
	}
	s.applier.opened(s.log)
	return nil
}

func (s *Store) openEngine() (err error) {
	opts := engineOptions(&s.opts, s.dir.fs, &s.health, s.applier.flushed)
	opts.ErrorIfNotExists = s.dir.made
	s.db, err = pebble.Open(s.dir.join(dataDir), opts)
	if s.dir.made && (errors.Is(err, pebble.ErrDBDoesNotExist) || errors.Is(err, fs.ErrNotExist)) {
		// Pebble takes a damaged manifest for one that a crash cut off, and then
		// misses the tables of its older state.
		err = &CorruptError{File: s.dir.join(dataDir), Err: err}
	}
	if err != nil {
		return readError(err)
	}
	pos, err := position(s.db, false)
	if err != nil {
		return errors.Join(err, s.db.Close())
	}
	s.applier.start(pos)
	s.chunks.published.Store(uint64(pos))
	return nil
}

func (s *Store) openLog() error {
	path := s.dir.join(logDir)
	if _, err := s.dir.fs.Stat(path); err != nil && s.dir.made && !s.dir.restored {
		return &CorruptError{File: path, Err: err}
	}
	if err := makeDir(s.dir.fs, path); err != nil {
		return err
	}
	log, err := wal.Open(wal.Options{
		FS:           newLogFS(s.opts.FS, path),
		ID:           s.dir.id,
		Durability:   s.opts.Durability,
		SegmentBytes: int(s.opts.SegmentBytes),
		Chunks:       s.opts.Chunks + heldChunks,
		MinFree:      minFreeSegments * s.opts.SegmentBytes,
		Restored:     s.dir.restored,
		Retain:       s.opts.RetainBytes,
		Publish:      s.publish,
		Seal:         s.seal,
	}, s.applier.position(), s.replay)
	if err != nil {
		return err
	}
	s.log = log
	return nil
}

// publish is the log's call to make a frame visible. What it is given went
// through Commit, which had parsed it: that it does not parse now means that
// memory is damaged.
func (s *Store) publish(memory *wal.Chunk, es []wal.Entry) {
	if err := s.chunks.publish(memory, es); err != nil {
		s.health.die(fmt.Errorf("a committed entry changed in memory: %w", err))
	}
}

// replay is publish for what the log had at Open.
func (s *Store) replay(memory *wal.Chunk, es []wal.Entry) error {
	// On a full disk the log is held in memory rather than not opened: it can
	// be read then.
	s.chunks.await(s.health.impaired)
	if err := s.health.err(); err != nil {
		return err
	}
	return s.chunks.publish(memory, es)
}

func (s *Store) seal(memory *wal.Chunk) {
	s.chunks.seal(memory)
	s.applier.signal()
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

// heldChunks is how many chunks snapshots may keep in memory besides those that
// are not applied; unapplied.await counts only the latter. Beyond that commits
// wait, which is better than to run out of memory.
const heldChunks = 64

// minFreeSegments is the room on the disk, in segments, that the log leaves to
// Pebble: the chunks that are not applied have to go somewhere.
const minFreeSegments = 2

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
		return 0, ErrDiskFull
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

// diskFull reports whether Pebble has no room to flush. It may have met a full
// disk with work that it then gave up, and not notice that there is space
// again, so the disk is asked too.
func (s *Store) diskFull() bool {
	if !s.health.full.Load() {
		return false
	}
	u, err := s.opts.FS.GetDiskUsage(s.opts.Dir)
	if err != nil || u.AvailBytes < 2*uint64(s.opts.SegmentBytes) {
		return true
	}
	s.health.succeeded()
	return false
}

// Close waits for calls in progress and for open snapshots, brings everything
// into Pebble and ends all goroutines, so that the next Open has nothing to
// replay. Later calls get [ErrClosed]. If it returns an error everything that
// was committed is still on disk; the next Open replays what it has to.
func (s *Store) Close() error {
	if s.closing.Swap(true) {
		return ErrClosed
	}
	s.applier.giveUpIfFull.Store(true)
	s.applier.signal()
	s.gate.Lock() // for good
	err := s.log.Close()
	if errors.Is(err, wal.ErrFailed) {
		s.health.die(err)
	}
	s.applier.stop()
	if err == nil {
		err = s.flush()
	}
	return errors.Join(err, s.db.Close(), s.dir.close())
}
