// Package store answers one question: what is the newest committed row of a
// key, and what are all rows at one moment?
//
// It stands behind the log of a node. [Store.Commit] writes effect batches to
// the log and returns when they are committed by the durability class and
// visible; nothing is visible earlier. [Store.Get] reads the newest row on the
// caller's goroutine. A [Snapshot] is everything that was committed up to one
// position of the log, for scans both ways and digests. [Store.Feed] reads the
// committed batches again in order, [Store.Backup] copies the store while it
// works.
//
// The choice: rows go to the log in one sequential write, into memory, and only
// much later, by the chunk, sorted, and with all but the newest of each key
// left out, into Pebble, whose own log is off. So there are three places for a
// row: the chunks that are not applied, the row cache, and Pebble. DESIGN.md
// follows a row and a chunk through them, and says why no reader can see a row
// too early, an older one after a newer, or one that was deleted.
//
// The limits: a store is dead after a failed write ([ErrFailed]) until it is
// opened again, reads included. What was committed with durability everysec or
// no may be lost in a crash, newest first, without a gap. A snapshot that is
// held keeps the memory of the chunks that were not applied when it was taken.
package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/storage/rowcache"
	"github.com/cleavekv/cleave/internal/storage/wal"
)

// Store is an open store. Its methods may be called from any goroutine.
type Store struct {
	opts      Options
	openOrder uint64 // in the order in which stores were opened
	dir       *directory
	health    health
	table     *rowcache.Cache
	chunks    chunkList
	db        *pebble.DB
	log       *wal.Log
	space     diskSpace

	reclaimer reclaimer
	// reserveSize is how large the file of makeReserve is, 0 if it is not known to exist.
	reserveSize atomic.Int64
	// lacksReserve reports that it was removed because the disk was full.
	lacksReserve atomic.Bool
	reserveMu    sync.Mutex // held while the file is made or removed

	// gate is held for reading by every call that needs the log or Pebble, and
	// by every open snapshot. Close takes it for good, so that TryRLock is the
	// question whether the store is open.
	gate    sync.RWMutex
	closing atomic.Bool

	applier applier

	// expectAbsent reports whether of the keys that were read together last more than an eighth did not
	// exist.
	expectAbsent atomic.Bool
	// openedAt is when the store was opened, and fastAfter how long after that reads of tables
	// are taken for fast again: see IsStorageFast.
	openedAt  time.Time
	fastAfter atomic.Int64
	// replayedBytes is how much of the log Open has read again. It does not change later.
	replayedBytes int64

	hooks hooks
}

// openCount counts the stores that were opened: their numbers are one order for all.
var openCount atomic.Uint64

// hooks are called, if a test sets them, where something rare has to happen in
// between.
type hooks struct {
	afterRead     func() // Pebble was read, the row table is not yet filled with it
	beforeApply   func() // a chunk is about to go into Pebble
	beforeDurable func() // Pebble is about to be asked what is durable
}

// callHook calls the hook of a place, if there is one.
func callHook(hook func()) {
	if hook != nil {
		hook()
	}
}

// beginCall asks to use the log and Pebble; leave must follow.
func (s *Store) beginCall() error {
	if !s.gate.TryRLock() {
		return ErrClosed
	}
	if err := s.health.err(); err != nil {
		s.gate.RUnlock()
		return err
	}
	return nil
}

func (s *Store) endCall() { s.gate.RUnlock() }

// Position is the place in the log up to which everything is visible.
func (s *Store) Position() wal.Position { return wal.Position(s.chunks.published.Load()) }

// ID is the store's own: no other has it, not even a restored copy.
func (s *Store) ID() ID { return s.dir.id }

// LogEnd is how far the log is on stable storage. It stays so when the store is closed.
func (s *Store) LogEnd() wal.Position { return s.log.Durable() }

// PeerEnds returns how far the logs of other stores were known to be on stable storage
// when this one was open last, in the order that WatchPeers gave.
func (s *Store) PeerEnds() []wal.Position { return s.log.PeerEnds() }

// WatchPeers lets the store remember, in the background, how far the logs of others are
// on stable storage.
func (s *Store) WatchPeers(ends func() []wal.Position) { s.log.WatchPeers(ends) }

