package actor

import (
	"context"
	"errors"
	"fmt"
)

// CallBatch sends all of ms as one entry of the mailbox and waits for the
// replies: rs[i] is the reply to ms[i]. The messages are handled in order and
// with none from elsewhere between them. They are accepted or refused
// together. rs must be as long as ms and must not overlap it. After
// [ErrAbandoned] rs is untouched and stays so; after a [*PanicError] its Index
// says which replies count.
func (a *Actor[S, M, R]) CallBatch(ctx context.Context, ms []M, rs []R) error {
	if len(rs) != len(ms) {
		return fmt.Errorf("%w: %d messages, %d replies", ErrBatchSize, len(ms), len(rs))
	}
	if err := a.checkFits(len(ms)); err != nil || len(ms) == 0 {
		return err
	}
	if !hasEnded(ctx) && a.combining && a.word.CompareAndSwap(nil, a.locked) {
		return a.callBatchHere(ctx, ms, rs)
	}
	n := a.getEntry(kindCallBatch)
	own := ctx.Done() != nil
	if own {
		n.copyMessages(ms)
	} else {
		clear(rs)
		n.ms, n.rs = ms, rs
	}
	if _, err := a.admitEntry(ctx, n); err != nil {
		return err
	}
	if err := a.waitForReply(ctx, n); err != nil {
		return err
	}
	if own {
		copy(rs, n.rs)
	}
	err := n.err
	a.recycleEntry(n)
	return err
}

// PostBatch sends all of ms as one entry and does not wait for them to be
// handled. The caller may reuse ms. See [Actor.Post].
func (a *Actor[S, M, R]) PostBatch(ctx context.Context, ms []M) error {
	if err := a.checkFits(len(ms)); err != nil || len(ms) == 0 {
		return err
	}
	n := a.getEntry(kindPostBatch)
	n.copyMessages(ms)
	return a.sendEntry(ctx, n)
}

// checkFits reports whether n messages can ever be in the mailbox together.
func (a *Actor[S, M, R]) checkFits(n int) error {
	if err := a.checkMade(); err != nil {
		return err
	}
	if int64(n) > a.mailboxRoom.capacity {
		return fmt.Errorf("%w: %d messages, the mailbox holds %d", ErrBatchSize, n, a.mailboxRoom.capacity)
	}
	return nil
}

// callBatchHere handles ms on the caller's goroutine, which has just taken hold of
// the free actor, straight from and into the caller's slices.
func (a *Actor[S, M, R]) callBatchHere(ctx context.Context, ms []M, rs []R) (err error) {
	if g := a.gate.Load(); g != nil {
		a.releaseActor()
		a.refused.Add(uint64(len(ms)))
		return g.err
	}
	clear(rs)
	a.directBatched.Store(a.directBatched.Load() + uint64(len(ms)))
	a.countBatch(len(ms))
	if a.shouldSample() {
		a.runTimed(ms, rs)
		a.wait.record(0)
	} else {
		a.runHandler(ms, rs)
	}
	if a.failures != nil {
		err = a.errorForRange(0, len(ms))
		a.failures = nil
	}
	a.endTurn(ctx)
	return err
}

// handleBatch runs the handler for the next entries of the line, as many as make
// one batch, and answers them. The first entry is not an exclusive request.
func (a *Actor[S, M, R]) handleBatch() {
	size, timed := 0, a.shouldSample()
	for n := a.head; n != nil && n.kind != kindExclusive; n = a.head {
		more := n.messageCount()
		if size > 0 && size+more > a.maxBatch {
			break
		}
		size += more
		timed = timed || n.enqueuedAt != 0
		a.entries = append(a.entries, n)
		a.head = n.next
	}
	a.releaseHandled(int64(size))
	a.countBatch(size)
	a.updateGatherCredit(size)
	ms := a.collectMessages()
	if timed {
		a.recordWaits()
		a.runTimed(ms, a.answers)
	} else {
		a.runHandler(ms, a.answers)
	}
	a.replyToSenders()
}

// maxGatherCredit is how many batches of one message make a caller that gathers take
// itself to be alone.
const maxGatherCredit = 64

// updateGatherCredit learns from the size of a batch whether others are about.
func (a *Actor[S, M, R]) updateGatherCredit(size int) {
	if !a.gathers {
		return
	}
	was := a.gatherCredit.Load()
	now := max(was-1, 0)
	if size > 1 {
		now = maxGatherCredit
	}
	if now != was {
		a.gatherCredit.Store(now)
	}
}

// collectMessages lays out the messages of a.entries side by side and makes room for
// the replies in a.answers. A batch that is alone is left where it is.
func (a *Actor[S, M, R]) collectMessages() []M {
	if n := a.entries[0]; len(a.entries) == 1 && n.kind != kindCall && n.kind != kindPost {
		a.answers = n.rs
		return n.ms
	}
	a.ms = a.ms[:0]
	for _, n := range a.entries {
		if n.kind == kindCall || n.kind == kindPost {
			a.ms = append(a.ms, n.message)
		} else {
			a.ms = append(a.ms, n.ms...)
		}
	}
	if cap(a.rs) < len(a.ms) {
		a.rs = make([]R, cap(a.ms))
	}
	a.answers = a.rs[:len(a.ms)]
	return a.ms
}

// replyToSenders gives the senders of a.entries what a.answers holds for them.
func (a *Actor[S, M, R]) replyToSenders() {
	lo := 0
	for i, n := range a.entries {
		a.entries[i] = nil
		hi := lo + n.messageCount()
		switch n.kind {
		case kindCall:
			n.reply = a.answers[lo]
		case kindCallBatch:
			if &n.rs[0] != &a.answers[0] {
				copy(n.rs, a.answers[lo:hi])
			}
		}
		if a.failures != nil {
			n.err = a.errorForRange(lo, hi)
		}
		lo = hi
		a.finishEntry(n)
	}
	a.entries = a.entries[:0]
	a.failures = nil
	clear(a.ms)
	clear(a.rs[:len(a.ms)])
	a.ms = a.ms[:0]
	a.answers = nil
}

// finishEntry notifies the sender of n that the reply is there. From then on n is the
// sender's; without a sender it goes back to the pool.
func (a *Actor[S, M, R]) finishEntry(n *entry[M, R]) {
	wake := n.wake
	switch n.state.Swap(stateDone) {
	case stateParked:
		wake <- struct{}{}
	case stateAbandoned:
		a.recycleEntry(n)
	}
}

// errorForRange is the error for the sender of messages lo to hi of a batch.
func (a *Actor[S, M, R]) errorForRange(lo, hi int) error {
	var errs []error
	for _, f := range a.failures {
		switch {
		case f.hi <= lo || f.lo >= hi:
		case f.panic == nil:
			if len(errs) == 0 { // else the panic before says it already
				errs = append(errs, f.poison)
			}
		case f.panic.Index < 0:
			errs = append(errs, f.panic)
		default:
			p := *f.panic
			p.Index = max(f.lo-lo, 0)
			errs = append(errs, &p)
		}
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}
