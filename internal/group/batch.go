package group

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/plant"
)

// maxBatchBytes is how many bytes of effects make a batch, unless a single
// command has more. It bounds how long the first command waits for the last.
const maxBatchBytes = 1 << 20

// maxAnswerBytes is how many bytes of answers, or a little more, hasty requests have that are
// executed together.
const maxAnswerBytes = 16 << 20

// executor is the state that only the holder of the mailbox touches.
type executor struct {
	log    Log
	env    *command.Env
	reader *plainReader
	clock  *clock
	opts   *Options
	// orphans is set when a batch leaves elements of a collection behind.
	orphans *atomic.Bool
	guard   *guard
	visible *visible
	looker  Looker // nil if the state is none

	ledger ledger
	// sealed is the ledger of the batch that is being committed.
	sealed      ledger
	nextVersion uint64
	// traced is how many changes of locks of the batch have left traces.
	traced int
	// dead is why nothing is executed any more.
	dead error
	// expiries are the keys that expire next.
	expiries expiryQueue

	// late are requests that ride along with the next batch.
	late *late

	id      []byte // scratch: key of the ledger
	scratch []byte
	answers int // bytes of what hasty requests were answered in this run
	// halted are the chains whose calls are not executed any more in this run.
	halted map[uint64]bool
}

// run executes calls in order, in as many batches as it takes, after those that were
// in no hurry.
func (x *executor) run(calls []*call, errs []error) {
	clear(x.halted)
	x.answers, x.reader.near = 0, 0
	late := x.late.take()
	if len(late) == 0 {
		x.runAll(calls, errs)
		return
	}
	all, each := append(late, calls...), make([]error, len(late)+len(calls))
	ran := false
	defer func() {
		if !ran { // it panics, and they have nobody else who tells them
			answerLate(late, ErrUnknown)
		}
	}()
	x.runAll(all, each)
	ran = true
	copy(errs, each[len(late):])
	for i, c := range late {
		c.answer(each[i])
	}
}

func (x *executor) runAll(calls []*call, errs []error) {
	for len(calls) > 0 {
		n, err := x.batch(calls)
		for i := range n {
			errs[i] = x.outcome(calls[i], err)
		}
		if err != nil && x.dead == nil {
			x.urge(calls[:n], errs[:n], false)
		}
		calls, errs = calls[n:], errs[n:]
	}
}

// urge executes urgent calls of a batch that was refused again, without the others of
// it, or other groups: they may use what is kept for them.
func (x *executor) urge(calls []*call, errs []error, others bool) {
	var which []int
	refused := 0
	for i, err := range errs {
		if err == nil {
			continue
		}
		if refused++; urgent(calls[i].Command) {
			which = append(which, i)
		}
	}
	if len(which) == refused && !others { // they were by themselves
		return
	}
	for _, i := range which {
		c := calls[i] // whoever waits for it looks at done
		c.reply, c.wrote, c.recalled = command.Reply{}, false, false
		_, err := x.batch(calls[i : i+1])
		errs[i] = x.outcome(calls[i], err)
	}
}

// batch executes the first n of calls as one batch. The error is that of the
// whole batch.
func (x *executor) batch(calls []*call) (n int, err error) {
	if x.dead != nil {
		return len(calls), x.dead
	}
	err = x.reserve()
	for i := 0; i < len(calls) && err == nil; i++ {
		err = x.admit(calls[i])
	}
	if err != nil {
		if x.dead == nil {
			x.answerReads(calls)
		}
		return len(calls), err
	}
	n = x.evaluate(calls)
	if x.env.Effects().Len() > 0 {
		urgentOnly := !slices.ContainsFunc(calls[:n], func(c *call) bool { return c.wrote && !urgent(c.Command) })
		if err = x.log.Commit(urgentOnly, x.seal()); errors.Is(err, ErrUncertain) {
			x.dead = failed(err)
		}
	}
	x.finish(err == nil)
	if x.dead != nil {
		return n, err
	}
	if err != nil {
		x.answerReads(calls[:n])
		return n, err
	}
	for _, c := range calls[:n] {
		keepReply(c)
	}
	return n, nil
}

// evaluate executes calls until the batch is large enough, and returns how
// many it took. It holds the clock.
func (x *executor) evaluate(calls []*call) (n int) {
	x.begin()
	out := x.env.Effects()
	for i, c := range calls {
		if i%ahead == 0 && len(calls)-i > 1 {
			x.seek(calls[i:min(i+ahead, len(calls))])
		}
		before := out.Len()
		x.execute(c)
		x.halt(c)
		c.wrote = c.wrote || out.Len() > before
		if x.full() {
			return i + 1
		}
	}
	return len(calls)
}