// Close waits for calls in progress and for open snapshots, brings everything
// into Pebble and ends all goroutines, so that the next Open has nothing to
// replay. Later calls get [ErrClosed]. If it returns an error everything that
// was committed is still on disk; the next Open replays what it has to.
func (s *Store) Close() error {
	if s.closing.Swap(true) {
		return ErrClosed
	}
	close(s.reclaimer.stop)
	s.applier.giveUpIfFull.Store(true)
	s.applier.wake.notify()
	s.gate.Lock() // for good
	err := s.log.Close()
	if errors.Is(err, wal.ErrFailed) {
		s.health.fail(err)
	}
	s.applier.stop()
	if err == nil {
		err = s.flushOnClose()
	}
	closing := s.db.Close()
	if lack := wal.ShortageOf(closing); lack != nil {
		closing = fmt.Errorf("close: the next Open may have to replay: %w: %w", lack, closing)
	}
	if s.health.err() != nil {
		closing = nil // Pebble could not write either: err says why
	}
	s.table.Close()
	return errors.Join(err, closing, s.dir.close())
}

// minFreeSegments is the room on the disk, in segments, that the log leaves to
// Pebble: the chunks that are not applied have to go somewhere.
const minFreeSegments = 2

// Open opens the store in o.Dir, or makes one. It returns when everything that
// was committed before is visible; rows that Pebble did not have yet are
// replayed from the log.
func Open(o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{opts: o, openOrder: openCount.Add(1), openedAt: time.Now(), table: rowcache.New(rowcache.Options{Bytes: o.CacheBytes, ClassOf: keyspaceOf})}
	s.space.fs, s.space.dir = o.FS, o.Dir
	s.chunks.init(s.table, &o)
	s.applier.init()
	s.reclaimer.stop = make(chan struct{})
	s.health.wake = s.applier.wake.notify
	if s.dir, err = openDirectory(s.newGuardedFS(), o.Dir); err != nil {
		return nil, err
	}
	if err := s.openEngineAndLog(); err != nil {
		s.table.Close()
		return nil, errors.Join(fmt.Errorf("open %s: %w", o.Dir, err), s.dir.close())
	}
	if o.Events != nil {
		o.Events.Recovered(Recovery{Dir: o.Dir, Took: time.Since(s.openedAt), Entries: s.log.Metrics().Replayed, Bytes: s.replayedBytes})
	}
	if o.Preload {
		go s.preloadRows()
	}
	go s.runReclaimer()
	return s, nil
}

// openEngineAndLog opens Pebble and the log, and replays.
func (s *Store) openEngineAndLog() (err error) {
	if err := s.openEngine(); err != nil {
		return err
	}
	go s.runApplier()
	if err = s.openLog(); err == nil {
		m := s.log.Metrics()
		err = errors.Join(s.dir.finishCreation(m.Needed+m.Retained > 0), s.health.err())
	}
	if err != nil {
		s.health.fail(err) // nothing more is applied or written
		if s.log != nil {
			_ = s.log.Close()
		}
		s.applier.stop()
		_ = s.db.Close() // it repeats err
		return err
	}
	s.applier.setLog(s.log)
	return nil
}

// probeName is a file that is made and removed at once.
const probeName = "probe"

// probeBytes is more than Pebble writes when it is opened.
const probeBytes = 1 << 20

// probeDataDir finds out whether files can be made and written in Pebble's directory.
// Pebble makes a manifest when it is opened, and where that is refused, or there is
// no room for it, tries for ever.
func (s *Store) probeDataDir() error {
	name := s.dir.fs.PathJoin(s.dir.join(dataDir), probeName)
	f, err := s.dir.fs.Create(name, vfs.WriteCategoryUnspecified)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the directory is missing: Pebble says so
	}
	if err != nil {
		return err
	}
	_, err = f.Write(bytes.Repeat([]byte("probe"), probeBytes/5))
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close(), s.dir.fs.Remove(name))
	if vfs.IsNoSpaceError(err) {
		return fmt.Errorf("%w: make room for %d bytes at least, and open it again: %w", ErrDiskFull, probeBytes, err)
	}
	return err
}

func (s *Store) openEngine() (err error) {
	if s.dir.isStore {
		err := s.probeDataDir()
		if errors.Is(err, ErrDiskFull) && s.releaseReserve() {
			err = s.probeDataDir()
		}
		if err != nil {
			return err
		}
	}
	o := engineOptions(&s.opts, s.dir.fs, &s.health, s.applier.onFlush)
	o.ErrorIfNotExists = s.dir.isStore
	if err := s.checkEngineOptions(); err != nil {
		return err
	}
	s.db, err = openPebble(s.dir.join(dataDir), o, &s.health)
	if newer := s.checkEngineFormat(); err != nil && newer != nil {
		return newer
	}
	if s.dir.isStore && isDamage(err) {
		err = &CorruptError{File: s.dir.join(dataDir), Err: err}
	}
	if err != nil {
		return err
	}
	pos, err := readAppliedPosition(s.db, false)
	if err != nil {
		_ = s.db.Close() // it has nothing to say beyond that
		return err
	}
	if err := s.markCompleteIfEmpty(); err != nil {
		return errors.Join(err, s.db.Close())
	}
	s.applier.setStart(pos)
	s.chunks.published.Store(uint64(pos))
	return nil
}

