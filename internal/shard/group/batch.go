package group

import (
	"context"
	"errors"
	"slices"

	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
)

// batchRun executes calls in order, in as many batches as it takes. Its goroutine holds the
// mailboxes of all participants. A batch is one write: an entry of the log for each participant
// that has something to log, all in one frame, so that all of it is visible at one moment or never.
// Requests of one group, pipelines and joint requests differ in their participants and in what a
// [call] is; there is no other executor.
type batchRun struct {
	// participants are the groups of the calls, by [call.participant]: one, or several of one log.
	participants []*executor
	// haltedChains are the chains whose calls are not executed any more in this run.
	haltedChains map[uint64]bool
	// effectBytes is how much the batch at hand has written, and tableChanged reports whether it
	// has changed an ownership table.
	effectBytes  int
	tableChanged bool
	// someRefused reports whether a participant takes no part in it.
	someRefused bool
	// Scratch: the actors of the participants, and what they log together.
	actors  []*actor.Actor[executor, *call, error]
	entries []JointEntry
}

// execute executes all calls.
func (r *batchRun) execute(calls []*call, errs []error) {
	r.reset()
	n := r.executeBatch(calls, errs)
	for n < len(calls) {
		n += r.executeBatch(calls[n:], errs[n:])
	}
}

// reset forgets what the calls before have used up.
func (r *batchRun) reset() {
	clear(r.haltedChains)
	for _, x := range r.participants {
		x.answerBytes, x.reader.uncachedReads = 0, 0
	}
}

// executeBatch executes the first n of calls as one batch, behind the piggybacked calls of all
// participants. It may be 0, if those make a batch of their own.
func (r *batchRun) executeBatch(calls []*call, errs []error) (n int) {
	if late := r.takePiggybacked(); len(late) > 0 {
		return r.executeBehind(late, calls, errs)
	}
	return r.runBatch(calls, errs)
}

// executeBehind executes all of late and the first n of calls, in one batch if late ends none.
func (r *batchRun) executeBehind(late, calls []*call, errs []error) (n int) {
	all, each := append(late, calls...), make([]error, len(late)+len(calls))
	done := 0
	defer func() {
		if done < len(late) { // it panics, and their callers do not wait for the mailbox
			notifyAll(late, ErrUnknown)
		}
	}()
	for n < len(late) {
		n += r.runBatch(all[n:], each[n:])
	}
	done = n
	for i, c := range late {
		c.notifyDone(each[i])
	}
	return copy(errs, each[len(late):n])
}

// takePiggybacked takes the calls that wait for the next batch of a participant.
func (r *batchRun) takePiggybacked() (late []*call) {
	for i, x := range r.participants {
		calls := x.piggyback.takeAll()
		for _, c := range calls {
			c.participant = i
		}
		if late == nil {
			late = calls
		} else {
			late = append(late, calls...)
		}
	}
	return late
}

// runBatch executes the first n of calls as one batch: see the states of a batch in DESIGN.md.
func (r *batchRun) runBatch(calls []*call, errs []error) (n int) {
	if len(calls) == 0 {
		return 0
	}
	r.admitCalls(calls)
	r.beginBatch()
	n, urgent := r.evalCalls(calls, errs)
	err := r.commitBatch(urgent)
	r.finishBatch(err == nil)
	calls, errs = calls[:n], errs[:n]
	if err != nil {
		r.refuseCalls(calls, errs, err)
		if !urgent && !errors.Is(err, ErrUncertain) {
			r.retryUrgent(calls, errs)
		}
		return n
	}
	for i, c := range calls {
		if errs[i] == nil {
			copyReply(c)
		}
	}
	for _, x := range r.participants {
		if x.refusedErr == nil {
			x.env.End()
		}
	}
	return n
}

// admitCalls makes the participants ready for calls. Whatever of that is a log entry of its own
// comes before any clock is paused. A participant that fails in it takes no part in the batch.
func (r *batchRun) admitCalls(calls []*call) {
	for _, x := range r.participants {
		if x.refusedErr = x.fatalErr; x.refusedErr == nil {
			x.refusedErr = x.raiseCeilings()
		}
	}
	for _, c := range calls {
		if c.joint == nil {
			r.participants[c.participant].admitCall(c)
			continue
		}
		for i := range c.joint.parts {
			part := &c.joint.parts[i]
			r.participants[part.participant].admitCall(&part.call)
		}
	}
}

// beginBatch begins the batch of each participant. It pauses their clocks until all of it is
// visible.
func (r *batchRun) beginBatch() {
	r.effectBytes, r.tableChanged, r.someRefused = 0, false, false
	for _, x := range r.participants {
		if x.refusedErr != nil {
			r.someRefused = true
			continue
		}
		x.beginBatch()
	}
}