// begin begins a batch. It holds the clock.
func (x *executor) begin() {
	x.env.Begin(effect.Header{Seq: x.ledger.seq + 1, ClockMS: x.clock.hold()}, x.nextVersion)
	x.guard.begin()
	x.sealed, x.traced = x.ledger, 0
}

// full tells whether the batch ends with what it has.
func (x *executor) full() bool {
	return x.env.Effects().Size() > maxBatchBytes ||
		x.guard.reowned() // the locks follow the list when it is durable
}

// executorMark is a state within a batch to which an executor can go back.
type executorMark struct {
	env    command.Point
	list   *own.List
	locks  int
	sealed ledger
}

func (x *executor) mark() executorMark {
	return executorMark{x.env.Mark(), x.guard.owner.List, x.guard.locks.Mark(), x.sealed}
}

// rewind takes back what was executed since mark, records of requests included.
func (x *executor) rewind(m executorMark) {
	x.env.Rewind(m.env)
	x.guard.owner.List, x.sealed = m.list, m.sealed
	x.guard.locks.Rewind(m.locks)
}

// execute executes one call, unless its gate is closed or its request was
// executed before.
func (x *executor) execute(c *call) {
	x.guard.turn = c.Turn
	if x.behind(c) {
		c.reply = command.Reply{Kind: command.Failed, Err: ErrBehind}
		return
	}
	if c.Gate != nil {
		if err := c.Gate.Check(); err != nil {
			c.reply = command.Reply{Kind: command.Failed, Err: err}
			x.stop(c)
			return
		}
	}
	if c.Hasty {
		x.haste(c)
		return
	}
	if c.ID == (RequestID{}) {
		c.reply = x.do(c.Command)
		return
	}
	err := checkID(c.ID, x.env.NowMS(), x.opts.Remember)
	if err == nil {
		err = x.guard.owner.Check(c.Key, false) // its record would be with its key
	}
	if err != nil {
		c.reply = command.Reply{Kind: command.Failed, Err: err}
		return
	}
	x.scratch = c.dedupKey(x.scratch[:0])
	record, found, err := x.reader.Get(x.scratch, nil)
	if err == nil && !found && !plant.Bug("group-record-in-batch-unseen") {
		// A call of this batch may have executed it, or a transaction: what becomes of that
		// becomes of it.
		record, found = x.env.Written(x.scratch, nil)
		c.wrote = found
	}
	if err == nil && found {
		err, c.recalled = recallReply(c, record), true
	}
	if err != nil {
		c.reply = command.Reply{Kind: command.Failed, Err: err}
	}
	if err != nil || found {
		return
	}
	// The record is a write, also of a command that changes nothing: a range that is
	// about to be given away must not get it.
	if err := x.guard.owner.Check(c.Key, true); err != nil {
		c.reply = command.Reply{Kind: command.Failed, Err: err}
		return
	}
	if c.reply = x.do(c.Command); c.reply.Err == nil {
		x.remember(c)
	}
}

// haste executes a hasty call, which has no id.
func (x *executor) haste(c *call) {
	if x.answers > maxAnswerBytes {
		c.reply = command.Reply{Kind: command.Failed, Err: ErrBehind}
		x.stop(c)
		return
	}
	before := x.env.Held()
	x.reader.hasty = x.reader.looker != nil
	c.reply = x.do(c.Command)
	x.reader.hasty = false
	x.answers += x.env.Held() - before
}

// checkID refuses ids of which nobody knows any more, or not yet, whether they
// were executed.
func checkID(id RequestID, nowMS int64, remember time.Duration) error {
	ms := remember.Milliseconds()
	if t := id.TimeMS(); t < nowMS-ms || t > nowMS+ms {
		return fmt.Errorf("%w: it is of %d, the clock says %d, the limit is %v either way", ErrRequestOld, t, nowMS, remember)
	}
	return nil
}

// do evaluates a command.
func (x *executor) do(c command.Command) command.Reply {
	reply := x.guard.do(x.env, c)
	if r, ok := c.(taker); ok && reply.Err == nil {
		_, mixed := r.Floors()
		x.sealed.mixed = x.sealed.mixed || mixed
	}
	return reply
}

