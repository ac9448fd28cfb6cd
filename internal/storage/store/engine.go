package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/storage/wal"
)

// Keys in Pebble begin with a byte that says whose they are.
const (
	// metaPrefix begins what the store keeps for itself.
	metaPrefix = 0x00
	// rowPrefix begins the rows. A store holds one replica of everything
	// today; others would take other prefixes.
	rowPrefix = 0x01
)

// appliedKey holds the log position up to which Pebble has everything. It
// sorts before all rows, so that the sorted batch that moves it stays sorted.
var appliedKey = []byte{metaPrefix, 'a'}

// idleKey is written where there has to be something to flush. It says nothing.
var idleKey = []byte{metaPrefix, 'i'}

// maxL0Sublevels is the number of sublevels of level 0 at which the applier waits for
// compactions. Every one of them is a place that a read has to look at.
const maxL0Sublevels = 24

// maxMemTableBytes is the size of a memtable, which Pebble keeps in memory whatever is in it.
const maxMemTableBytes = 4 << 20

// engineOptions are Pebble's options for a store that brings its own log.
func engineOptions(o *Options, fsys vfs.FS, h *health, flushed func()) *pebble.Options {
	p := &pebble.Options{
		FS:         fsys,
		Logger:     h,
		DisableWAL: true,
		CacheSize:  o.BlockCacheBytes,
		// A batch of half this size or more is not inserted into a memtable but
		// queued for the flush as it is. It is sorted already, so a chunk that is
		// not small costs no skiplist at all, and the memory is not kept for it.
		MemTableSize: uint64(min(o.SegmentBytes, maxMemTableBytes)),
		// The applier holds back by itself, where it can still be stopped:
		// see applier.room. Inside Pebble it would wait for as long as the disk
		// is full.
		MemTableStopWritesThreshold: 1 << 20,
		L0StopWritesThreshold:       1 << 20,
		// Half as many sublevels of level 0 are compacted.
		L0CompactionThreshold: 2 * o.Layers,
		// As large as two segments, at most 64 MiB: the smaller the disk, the less may be merged
		// with new tables at once.
		LBaseMaxBytes:      min(64<<20, max(2*o.SegmentBytes, 4<<20)),
		MaxOpenFiles:       1000,
		FormatMajorVersion: engineVersion,
		CompactionConcurrencyRange: func() (int, int) {
			return 1, max(1, runtime.GOMAXPROCS(0)/2)
		},
		EventListener: &pebble.EventListener{
			BackgroundError: h.handleBackgroundError,
			// A reader gets the error as well; background work reports it above.
			DataCorruption: func(pebble.DataCorruptionInfo) {},
			FlushEnd: func(i pebble.FlushInfo) {
				if i.Err == nil {
					h.recordSuccess()
					flushed()
				}
			},
			CompactionEnd: func(i pebble.CompactionInfo) {
				if i.Err == nil {
					h.recordSuccess()
				}
			},
		},
	}
	for i := range p.Levels {
		p.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		p.Levels[i].FilterType = pebble.TableFilter
		// Rows that are not in memory are found in fewer, larger blocks sooner, and their
		// index is smaller; twice as large again, what is not in the block cache would
		// take longer.
		p.Levels[i].BlockSize = 8 << 10
		// One index for most tables: each level of it is a block more to be found in
		// the cache by every read.
		p.Levels[i].IndexBlockSize = 256 << 10
	}
	p.FlushSplitBytes = 2 << 20
	return p
}

// openPebble opens a Pebble that reports to h.
func openPebble(dir string, o *pebble.Options, h *health) (*pebble.DB, error) {
	h.opening.Store(true)
	db, err := pebble.Open(dir, o)
	dead := h.endOpening()
	if err != nil {
		return nil, readError(err)
	}
	if dead != nil {
		_ = db.Close() // it has nothing to say beyond that
		return nil, dead
	}
	return db, nil
}

