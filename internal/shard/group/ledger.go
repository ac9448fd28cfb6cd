package group

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// ledger is what a group remembers about itself over a restart. It is one row, written in the
// batches that change it: the ceilings are far enough ahead that most do not.
type ledger struct {
	// seqCeiling is at or above every sequence of a batch.
	seqCeiling uint64
	// versionCeiling is above every version that was given out. A batch gives
	// out versions only below one that was synced before, so that a batch which
	// a crash takes back does not get its versions used again.
	versionCeiling uint64
	// clockCeiling is at or above every time that was given out.
	clockCeiling int64
	// mixed reports whether there may be rows that a plain Set must not overwrite
	// blindly: collections and keys that expire.
	mixed bool
}

const (
	ledgerFormat = 1
	ledgerSize   = 2 + 3*8
)

// newLedgerKey is the store key of a group's ledger.
func newLedgerKey(id partition.GroupID) []byte {
	return binary.BigEndian.AppendUint64([]byte{byte(effect.State), 'g'}, uint64(id))
}

func (l *ledger) appendRecord(dst []byte) []byte {
	mixed := byte(0)
	if l.mixed {
		mixed = 1
	}
	dst = append(dst, ledgerFormat, mixed)
	dst = binary.LittleEndian.AppendUint64(dst, l.seqCeiling)
	dst = binary.LittleEndian.AppendUint64(dst, l.versionCeiling)
	return binary.LittleEndian.AppendUint64(dst, uint64(l.clockCeiling))
}

func decodeLedger(b []byte) (ledger, error) {
	if len(b) != ledgerSize || b[0] != ledgerFormat || b[1] > 1 {
		return ledger{}, fmt.Errorf("group: the ledger is not of this version: %x: use the version that wrote it", b)
	}
	return ledger{
		mixed:          b[1] == 1,
		seqCeiling:     binary.LittleEndian.Uint64(b[2:]),
		versionCeiling: binary.LittleEndian.Uint64(b[10:]),
		clockCeiling:   int64(binary.LittleEndian.Uint64(b[18:])),
	}, nil
}

// initialVersion is the first version that a group gives out after it found l:
// above everything that may have been given out before.
func initialVersion(l ledger) uint64 {
	return max(l.versionCeiling, 1)
}

// initialClockMS is the time at which a group's clock starts after it found l.
func initialClockMS(l ledger) int64 {
	return l.clockCeiling
}

// raiseCeilings raises the ceilings if little is left below them. Those of versions and sequences are
// synced before they are used, whatever the durability class: a crash may take back what was done with
// a version, but it is never given out again. That of time is as durable as a write is.
func (x *executor) raiseCeilings() error {
	enough := x.nextVersion+maxBatchVersions < x.ledger.versionCeiling && x.seq+maxBatchVersions < x.ledger.seqCeiling
	if enough && !x.clock.isAtLimit() {
		return nil
	}
	next := x.ledger
	next.clockCeiling = x.nextClockCeiling(next.clockCeiling)
	if !enough {
		next.versionCeiling, next.seqCeiling = x.nextVersion+versionReserve, x.seq+versionReserve
	}
	return x.writeLedger(next, !enough)
}

// nextClockCeiling is the ceiling that a batch leaves: not below the time that it has used. It is raised
// before it is reached, so that a busy group has neither a log entry for it alone nor a row in each batch.
func (x *executor) nextClockCeiling(ceiling int64) int64 {
	used, ahead := x.clock.now(), x.opts.ClockAhead.Milliseconds()
	if ceiling >= used+ahead/2 {
		return ceiling
	}
	// By the machine's clock, or each crash would leave the group's further ahead.
	return max(ceiling, used, x.opts.Wall()+ahead)
}

// admitCall makes the clock ready for a call: one that takes a range over must not find
// it behind that of the group that had the range.
func (x *executor) admitCall(c *call) {
	r, ok := c.Command.(rangeReceiver)
	if !ok || x.refusedErr != nil {
		return
	}
	floor, _ := r.Floors()
	if floor <= x.clock.now() {
		return
	}
	if floor > x.ledger.clockCeiling {
		next := x.ledger
		next.clockCeiling = floor
		if x.refusedErr = x.writeLedger(next, false); x.refusedErr != nil {
			return
		}
	}
	x.clock.advanceTo(floor)
}

// rangeReceiver is a command that takes a range over from another group.
type rangeReceiver interface {
	// Floors returns the time below which the group's clock must not be, and
	// whether there may be rows that a plain Set must not overwrite blindly.
	Floors() (clockMS int64, mixed bool)
}

