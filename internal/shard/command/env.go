// Package command defines what each command means.
//
// A [Command] is evaluated against an [Env]: a [Reader] of the committed state, what the batch
// has written so far, a clock and a source of versions. The results are a [Reply] and effects;
// nothing else is read or changed, so equal inputs give equal answers in every process. Where
// Redis has the command, ours means the same. An expired key is absent for every command, by
// Env's clock alone.
//
// [Env.Do] makes a command atomic: one that fails leaves nothing behind.
//
// A collection is a row for the key and one for each element behind it. The
// elements carry the generation of the collection, so deleting, overwriting or
// expiring one is a change of a single row; what is left of it is never seen
// again and is removed later by [Sweep]. DESIGN.md has the bytes.
//
// Keys are given as the positions of their own rows (see [partition.Keyspace.AppendPosition]):
// the caller encodes once. Every position of a batch must belong to the group that evaluates it;
// ownership is not known here.
package command

import (
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// Reader is the committed state: the store, a snapshot, or a test's map. Keys
// are store keys: a table and a position.
type Reader interface {
	// Get appends the value of key to dst, which has length 0, and returns it.
	// It must not keep dst.
	Get(key, dst []byte) (value []byte, ok bool, err error)
	// Scan visits the rows with start <= key < end in the order of their keys,
	// or in the reverse of it, until visit returns false. The slices are good
	// during the visit.
	Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error
}

// BlindSetReader is a Reader that sometimes knows without reading that a key needs
// no care when it is overwritten, so that a plain Set is a blind write.
type BlindSetReader interface {
	Reader
	// CanSetBlindly is true only if it is certain that key has no row, or that of a
	// String without expiry. False is always right.
	CanSetBlindly(key []byte) bool
}

// ViewReader is a Reader that need not copy large values.
type ViewReader interface {
	Reader
	// View is Get, but the value may be a view of memory that never changes.
	View(key, dst []byte) (value []byte, ok bool, err error)
}

// Command is one command with its arguments. Evaluate it with [Env.Do].
type Command interface {
	// Eval reads and writes through the Env. If the reply is an error, the
	// caller takes back what was written.
	Eval(*Env) Reply
}

// How much memory for replies is kept for the next batch.
const (
	maxRetainedBytes = 4 << 20
	maxRetainedItems = 1 << 14
)

// Env is what the commands of one batch see: the committed state, under what
// the batch has written so far. It keeps its memory from batch to batch. It is
// not safe for concurrent use.
type Env struct {
	reader      Reader
	blindReader BlindSetReader // reader, if it implements that
	view        func(key, dst []byte) (value []byte, ok bool, err error)
	guard       Guard // nil if there is none to ask
	// guardErr is why the guard has refused a change of the command at hand.
	guardErr     error
	effects      effect.Builder
	overlay      overlay
	nowMS        int64
	hasReadClock bool  // see HasReadClock
	asOfMS       int64 // if not 0, see AsOf
	nextVersion  uint64
	writtenKeys  int // own rows of keys that were written since Begin
	freshHash    freshHash
	// recordsEvents reports whether the batch has events; event is that of the command at hand,
	// then the one behind it, and silent that another command speaks for it.
	recordsEvents, eventsOff bool
	event, followUpEvent     Event

	keyBuf       []byte // scratch: the store key at hand
	valueBuf     []byte // scratch: a value being put together
	arena        []byte // what replies point to
	items        []Item // and their items
	loadedBytes  int    // bytes of the last lookup that lie behind arena, unless kept
	sortedWrites []int  // scratch: entries of the overlay in the order of their keys
}

// NewEnv returns an Env that reads from r. Call Begin before the first command.
func NewEnv(r Reader) *Env {
	e := &Env{reader: r, view: r.Get}
	if v, ok := r.(ViewReader); ok {
		e.view = v.View
	}
	e.blindReader, _ = r.(BlindSetReader)
	e.Begin(effect.Header{}, 1)
	return e
}

// Begin starts a batch. The clock is that of the header. nextVersion is the
// first version to give out, at least 1: 0 stands for an absent key. Replies
// and effects of the batch before are overwritten.
func (e *Env) Begin(h effect.Header, nextVersion uint64) {
	if c := cap(e.arena); c == 0 || c > maxRetainedBytes {
		e.arena = make([]byte, 0, 1<<10) // never nil, so that empty is not absent
	}
	if cap(e.valueBuf) > maxRetainedBytes {
		e.valueBuf = nil
	}
	if cap(e.items) > maxRetainedItems {
		e.items = nil
	}
	clear(e.items) // they may hold on to arenas that were outgrown
	e.arena, e.items, e.loadedBytes, e.writtenKeys = e.arena[:0], e.items[:0], 0, 0
	e.effects.Reset(h)
	e.overlay.reset()
	e.nowMS, e.nextVersion = max(h.ClockMS, 0), max(nextVersion, 1) // expiries are positive
	e.hasReadClock, e.freshHash.generation = false, 0
}

// End ends a batch whose replies and effects are no longer used: it gives large memory back, as the next
// batch may come much later.
func (e *Env) End() {
	if e.effects.HoldsMuch() || cap(e.arena) > maxRetainedBytes || cap(e.valueBuf) > maxRetainedBytes {
		e.Begin(effect.Header{ClockMS: e.nowMS}, e.nextVersion)
	}
}

// Do evaluates c after the commands before it. If it fails, it leaves nothing.
func (e *Env) Do(c Command) Reply {
	m, outer := e.Savepoint(), e.guardErr
	e.guardErr = nil
	reply := e.evalCommand(c)
	if e.guardErr != nil {
		reply = failedReply(e.guardErr)
	}
	e.guardErr = outer // commands are made of commands
	if reply.Err != nil {
		e.RollbackTo(m)
	}
	return reply
}

// Effects returns what the batch has written so far. Its bytes are good until
// the next command or Begin. A group may add rows of tables that no command
// reads; a command would not see them.
func (e *Env) Effects() *effect.Builder { return &e.effects }

// ReplyBytes is how many bytes replies of the batch point to.
func (e *Env) ReplyBytes() int { return len(e.arena) }

// NextVersion is the first version that the batch has not given out.
func (e *Env) NextVersion() uint64 { return e.nextVersion }

// NowMS is the clock of the batch, in Unix milliseconds.
func (e *Env) NowMS() int64 {
	e.hasReadClock = true
	return e.nowMS
}

// ClockMS is NowMS for a command whose answer may be another one if it is asked again after a
// crash, at a time before this one.
func (e *Env) ClockMS() int64 { return e.nowMS }

// HasReadClock reports whether a command of the batch has asked for the clock by NowMS, for
// another purpose than to check whether a key has expired.
func (e *Env) HasReadClock() bool { return e.hasReadClock }

// Savepoint is a state to which an Env can go back.
type Savepoint struct {
	effects     effect.Savepoint
	entries     int
	nextVersion uint64
	writtenKeys int
	effectBytes int
}

// Savepoint returns the present state of the batch for Rewind.
func (e *Env) Savepoint() Savepoint {
	return Savepoint{e.effects.Savepoint(), len(e.overlay.entries), e.nextVersion, e.writtenKeys, e.effects.Size()}
}

// RollbackTo takes back what commands have written since Mark in the same batch. Their
// replies stay good.
func (e *Env) RollbackTo(p Savepoint) {
	e.overlay.rollbackTo(p.entries)
	e.effects.RollbackTo(p.effects)
	e.nextVersion, e.writtenKeys, e.freshHash.generation = p.nextVersion, p.writtenKeys, 0
}

// takeVersion gives out the next version. Each write of a key takes one.
func (e *Env) takeVersion() uint64 {
	v := e.nextVersion
	e.nextVersion++
	return v
}

// lookupRow returns the newest value of a store key. It is good until the next
// lookup or write, unless kept.
func (e *Env) lookupRow(key []byte) ([]byte, bool, error) {
	if value, present, known := e.lookupWritten(key); known {
		return value, present, nil
	}
	tail := e.arena[len(e.arena):]
	value, ok, err := e.view(key, tail)
	if err != nil || !ok {
		return nil, false, err
	}
	if len(value) > 0 && cap(tail) > 0 && &value[0] == &tail[:1][0] {
		e.loadedBytes = len(value)
	}
	return value, true, nil
}

// lookupWritten returns what the batch itself did to a store key, if it did.
func (e *Env) lookupWritten(key []byte) (value []byte, present, known bool) {
	e.loadedBytes = 0
	op, known := e.overlay.find(&e.effects, key)
	return op.Value, known && !op.Delete, known
}

// retainBytes makes part of what the last lookup returned good until the next Begin.
func (e *Env) retainBytes(part []byte) []byte {
	if e.loadedBytes > 0 { // it lies behind the arena already
		e.arena = e.arena[:len(e.arena)+e.loadedBytes]
		e.loadedBytes = 0
		return part
	}
	return e.copyToArena(part)
}

// copyToArena copies b into the arena.
func (e *Env) copyToArena(b []byte) []byte {
	start := len(e.arena)
	e.arena = append(e.arena, b...)
	return e.arena[start:len(e.arena):len(e.arena)]
}

func (e *Env) putRow(key, head, body []byte) {
	ref := e.effects.PutParts(key, head, body)
	e.overlay.recordOp(&e.effects, key, ref)
}

func (e *Env) deleteRow(key []byte) {
	ref := e.effects.Delete(key)
	e.overlay.recordOp(&e.effects, key, ref)
}

// Guard is asked before a command touches a key: whether the group owns it, and
// whether a transaction has locked it. It is asked by the Env, where every
// command must pass, so that none can forget to.
type Guard interface {
	// CheckRead and Write return why the key at p must not be read, or changed, now.
	CheckRead(p partition.Position) error
	CheckWrite(p partition.Position) error
	// CheckReadSpan returns why the keys of a span must not be read now.
	CheckReadSpan(s partition.Span) error
	// ExpiryCheckMS returns the time at which to check whether the key at p has expired: nowMS,
	// or an earlier one for a key that is locked.
	ExpiryCheckMS(p partition.Position, nowMS int64) int64
}

// SetGuard makes g be asked from this call on; nil removes the guard. Rows that a command reads
// and writes as such, by Get, Scan, Put and Delete, are its own business.
func (e *Env) SetGuard(g Guard) { e.guard = g }

// CheckWrite returns why the key at p must not be changed now, for commands that
// write its rows as such.
func (e *Env) CheckWrite(p partition.Position) error {
	if e.guard == nil {
		return nil
	}
	return e.guard.CheckWrite(p)
}

// CheckRead returns why the key at p must not be read now, for commands that read its
// rows as such.
func (e *Env) CheckRead(p partition.Position) error {
	if e.guard == nil {
		return nil
	}
	return e.guard.CheckRead(p)
}

// checkReadSpan asks for a read of a range of keys.
func (e *Env) checkReadSpan(start, end partition.Position) error {
	if e.guard == nil {
		return nil
	}
	return e.guard.CheckReadSpan(partition.Span{Start: start, End: end})
}

// ensureWritable asks for a change of a key. What it refuses fails the command, however
// that ends.
func (e *Env) ensureWritable(p partition.Position) {
	if e.guard == nil || e.guardErr != nil {
		return
	}
	e.guardErr = e.guard.CheckWrite(p)
}

// isAlive reports whether the row of the key at p has not expired.
func (e *Env) isAlive(p partition.Position, row *Row) bool {
	return row.ExpiryMS == 0 || row.IsAlive(e.nowMSAt(p))
}

// nowMSAt is the time at which the expiry of the key at p is checked: in a transaction that of
// its own group, which may be behind that of others, and under a lock that of the lock.
func (e *Env) nowMSAt(p partition.Position) int64 {
	if e.asOfMS != 0 {
		return e.asOfMS
	}
	if e.guard == nil {
		return e.nowMS
	}
	return e.guard.ExpiryCheckMS(p, e.nowMS)
}

// An Env is also the Reader of what its batch has made of the state so far, and
// a place to write rows that no command of this package writes. That is what a
// command needs that keeps tables of its own, such as the locks of
// transactions. Nothing here depends on what the bytes mean.
var _ Reader = (*Env)(nil)

// Get implements [Reader]: it appends the newest value of a store key to dst,
// that of the batch if it has written the key.
func (e *Env) Get(key, dst []byte) (value []byte, ok bool, err error) {
	value, ok, known := e.lookupWritten(key)
	if !known {
		return e.reader.Get(key, dst)
	}
	if !ok {
		return nil, false, nil
	}
	return append(dst, value...), true, nil
}

// GetWritten is Get of what the batch itself has written, whatever was there before.
func (e *Env) GetWritten(key, dst []byte) (value []byte, ok bool) {
	if value, ok, _ = e.lookupWritten(key); !ok {
		return nil, false
	}
	return append(dst, value...), true
}

// Put writes a row of any table. Later commands of the batch see it, and it is
// taken back if its own fails.
func (e *Env) Put(key, value []byte) { e.putRow(key, value, nil) }

// Delete is Put of no row.
func (e *Env) Delete(key []byte) { e.deleteRow(key) }

// ApplyOp applies op: it was evaluated before, and is to happen now.
func (e *Env) ApplyOp(op effect.Op) {
	if op.Delete {
		e.deleteRow(op.Key)
		return
	}
	e.putRow(op.Key, op.Value, nil)
}

// RaiseNextVersion takes all versions below next as given out: another Env has given
// them to rows that are to come in here.
func (e *Env) RaiseNextVersion(next uint64) { e.nextVersion = max(e.nextVersion, next) }
