// Package wal answers one question: which entries were committed, and in which
// order?
//
// It is the log of one node, for all of its groups. Callers that append at the
// same time share one frame, one write and one sync. An entry that was
// acknowledged is replayed after any crash, once and in order, as far as the
// durability class promises; the entries of one Append are replayed all or not
// at all; bytes that were durable and can no longer be read are reported, never
// skipped.
//
// Segments are files of real zeros, made ahead of need and recycled by rename, so
// that a commit is one write to blocks that the file system has already placed.
// A segment is staged in a page-aligned image in memory, a [Chunk], which the
// consumer keeps until it has applied the entries.
//
// Limits: a damaged last frame looks like a write that a crash interrupted and is
// dropped, unless the log was closed or something behind it proves that it was
// durable. Reserved space is only as good as the file system's word that
// overwriting a block needs no new one; those that copy on write do not give it.
// A directory belongs to one Log at a time; locking it is the caller's part.
//
// DESIGN.md beside this file has the formats in bytes and the reasons.
package wal

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Log is a node's log. All methods may be called at the same time.
type Log struct {
	o         Options
	salt      salt
	committed atomic.Uint64 // end of the last published frame

	mu           sync.Mutex
	stateCond    sync.Cond // a chunk, a segment or the right to rotate may be there; failure, close
	preparerCond sync.Cond // the preparer has something to do

	// Staging. open is the frame that takes entries; it takes no more, and is nil,
	// once its leader has its turn, or a fence or the chunk's end is behind it.
	// Invariant: a frame is staged => busy, so it will be written.
	current         *Chunk // nil between segments
	currentReserved bool   // cur was taken from the reserve: for urgent entries only
	nextOffset      int    // offset in cur where the next frame begins
	tail            Position
	openFrame       *writeTask
	lastShared      bool // the last frame was shared: others are about to append
	rotating        bool // a goroutine is exchanging cur

	// Turns. busy: a goroutine has the turn. queue: those that wait for it, in log order.
	taskRunning bool
	taskQueue   []*writeTask
	lastTask    *writeTask // the newest that got its turn

	unsyncedBytes int      // bytes written since a background sync was asked for
	grownBytes    int64    // by which segments grow: see nextSegmentBytes
	written       Position // handed to the OS, or durable, by class
	durable       Position
	applied       Position // Recycle's

	segments      []*segment // of the log, in order; the last may be in use
	ready         []*segment // named and usable, in order
	spare         []*segment // to be renamed or removed
	begunSequence uint32     // sequence of the last that was taken to be begun, or zero
	maxSequence   uint32     // highest sequence ever given to a file
	diskFull      bool       // the disk had no room for another segment
	shortage      error      // why it is full: see ShortageOf

	// What the manifest says. recorded is the newest that is durable; named are the
	// segments that the next one names. See manifest.go.
	recorded         manifest
	manifestSegments []*segment
	peers            func() []Position
	unrecordedBytes  int // bytes of frames since the manifest was asked for

	chunksInUse int // in use
	chunkPool   [][]byte
	entriesBuf  []Entry // a slice of entries for reuse
	// scratch is for the holder of the turn: a packed frame is written from there.
	scratch []byte

	closeOnce sync.Once // of Close
	closed    bool
	failed    error
	stop      chan struct{}
	syncSoon  chan struct{} // much is unsynced
	// manifestSoon has something in it when much is durable that the manifest does not say.
	manifestSoon chan struct{}
	// syncMu is held to sync a segment, and taken before mu.
	syncMu sync.Mutex
	// manifestMu is held to write the manifest, and taken before mu. It guards slot.
	manifestMu      sync.Mutex
	manifestSlot    []byte
	manifestFile    File
	manifestDamaged bool // there is a file, and it cannot be read

	progressFile File // nil if it cannot be opened
	progress     [progressBytes]byte

	acceptedDamages []error // that were accepted; see Options.AcceptLoss
	background      sync.WaitGroup
	counters        Metrics
}

// segment is a file of the log. Its state is which list it is in; see DESIGN.md.
type segment struct {
	sequence uint32
	name     string
	file     File
	bytes    int
	prev     Position // end of the log before it
	end      Position // end of its last frame
	sealed   bool     // nothing is written to it any more
	begun    bool     // Open found a header of its own in it
	misnamed bool     // Open found that it cannot be the segment of its name
	readers  int      // readers that must not lose the file: not recycled while above zero
}

// isEmpty reports whether no frame was written to it.
func (s *segment) isEmpty() bool { return s.end == makePosition(s.sequence, blockBytes) }

func newLog(o Options) *Log {
	l := &Log{o: o, salt: saltOf(o.ID), stop: make(chan struct{}), syncSoon: make(chan struct{}, 1), manifestSoon: make(chan struct{}, 1), manifestSlot: newAlignedBuffer(blockBytes)}
	if o.Durability != Always {
		l.scratch = newAlignedBuffer(blockBytes + maxPackedFrame + blockBytes)
	}
	l.stateCond.L, l.preparerCond.L = &l.mu, &l.mu
	return l
}