// seal ends the batch with the ledger and returns its effects. They are about to be
// committed.
func (x *executor) seal() []byte {
	x.traced = len(x.guard.locks.Changes())
	x.visible.traces.began(x.guard.locks.Changes())
	x.sealed.seq++
	x.sealed.mixed = x.sealed.mixed || writesMixed(x.env.Effects())
	// A range that comes from another group may lift versions far above what is
	// reserved: a crash before the next reservation must not take them back.
	if next := x.env.NextVersion(); !plant.Bug("group-floor-not-kept") {
		x.sealed.versionCeiling = max(x.sealed.versionCeiling, next)
	}
	x.scratch = x.sealed.append(x.scratch[:0])
	x.env.Effects().Put(x.id, x.scratch)
	return x.env.Effects().Bytes()
}

// finish makes a batch that is durable visible to readers past the queue, or takes
// back one that was refused, and lets the clock go on. After a failure that leaves
// open which of the two it is, the clock stays held: nobody knows what is visible at
// the next Open.
func (x *executor) finish(committed bool) {
	if x.dead != nil {
		return
	}
	if committed && x.env.Effects().Len() > 0 {
		x.ledger, x.nextVersion = x.sealed, x.env.NextVersion()
		if x.ledger.mixed {
			x.reader.mixed.Store(true)
			x.noteHousework()
		}
		x.show()
	} else {
		x.visible.traces.ended(x.guard.locks.Changes()[:x.traced], false)
		x.guard.rewind()
	}
	if x.guard.holds.Left() != x.guard.left {
		x.visible.wake()
	}
	x.clock.release()
}

// show shows what the batch has changed of the list and the locks.
func (x *executor) show() {
	traces := &x.visible.traces
	traces.ended(x.guard.locks.Changes()[:x.traced], true)
	reowned := x.guard.reowned()
	if reowned {
		came, err := x.guard.follow(briefly{x.reader.State})
		if err != nil {
			x.dead = failed(err)
			return
		}
		followed := x.guard.locks.Changes()[x.traced:] // before others know the list
		traces.began(followed)
		traces.ended(followed, true)
		if came { // with what may expire, and may have elements to sweep
			x.expiries.horizon = nothingKnown
			x.orphans.Store(true)
		}
	}
	if reowned || x.guard.locks.Mark() > 0 {
		x.visible.follow(x.guard, true)
	}
}

// answerReads evaluates the calls of a refused batch again, each by itself:
// what they saw of the batch's writes did not happen. Those that write nothing
// now are answered, retries of requests that were executed before among them.
func (x *executor) answerReads(calls []*call) {
	for _, c := range calls {
		x.env.Begin(effect.Header{Seq: x.ledger.seq + 1, ClockMS: x.clock.now()}, x.nextVersion)
		x.guard.begin()
		x.execute(c)
		x.halt(c)
		if c.wrote = x.env.Effects().Len() > 0; !c.wrote {
			keepReply(c)
		}
		x.guard.rewind()
	}
}

// outcome is what the caller hears, given the error of the batch.
func (x *executor) outcome(c *call, err error) error {
	switch {
	case err == nil:
		return nil
	case x.dead != nil && c.wrote:
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	case x.dead != nil:
		return x.dead
	case c.wrote:
		return err
	}
	return nil
}

// outcomeOfAll is what all callers hear who wrote something in a batch.
func (x *executor) outcomeOfAll(err error) error { return x.outcome(&call{wrote: true}, err) }

// writesMixed tells whether there is a row that a plain Set must not overwrite
// blindly.
func writesMixed(out *effect.Builder) bool {
	batch, err := effect.Parse(out.Bytes())
	if err != nil {
		return true
	}
	for _, op := range batch.All() {
		if op.Key[0] == byte(effect.Expiry) || op.Key[0] == byte(effect.Orphans) ||
			!op.Delete && op.Key[0] == byte(effect.Rows) && op.Value[0] != byte(command.String) {
			return true
		}
	}
	return false
}

// noteHousework notes which keys of the batch expire, and whether it left
// elements behind.
func (x *executor) noteHousework() {
	batch, err := effect.Parse(x.env.Effects().Bytes())
	if err != nil {
		return
	}
	for _, op := range batch.All() {
		if op.Delete {
			continue
		}
		switch effect.Table(op.Key[0]) {
		case effect.Orphans:
			x.orphans.Store(true)
		case effect.Expiry:
			if at, err := command.DecodeExpiry(op.Value); err == nil {
				x.expiries.add(op.Key[1:], at)
			}
		}
	}
}

// briefly is a State that refuses nobody because others have too many scans open: what is
// committed has to be followed.
type briefly struct{ State }

// Scan implements [command.Reader].
func (b briefly) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	if s, ok := b.State.(interface {
		ScanBriefly(start, end []byte, reverse bool, visit func(key, value []byte) bool) error
	}); ok {
		return s.ScanBriefly(start, end, reverse, visit)
	}
	return b.State.Scan(start, end, reverse, visit)
}