// flushEngine makes everything in db durable, or returns why that will not come
// about soon. Something is sent to wake when h changed.
func flushEngine(ctx context.Context, db *pebble.DB, h *health, wake <-chan struct{}) error {
	done, err := db.AsyncFlush()
	if err != nil {
		return err
	}
	for {
		select {
		case <-done:
			return h.err()
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
			if err := h.err(); err != nil {
				return err
			}
			if h.diskFull.Load() {
				return h.shortage()
			}
		}
	}
}

// engineVersion is the format of Pebble's files, named so that a new version of
// Pebble does not change what is on disk behind our back.
const engineVersion = pebble.FormatTableFormatV6

// readAppliedPosition reads the applied position: the newest, or the one that is sure to
// survive a crash.
func readAppliedPosition(db *pebble.DB, durable bool) (wal.Position, error) {
	it, err := db.NewIter(&pebble.IterOptions{
		LowerBound:                appliedKey,
		UpperBound:                append(appliedKey[:len(appliedKey):len(appliedKey)], 0),
		OnlyReadGuaranteedDurable: durable,
	})
	if err != nil {
		return 0, readError(err)
	}
	var pos wal.Position
	if it.First() {
		value, err := it.ValueAndErr()
		if err == nil && len(value) != 8 {
			err = &CorruptError{File: dataDir, Err: fmt.Errorf("applied position of %d bytes", len(value))}
		}
		if err != nil {
			it.Close()
			return 0, readError(err)
		}
		pos = wal.Position(binary.BigEndian.Uint64(value))
	}
	return pos, readError(it.Close())
}

// health is whether the store may go on. Pebble, the log and the applier report
// to it; every call asks it.
type health struct {
	failed atomic.Pointer[failedError]
	// While Pebble is being opened a cause of death only waits here. If a
	// compaction runs already when Open fails, Pebble pulls the files away from
	// under it and panics; so what a compaction finds must not make Open fail.
	opening    atomic.Bool
	pending    atomic.Pointer[failedError]
	diskFull   atomic.Bool // Pebble met a full disk and has not succeeded since
	diskFullAt atomic.Int64
	outOfFiles atomic.Bool // what it met was want of files that may be open
	wake       func()      // notifies the applier that something changed
}

// failedError is the reason why the store is dead. It matches [ErrFailed] and
// whatever its cause matches.
type failedError struct{ cause error }

func (e *failedError) Error() string {
	return fmt.Sprintf("store: failed, repair the cause and open it again: %v", e.cause)
}
func (e *failedError) Unwrap() error        { return e.cause }
func (e *failedError) Is(target error) bool { return target == ErrFailed }

// fail ends the store. The first cause is kept: the later ones follow from it.
func (h *health) fail(cause error) {
	h.pending.CompareAndSwap(nil, &failedError{cause: readError(cause)})
	if !h.opening.Load() {
		h.failed.Store(h.pending.Load())
	}
	h.wake()
}

// endOpening ends the time in which nothing dies, and returns why the store is dead.
func (h *health) endOpening() error {
	h.opening.Store(false)
	h.failed.Store(h.pending.Load())
	return h.err()
}

// err returns why the store is dead, or nil.
func (h *health) err() error {
	if d := h.failed.Load(); d != nil {
		return d
	}
	return nil
}

// isImpaired reports whether the applier may not get on.
func (h *health) isImpaired() bool { return h.diskFull.Load() || h.failed.Load() != nil }

// shortage is what Pebble lacks, or lacked last.
func (h *health) shortage() error {
	if h.outOfFiles.Load() {
		return ErrNoFiles
	}
	return ErrDiskFull
}

// handleBackgroundError takes an error of a flush or compaction. A full disk passes, and so does want
// of files that may be open, and Pebble tries again by itself; anything else does not.
func (h *health) handleBackgroundError(err error) {
	lack := wal.ShortageOf(err)
	switch {
	case errors.Is(err, pebble.ErrCancelledCompaction) || errors.Is(err, pebble.ErrClosed):
	case lack != nil || vfs.IsNoSpaceError(err):
		h.recordShortage(lack)
		h.wake()
	default:
		h.fail(err)
	}
}

