package wal

import (
	"sync"
	"sync/atomic"
)

// Log is a node's log. All methods may be called at the same time.
type Log struct {
	o         Options
	salt      salt
	committed atomic.Uint64 // end of the last published frame

	mu   sync.Mutex
	room sync.Cond // a chunk, a segment or the right to rotate may be there; failure, close
	work sync.Cond // the preparer has something to do

	// Staging. open is the frame that takes entries; it takes no more, and is nil,
	// once its leader has its turn, or a fence or the chunk's end is behind it.
	// Invariant: a frame is staged => busy, so somebody will write it.
	cur      *Chunk // nil between segments
	reserved bool   // cur was taken from the reserve: for urgent entries only
	next     int    // offset in cur where the next frame begins
	tail     Position
	open     *turn
	crowded  bool // the last frame was shared: others are about to append
	rotating bool // somebody is exchanging cur

	// Turns. busy: somebody has the turn. queue: those who wait for it, in log order.
	busy  bool
	queue []*turn
	last  *turn // the newest that got its turn

	unsynced int      // bytes written since a background sync was asked for
	written  Position // handed to the OS, or durable, by class
	durable  Position
	applied  Position // Recycle's

	segments []*segment // of the log, in order; the last may be in use
	ready    []*segment // named and usable, in order
	spare    []*segment // to be renamed or removed
	front    uint32     // sequence of the last that was taken to be begun, or zero
	newest   uint32     // highest sequence ever given to a file
	full     bool       // the disk had no room for another segment
	lack     error      // why it is full: see LackOf

	chunks int // in use
	pool   [][]byte
	spent  []Entry // a slice of entries for reuse
	// scratch is for who has the turn: a packed frame is written from there.
	scratch []byte

	once   sync.Once // of Close
	closed bool
	failed error
	stop   chan struct{}
	kick   chan struct{} // much is unsynced
	// syncing is held by who syncs a segment, and taken before mu.
	syncing sync.Mutex
	joined  sync.WaitGroup
	count   Metrics
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
	readers  int      // who must not lose the file: not recycled while above zero
}

// empty tells whether no frame was written to it.
func (s *segment) empty() bool { return s.end == position(s.sequence, blockBytes) }

func newLog(o Options) *Log {
	l := &Log{o: o, salt: saltOf(o.ID), stop: make(chan struct{}), kick: make(chan struct{}, 1)}
	if o.Durability != Always {
		l.scratch = alignedMemory(blockBytes + packBelow + blockBytes)
	}
	l.room.L, l.work.L = &l.mu, &l.mu
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
	if err := l.recover(from, replay); err != nil {
		l.closeFiles()
		return nil, err
	}
	l.mu.Lock()
	l.retire()
	l.mu.Unlock()
	l.joined.Go(l.prepare)
	if o.Durability != Always {
		l.joined.Go(l.syncInBackground)
	}
	return l, nil
}

// Committed returns the end of the last published frame.
func (l *Log) Committed() Position { return Position(l.committed.Load()) }

// fail ends the log's life. l.mu is held.
func (l *Log) fail(cause error) {
	if l.failed != nil {
		return
	}
	l.failed = &failure{cause}
	l.room.Broadcast()
	l.work.Broadcast()
}

// dead returns why the log takes no more entries. l.mu is held.
func (l *Log) dead() error {
	switch {
	case l.failed != nil:
		return l.failed
	case l.closed:
		return ErrClosed
	}
	return nil
}