// writeLedger logs a ledger, syncs it if asked to, and uses it from then on.
func (x *executor) writeLedger(next ledger, sync bool) error {
	x.env.Begin(effect.Header{Seq: x.seq + 1, ClockMS: x.clock.now()}, x.nextVersion)
	x.scratch = next.appendRecord(x.scratch[:0])
	x.env.Effects().Put(x.ledgerRowKey, x.scratch)
	err := x.log.Commit(true, x.env.Effects().Bytes())
	if err == nil && sync {
		if err = x.log.Sync(); err != nil {
			err = errors.Join(ErrUncertain, err)
		}
	}
	if err != nil {
		if errors.Is(err, ErrUncertain) {
			x.fatalErr = failedError(err)
			return x.fatalErr
		}
		return err
	}
	x.ledger = next
	x.seq++
	x.clock.raiseCeiling(next.clockCeiling)
	return nil
}

// clock is the one clock of a group for expiry, in Unix milliseconds. It follows the machine's
// clock, and never goes back while the group is open.
//
// Over a restart a key that was seen expired is never seen alive again. Nothing expires above
// the ceiling without a log write first: the clock stays at or below its limit, which is the
// ceiling or the end of the free time, whichever is later. The ceiling was logged before it is
// used. In free time no key of the group expires, so its moments look the same to every reader,
// and none of it has to be logged.
//
// It stands still from the moment at which a batch reads it until the batch is
// visible. Otherwise a reader could see a key expire that a batch in flight to
// the disk has found alive and goes on with.
type clock struct {
	wall    func() int64 // the machine's clock; may jump
	word    atomic.Int64 // the highest time given out, times two, plus one while it is held
	ceiling atomic.Int64 // logged
	// freeEnd is the end of free time. Invariant: a key of the group expires at or below the
	// ceiling, or above freeEnd. It falls before a batch that breaks this becomes visible.
	freeEnd atomic.Int64
}

const pausedBit = 1

// Ends of free time of a group that expires nothing, and of one that may expire anything.
const (
	allTimeFree = math.MaxInt64 >> 1 // a time times two is a word
	noTimeFree  = math.MinInt64
)

// startAt sets a clock that continues one whose ceiling was found on disk.
func (c *clock) startAt(ceiling int64) {
	c.word.Store(ceiling << 1)
	c.ceiling.Store(ceiling)
	c.freeEnd.Store(noTimeFree)
}

// limitMS is the latest time that may be given out.
func (c *clock) limitMS() int64 { return max(c.ceiling.Load(), c.freeEnd.Load()) }

// now returns the time. It stands still while it is held or the limit is in
// the way.
func (c *clock) now() int64 {
	for {
		w := c.word.Load()
		if w&pausedBit != 0 {
			return w >> 1
		}
		t := min(c.wall(), c.limitMS())
		if t <= w>>1 {
			return w >> 1
		}
		if c.word.CompareAndSwap(w, t<<1) {
			return t
		}
	}
}

// pauseTime returns the time and keeps it until release. Only the holder of the
// mailbox holds.
func (c *clock) pauseTime() int64 {
	for {
		c.now()
		if w := c.word.Load(); c.word.CompareAndSwap(w, w|pausedBit) {
			return w >> 1
		}
	}
}

// resumeTime lets the time go on.
func (c *clock) resumeTime() { c.word.And(^int64(pausedBit)) }

// advanceTo moves the time to at least t, which is not above the ceiling. It is not
// held.
func (c *clock) advanceTo(t int64) {
	for {
		w := c.word.Load()
		if w>>1 >= t || c.word.CompareAndSwap(w, t<<1) {
			return
		}
	}
}

// raiseCeiling moves the ceiling, once the new one is logged.
func (c *clock) raiseCeiling(ceiling int64) { c.ceiling.Store(ceiling) }

// setFreeEnd moves the end of free time. Only the holder of the mailbox does.
func (c *clock) setFreeEnd(t int64) { c.freeEnd.Store(min(t, allTimeFree)) }

// isAtLimit reports whether the machine's clock is past the limit, so that time stands still.
func (c *clock) isAtLimit() bool {
	limit := c.limitMS()
	return limit < allTimeFree && c.wall() > limit
}

// latestMS is the time as if there were no limit. A row that is alive at it is alive at now.
func (c *clock) latestMS() int64 { return max(c.wall(), c.word.Load()>>1) }