// recordShortage notes what passes.
func (h *health) recordShortage(lack error) {
	h.outOfFiles.Store(lack == ErrNoFiles)
	h.diskFullAt.Store(time.Now().UnixNano())
	h.diskFull.Store(true)
}

// recordSuccess notes that Pebble wrote tables: the disk has space.
func (h *health) recordSuccess() {
	h.diskFull.Store(false)
	h.wake()
}

// Pebble's logger. What it reports is in metrics and errors; values must not
// reach a log, and Pebble's lines may show keys.

func (h *health) Infof(string, ...any)  {}
func (h *health) Errorf(string, ...any) {}

// Fatalf is where Pebble ends when its manifest cannot be written. Unlike the
// process of its makers ours lives on, so it returns; but the guard lets
// nothing more reach the disk, and no call of the store succeeds any more.
func (h *health) Fatalf(format string, args ...any) {
	e := &fatalError{text: fmt.Sprintf("pebble: "+format, args...)}
	for _, a := range args {
		if cause, ok := a.(error); ok {
			e.cause = cause
		}
	}
	h.fail(e)
}

// fatalError is a line of Pebble's log that still matches its cause.
type fatalError struct {
	text  string
	cause error
}

func (e *fatalError) Error() string { return e.text }
func (e *fatalError) Unwrap() error { return e.cause }

const (
	// formatMarker begins the name of the file by which Pebble says in which format its
	// files are: marker.format-version.<count>.<version>.
	formatMarker = "marker.format-version."
	// optionsPrefix begins the name of the file in which Pebble notes the options that it
	// was opened with last.
	optionsPrefix = "OPTIONS-"
	// damagedSuffix is added to the name of a file that is set aside. Pebble does not take
	// it for its own then.
	damagedSuffix = ".damaged"
)

// checkEngineFormat reports a format of Pebble's that this build does not know. Pebble
// has no error of its own for it, so that it would be taken for damage.
func (s *Store) checkEngineFormat() error {
	names, err := s.dir.fs.List(s.dir.join(dataDir))
	if err != nil {
		return nil // Pebble says so
	}
	for _, name := range names {
		rest, ok := strings.CutPrefix(name, formatMarker)
		_, digits, _ := strings.Cut(rest, ".")
		if version, err := strconv.ParseUint(digits, 10, 64); ok && err == nil && version > uint64(pebble.FormatNewest) {
			return fmt.Errorf("%w: the tables in %s have format %d, this build knows %d: a newer version of Cleave has written them: open the directory with that version",
				ErrFormat, s.dir.join(dataDir), version, pebble.FormatNewest)
		}
	}
	return nil
}

// checkEngineOptions sets a damaged OPTIONS file aside: the options of this build hold
// anyway, and Pebble, which would not open, writes a new one. What would make a
// difference, the order of keys, is in the manifest too.
func (s *Store) checkEngineOptions() error {
	o := &pebble.Options{FS: s.dir.fs}
	o.EnsureDefaults() // what is compared is the same in all builds
	dir := s.dir.join(dataDir)
	names, err := s.dir.fs.List(dir)
	if err != nil {
		return nil // there is nothing yet, or Pebble says so
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasPrefix(name, optionsPrefix) || strings.Contains(name, ".")
	})
	for _, name := range names {
		path := s.dir.fs.PathJoin(dir, name)
		text, err := readFile(s.dir.fs, path)
		if err != nil {
			return err
		}
		damage := o.CheckCompatibility(dir, string(text))
		if damage == nil {
			continue
		}
		if err := errors.Join(s.dir.fs.Rename(path, path+damagedSuffix), syncDir(s.dir.fs, dir)); err != nil {
			return err
		}
		s.opts.Report(fmt.Sprintf("%s is damaged and has the suffix %s now; it holds no data: %v", path, damagedSuffix, damage))
	}
	return nil
}