// evalCalls executes calls until the batch is large enough, and returns how many it took. urgent
// reports whether all that write something are.
func (r *batchRun) evalCalls(calls []*call, errs []error) (n int, urgent bool) {
	urgent = true
	for i, c := range calls {
		if r.someRefused {
			if err := r.findRefusal(c); err != nil {
				errs[i] = r.refuseUnevaluated(c, err)
				continue
			}
		}
		if i%prefetchAhead == 0 && len(calls)-i > 1 {
			r.participants[c.participant].prefetchRows(calls[i:min(i+prefetchAhead, len(calls))])
		}
		errs[i] = nil
		r.evalCall(c)
		urgent = urgent && (!c.hasWritten || c.isUrgent())
		// The locks follow the table when it is durable.
		if r.effectBytes > maxBatchBytes || r.tableChanged {
			return i + 1, urgent
		}
	}
	return len(calls), urgent
}

// evalCall executes one call, and counts what it has changed.
func (r *batchRun) evalCall(c *call) {
	if c.joint != nil {
		r.evalJoint(c)
		return
	}
	x := r.participants[c.participant]
	size := x.env.Effects().Size()
	r.evalInChain(x, c)
	r.effectBytes += x.env.Effects().Size() - size
	r.tableChanged = r.tableChanged || x.guard.hasTableChanged()
}

// evalInChain executes a call of one group, unless its chain is halted.
func (r *batchRun) evalInChain(x *executor, c *call) {
	if r.isChainHalted(c) {
		c.reply, c.hasWritten = command.Reply{Kind: command.Failed, Err: ErrSkipped}, false
		return
	}
	if !x.evalCall(c) || haltsChain(c.reply.Err) {
		r.haltChain(c)
	}
}

// commitBatch logs what the participants have to log.
func (r *batchRun) commitBatch(urgent bool) (err error) {
	if len(r.participants) == 1 {
		if x := r.participants[0]; x.refusedErr == nil && x.needsLogEntry() {
			err = x.log.Commit(urgent, x.sealBatch())
		}
	} else {
		err = r.commitJoint(urgent)
	}
	if err != nil && errors.Is(err, ErrUncertain) {
		for _, x := range r.participants {
			x.fatalErr = failedError(err)
		}
	}
	return err
}

// commitJoint is commitBatch of several participants.
func (r *batchRun) commitJoint(urgent bool) error {
	entries := r.entries[:0]
	for _, x := range r.participants {
		if x.refusedErr == nil && x.needsLogEntry() {
			entries = append(entries, JointEntry{x.log, x.sealBatch()})
		}
	}
	r.entries = entries
	defer clear(entries)
	if len(entries) == 0 {
		return nil
	}
	log, ok := entries[0].Log.(JointLog)
	if !ok {
		return ErrNoSharedLog
	}
	return log.CommitJoint(urgent, entries)
}

// finishBatch publishes what the batch has changed, or takes it back. A range that one group gives
// another is owned by none of them, or by both, until both have published their tables: until then
// readers of several groups get that error.
func (r *batchRun) finishBatch(committed bool) {
	handsOver := committed && r.tableChanged && len(r.participants) > 1
	if handsOver {
		r.countTableChanges(1)
	}
	for _, x := range r.participants {
		if x.refusedErr == nil {
			x.finishBatch(committed)
		}
	}
	if handsOver {
		r.countTableChanges(-1)
	}
}

func (r *batchRun) countTableChanges(n int64) {
	for _, x := range r.participants {
		if x.refusedErr == nil {
			x.published.tableChanges.Add(n)
		}
	}
}

// findRefusal returns why a call cannot be executed in the batch at hand, or nil.
func (r *batchRun) findRefusal(c *call) error {
	if c.joint == nil {
		return r.participants[c.participant].refusedErr
	}
	for i := range c.joint.parts {
		if err := r.participants[c.joint.parts[i].participant].refusedErr; err != nil {
			return err
		}
	}
	return nil
}

// refuseUnevaluated answers a call one of whose groups takes no part in the batch.
func (r *batchRun) refuseUnevaluated(c *call, err error) error {
	c.hasWritten, c.replayed = false, false
	if r.isChainHalted(c) {
		return ErrSkipped
	}
	if err = r.refuseCall(c, err); errors.Is(err, ownership.ErrWrongGroup) {
		r.haltChain(c)
	}
	return err
}