// markCompleteIfEmpty marks the row table as complete if Pebble is empty: then it knows all that the log will
// ever bring, until it is full.
func (s *Store) markCompleteIfEmpty() error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: appendEngineKey(nil, nil), KeyTypes: pebble.IterKeyTypePointsOnly})
	if err != nil {
		return readError(err)
	}
	if empty := !it.First(); empty && it.Error() == nil {
		s.table.MarkComplete()
	}
	return readError(errors.Join(it.Error(), it.Close()))
}

// isDamage reports whether an error with which Pebble refuses to open a store is
// about what it finds, which does not always match a name: that a table is
// shorter than the manifest says has none. The rest is about the system's calls.
func isDamage(err error) bool {
	switch {
	case err == nil || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrFailed):
		return false
	case errors.Is(err, fs.ErrNotExist):
		// Pebble takes a damaged manifest for one that a crash cut off, and then
		// misses the tables of its older state.
		return true
	}
	var path *fs.PathError
	var link *os.LinkError
	var call *os.SyscallError
	var number syscall.Errno
	return !errors.As(err, &path) && !errors.As(err, &link) && !errors.As(err, &call) && !errors.As(err, &number)
}

func (s *Store) openLog() error {
	path := s.dir.join(logDir)
	if _, err := s.dir.fs.Stat(path); err != nil && s.dir.isStore && !s.dir.isBackup && !s.opts.AcceptLoss {
		return &LossError{&CorruptError{File: path, Err: err}}
	}
	if err := makeDir(s.dir.fs, path); err != nil {
		return err
	}
	logFiles := newLogFS(s.opts.FS, path)
	if s.opts.Events != nil {
		logFiles = &timedFS{logFiles, s.opts.Events}
	}
	var accept func(wal.Loss)
	if s.opts.AcceptLoss {
		accept = s.reportLoss
	}
	log, err := wal.Open(wal.Options{
		FS:         logFiles,
		ManifestFS: newLogFS(s.opts.FS, s.dir.path),
		// It is made with the first log of a backup, or of a directory of an older format.
		ManifestRequired: s.dir.isStore && !s.dir.isBackup && s.dir.formatVersion >= manifestFormatVersion,
		AcceptLoss:       accept,

		ID:           s.dir.id,
		Durability:   s.opts.Durability,
		SegmentBytes: int(s.opts.SegmentBytes),
		Chunks:       2*(s.opts.Chunks+1) + maxSnapshotChunks, // see maxSnapshotChunks
		MinFree:      minFreeSegments * s.opts.SegmentBytes,
		Restored:     s.dir.isBackup,
		ZerosAreFree: isMemoryFS(s.opts.FS),
		Retain:       s.opts.RetainBytes,
		Publish:      s.publishFrame,
		Seal:         s.sealChunk,
	}, s.applier.appliedPosition(), s.replayFrame)
	if errors.Is(err, ErrCorrupt) {
		return &LossError{err}
	}
	if err != nil {
		return err
	}
	s.log = log
	return nil
}

// reportLoss reports what a damaged log has lost, as far as that is known.
func (s *Store) reportLoss(l wal.Loss) {
	what := fmt.Sprintf("how much of what was committed behind position %s is lost is not known", l.From)
	switch {
	case l.Bytes > 0:
		what = fmt.Sprintf("what was committed behind position %s is lost, up to %s at least: %d bytes of log at least, and up to %d", l.From, l.To, l.Bytes, l.MaxBytes)
	case l.MaxBytes > 0:
		what = fmt.Sprintf("what was committed behind position %s may be lost: how much is not known, up to %d bytes of log", l.From, l.MaxBytes)
	}
	if l.IsUnbounded {
		what += ", or more, as the log's manifest is damaged too"
	}
	s.opts.Report(fmt.Sprintf("opened %s with accepted data loss: %s; if the node has other stores, they may keep the other part of a transaction whose part here is lost; segments behind it have the suffix .lost: %v",
		s.dir.path, what, errors.Join(l.Damages...)))
}

// replayFrame is publish for what the log had at Open.
func (s *Store) replayFrame(memory *wal.Chunk, es []wal.Entry) error {
	// On a full disk the log is held in memory rather than not opened: it can
	// be read then.
	s.chunks.waitForApplier(s.health.isImpaired)
	if err := s.health.err(); err != nil {
		return err
	}
	for i := range es {
		s.replayedBytes += int64(len(es[i].Payload))
	}
	return s.chunks.publishFrame(memory, es)
}

func (s *Store) sealChunk(memory *wal.Chunk) {
	s.chunks.sealChunk(memory)
	s.applier.wake.notify()
}
