package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/rows"
	"github.com/cleavekv/cleave/internal/wal"
)

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
	s := &Store{opts: o, number: opened.Add(1), began: time.Now(), table: rows.New(rows.Options{Bytes: o.CacheBytes, Class: keyspaceOf})}
	s.chunks.init(s.table, o.Chunks)
	s.applier.init()
	s.health.wake = s.applier.wake.send
	if s.dir, err = openDirectory(newGuard(o.FS, &s.health, o.FS.PathJoin(o.Dir, dataDir)), o.Dir); err != nil {
		return nil, err
	}
	if err := s.openParts(); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", o.Dir, err), s.dir.close())
	}
	if o.Preload {
		go s.gather()
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
		err = errors.Join(s.dir.finish(m.Needed+m.Retained > 0), s.health.err())
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

// probeName is a file that is made and removed at once.
const probeName = "probe"

// probeBytes is more than Pebble writes when it is opened.
const probeBytes = 1 << 20

// probe finds out whether files can be made and written in Pebble's directory.
// Pebble makes a manifest when it is opened, and where that is refused, or there is
// no room for it, tries for ever.
func (s *Store) probe() error {
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
	if s.dir.made {
		if err := s.probe(); err != nil {
			return err
		}
	}
	o := engineOptions(&s.opts, s.dir.fs, &s.health, s.applier.flushed)
	o.ErrorIfNotExists = s.dir.made
	s.db, err = openPebble(s.dir.join(dataDir), o, &s.health)
	if s.dir.made && damaged(err) {
		err = &CorruptError{File: s.dir.join(dataDir), Err: err}
	}
	if err != nil {
		return err
	}
	pos, err := position(s.db, false)
	if err != nil {
		_ = s.db.Close() // it has nothing to say beyond that
		return err
	}
	if err := s.knowNothing(); err != nil {
		return errors.Join(err, s.db.Close())
	}
	s.applier.start(pos)
	s.chunks.published.Store(uint64(pos))
	return nil
}

// knowNothing tells the row table if Pebble is empty: then it knows all that the log will
// ever bring, until it is full.
func (s *Store) knowNothing() error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: appendKey(nil, nil), KeyTypes: pebble.IterKeyTypePointsOnly})
	if err != nil {
		return readError(err)
	}
	if empty := !it.First(); empty && it.Error() == nil {
		s.table.Whole()
	}
	return readError(errors.Join(it.Error(), it.Close()))
}

// damaged tells whether an error with which Pebble refuses to open a store is
// about what it finds, which does not always match a name: that a table is
// shorter than the manifest says has none. The rest is about the system's calls.
func damaged(err error) bool {
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
		Chunks:       2*(s.opts.Chunks+1) + maxKept, // see maxKept
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
	s.applier.wake.send()
}