// refuseCalls answers the calls of a batch that the log has refused, or left in doubt.
func (r *batchRun) refuseCalls(calls []*call, errs []error, err error) {
	for i, c := range calls {
		if r.findRefusal(c) == nil {
			errs[i] = r.refuseCall(c, err)
		}
	}
}

// refuseCall answers a call whose batch has an error. One that writes nothing is executed all the
// same, if its group is alive. A joint request is not: what its parts have read together they would
// have to read together again, so it is refused, unless its record was there before the batch.
func (r *batchRun) refuseCall(c *call, err error) error {
	if c.joint == nil {
		x := r.participants[c.participant]
		if x.fatalErr == nil {
			r.answerAlone(c)
		}
		return x.callerError(c, err)
	}
	if c.replayed && !c.hasWritten {
		return nil
	}
	if x := r.participants[c.joint.parts[0].participant]; x.fatalErr != nil {
		return x.callerError(c, err)
	}
	return err
}

// answerAlone evaluates a call of a refused batch again, by itself: what it saw of the batch's
// writes did not happen. If it writes nothing then it is answered, as are retries of requests that
// were executed before.
func (r *batchRun) answerAlone(c *call) {
	x := r.participants[c.participant]
	x.nowMS = x.clock.now()
	x.env.Begin(effect.Header{Seq: x.seq + 1, ClockMS: x.nowMS}, x.nextVersion)
	x.guard.beginBatch()
	r.evalInChain(x, c)
	if c.hasWritten = x.needsLogEntry(); !c.hasWritten {
		copyReply(c)
	}
	x.guard.rollbackBatch()
}

// retryUrgent executes urgent calls again that were refused together with others that are not: by
// themselves they may use the reserved disk space.
func (r *batchRun) retryUrgent(calls []*call, errs []error) {
	for i, c := range calls {
		if errs[i] != nil && c.isUrgent() {
			r.runBatch(calls[i:i+1], errs[i:i+1])
		}
	}
}

// isChainHalted reports whether a call must not be executed, because one of its chain was not.
func (r *batchRun) isChainHalted(c *call) bool {
	return c.chain != 0 && len(r.haltedChains) > 0 && r.haltedChains[c.chain]
}

// haltsChain reports whether a reply means that the calls behind it on its chain have to wait.
func haltsChain(err error) bool {
	return err != nil && (isRetryable(err) || errors.Is(err, ownership.ErrWrongGroup) || errors.Is(err, ErrWouldBlock))
}

// haltChain notes that the calls of a chain are not executed any more in this run.
func (r *batchRun) haltChain(c *call) {
	if c.chain == 0 {
		return
	}
	if r.haltedChains == nil {
		r.haltedChains = map[uint64]bool{}
	}
	r.haltedChains[c.chain] = true
}

// holdGroups calls f while no batch of groups is under way, with their executors as participants. A
// group that is closed takes part as one that has failed: its calls are refused, and those of the
// others are executed.
func (r *batchRun) holdGroups(ctx context.Context, groups []*Group, f func()) error {
	var closedErrs map[int]error // of those that are closed
	defer func() { clear(r.actors) }()
	for {
		actors := r.actors[:0]
		for i, g := range groups {
			if closedErrs[i] == nil {
				actors = append(actors, g.actor)
			}
		}
		r.actors = actors
		err := actor.DoAll(ctx, actors, func(open []*executor) {
			r.participants = slices.Grow(r.participants[:0], len(groups))
			for i := range groups {
				if closedErrs[i] != nil {
					r.participants = append(r.participants, newClosedExecutor(closedErrs[i]))
					continue
				}
				r.participants, open = append(r.participants, open[0]), open[1:]
			}
			f()
		})
		clear(r.participants) // they are others' again
		if err == nil || ctx.Err() != nil {
			return err
		}
		i, refused := findClosedGroup(groups, actors, err)
		if i < 0 {
			return err
		}
		if closedErrs == nil {
			closedErrs = map[int]error{}
		}
		closedErrs[i] = groups[i].mailboxError(refused)
	}
}

// findClosedGroup returns which of groups has refused to be held, and why; -1 if none has.
func findClosedGroup(groups []*Group, actors []*actor.Actor[executor, *call, error], err error) (int, error) {
	var panicked *actor.PanicError
	var refused *actor.ShardError
	if errors.As(err, &panicked) || !errors.As(err, &refused) {
		return -1, nil
	}
	return slices.IndexFunc(groups, func(g *Group) bool { return g.actor == actors[refused.Shard] }), refused.Err
}

// newClosedExecutor returns what stands for a group that is closed among the participants.
func newClosedExecutor(err error) *executor {
	return &executor{fatalErr: err, reader: new(executorReader), piggyback: new(piggybackQueue)}
}