// Open opens the log and hands what lies behind from to replay, frame by frame and
// in order, followed by Options.Seal for each chunk; nil ignores them. A log larger
// than Chunks needs a consumer that releases chunks meanwhile. The log goes on in a
// new segment.
//
// Everything up to from must be durable elsewhere. Entries that are handed out are
// durable here. If Open fails, what was replayed is a prefix of the log.
func Open(o Options, from Position, replay func(*Chunk, []Entry) error) (*Log, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if replay == nil {
		replay = func(*Chunk, []Entry) error { return nil }
	}
	l := newLog(o)
	if err := l.recoverLog(from, replay); err != nil {
		l.closeFiles()
		return nil, err
	}
	l.mu.Lock()
	l.retireSegments()
	l.mu.Unlock()
	l.background.Go(l.runPreparer)
	l.background.Go(l.writeManifestInBackground)
	if o.Durability != Always {
		l.background.Go(l.syncInBackground)
	}
	return l, nil
}

// Committed returns the end of the last published frame.
func (l *Log) Committed() Position { return Position(l.committed.Load()) }

// setFailed ends the log's life. l.mu is held.
func (l *Log) setFailed(cause error) {
	if l.failed != nil {
		return
	}
	l.failed = &failedError{cause}
	l.stateCond.Broadcast()
	l.preparerCond.Broadcast()
}

// checkOpen returns why the log takes no more entries. l.mu is held.
func (l *Log) checkOpen() error {
	switch {
	case l.failed != nil:
		return l.failed
	case l.closed:
		return ErrClosed
	}
	return nil
}

// Close waits for the entries that are staged, refuses others, makes everything
// durable, marks the log as closed and seals the last chunk. It leaves nothing
// running. A log that has failed is closed too, without mark and Seal; the failure
// is returned.
func (l *Log) Close() error {
	l.closeOnce.Do(l.close)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

func (l *Log) close() {
	l.mu.Lock()
	l.closed = true
	l.stateCond.Broadcast()
	l.preparerCond.Broadcast()
	close(l.stop)
	for l.rotating {
		l.stateCond.Wait()
	}
	l.writeCloseFrame()
	l.mu.Lock()
	l.stateCond.Broadcast()
	l.mu.Unlock()
	l.background.Wait()
	l.dropUnbegunFromManifest()
	if l.isManifestStale() {
		_ = l.writeManifest() // a failure is remembered
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for slices.ContainsFunc(l.segments, func(s *segment) bool { return s.readers > 0 }) {
		l.stateCond.Wait()
	}
	l.closeFiles()
}

// writeCloseFrame writes the frame that says that the log ends here, if anything was written
// since it was opened. It is called with l.mu held and returns without it.
func (l *Log) writeCloseFrame() {
	if l.current == nil {
		last := l.lastTask.finishedCh()
		l.mu.Unlock()
		if last != nil {
			<-last
		}
		return
	}
	l.setFence()
	t := &writeTask{chunk: l.current, sealsChunk: true, kind: kindClose, start: l.nextOffset, end: l.nextOffset + frameHeader}
	l.current = nil
	l.enqueueTask(t)
	l.runTask(t)
}

// closeFiles closes every file. Their content is durable, or known not to be.
func (l *Log) closeFiles() {
	for _, list := range [][]*segment{l.segments, l.ready, l.spare} {
		for _, s := range list {
			_ = s.close()
		}
	}
	for _, f := range []File{l.manifestFile, l.progressFile} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// Metrics is a snapshot of a log's figures. Counters count since Open.
type Metrics struct {
	Entries, Frames uint64 // committed
	WrittenBytes    uint64 // with headers and padding, but what a fence leaves free
	Syncs           uint64 // durable writes and syncs
	Replayed        uint64 // entries
	ChunkWaits      uint64 // Append found all chunks in use
	SegmentWaits    uint64 // Append found no segment ready
	Manifests       uint64 // writes of the manifest

	// Segments by state; see DESIGN.md.
	Ready, Needed, Retained, Spare int
	LogBytes                       int64 // of needed and retained segments
	ChunksInUse                    int
	DiskFull                       bool
	Committed, Durable, Recycled   Position
	Recorded                       Position // how far the manifest says that the log is durable
}

// Shortage returns what the log lacks, ErrDiskFull say, nil if nothing.
func (l *Log) Shortage() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.diskFull {
		return l.shortage
	}
	return nil
}

// Metrics returns the log's figures.
func (l *Log) Metrics() Metrics {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.counters
	for _, s := range l.segments {
		m.LogBytes += int64(s.bytes)
		if s.sealed && s.end <= l.applied {
			m.Retained++
		} else {
			m.Needed++
		}
	}
	m.Ready, m.Spare, m.ChunksInUse, m.DiskFull = len(l.ready), len(l.spare), l.chunksInUse, l.diskFull
	m.Committed, m.Durable, m.Recycled, m.Recorded = l.Committed(), l.durable, l.applied, l.recorded.durable
	return m
}
