package group

import (
	"context"
	"errors"
	"time"

	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// ErrSkipped means that a request was not executed because one before it on the same
// chain has to wait, has met a closed gate, or is of another group.
var ErrSkipped = errors.New("group: behind a request that was not executed")

// Pipeline is a list of requests that are executed in order, each by itself, with as few
// writes of the log as it takes. Their groups share a log: what the requests of one write
// becomes visible at one moment with what those of the others do, so whoever sees what a
// request has written sees what those before it have. It keeps its memory: reset it and
// use it again. It belongs to one goroutine at a time.
type Pipeline struct {
	calls []*call
	errs  []error
	// groups are those of the calls.
	groups []*Group
	// haltedChains are the chains whose calls are not executed any more.
	haltedChains map[uint64]bool
}

// Add appends a request to a group. Those with the same chain, if that is not 0, are
// executed in order or not at all: if one meets a closed gate, a lock, a range that is given
// away or a disk, those behind it are not executed, and their error is ErrBehind.
func (m *Pipeline) Add(g *Group, r Request, chain uint64) {
	if len(m.calls) < cap(m.calls) {
		m.calls = m.calls[:len(m.calls)+1]
	} else {
		m.calls = append(m.calls, nil)
	}
	c := m.calls[len(m.calls)-1]
	if c == nil {
		c = new(call)
		m.calls[len(m.calls)-1] = c
	}
	*c = call{Request: r, chain: chain, groupIndex: m.groupIndex(g)}
}

// groupIndex is that of a group among those of the list.
func (m *Pipeline) groupIndex(g *Group) int {
	for i := range m.groups {
		if m.groups[i] == g {
			return i
		}
	}
	m.groups = append(m.groups, g)
	return len(m.groups) - 1
}

// Len is how many requests there are.
func (m *Pipeline) Len() int { return len(m.calls) }

// Reply returns what became of a request, as Try would.
func (m *Pipeline) Reply(i int) (command.Reply, error) { return m.calls[i].reply, m.errs[i] }

// Reset empties the list.
func (m *Pipeline) Reset() {
	for _, c := range m.calls {
		*c = call{}
	}
	clear(m.groups)
	m.calls, m.groups = m.calls[:0], m.groups[:0]
}

// Try executes the requests: see [Group.Try]. What the list points to is the groups' until
// it returns, so nothing can make it return early. If they are of one group, and more than
// its queue takes, none is executed.
func (m *Pipeline) Try() {
	m.errs = append(m.errs[:0], make([]error, len(m.calls))...)
	switch len(m.groups) {
	case 0:
	case 1:
		g := m.groups[0]
		if err := g.actor.CallBatch(context.Background(), m.calls, m.errs); err != nil {
			for i := range m.errs {
				m.errs[i] = g.mailboxError(err)
			}
		}
	default:
		m.tryGroups()
	}
}

// WriteDelay is for how long a writer of a position is held up: wait so long before it is
// written by [Pipeline.Try], which does not.
func (g *Group) WriteDelay(at partition.Position) time.Duration {
	return g.throttle.delayAt(at)
}

// isChainHalted reports whether a call must not be executed, because one of its chain was not.
func (x *executor) isChainHalted(c *call) bool {
	return c.chain != 0 && len(x.haltedChains) > 0 && x.haltedChains[c.chain]
}

// maybeHaltChain notes that the calls of a chain are not executed any more in this run, if its
// last one was not. For one whose gate was closed execute does it.
func (x *executor) maybeHaltChain(c *call) {
	if err := c.reply.Err; err != nil && (isRetryable(err) || errors.Is(err, ownership.ErrWrongGroup) || errors.Is(err, ErrWouldBlock)) {
		x.haltChain(c)
	}
}

// haltChain notes it for the chain of a call.
func (x *executor) haltChain(c *call) {
	if c.chain == 0 {
		return
	}
	if x.haltedChains == nil {
		x.haltedChains = map[uint64]bool{}
	}
	x.haltedChains[c.chain] = true
}

// pipelineBatch is the requests of a list as batches of their groups.
type pipelineBatch struct {
	multiGroupBatch
	pipeline *Pipeline
	// closedErrs is why a group of the list takes no requests any more. seats are the places of
	// the others in the batch.
	closedErrs   []error
	stateIndexes []int
}

// tryGroups executes requests of several groups.
func (m *Pipeline) tryGroups() {
	b := &pipelineBatch{pipeline: m, closedErrs: make([]error, len(m.groups)), stateIndexes: make([]int, len(m.groups))}
	for {
		b.assignStates()
		err := actor.DoAll(context.Background(), collectActors(b.groups), b.run)
		var closed *actor.ShardError
		switch {
		case err == nil:
			return
		case errors.As(err, &closed): // nothing was executed
			g := b.groups[closed.Shard]
			b.closedErrs[m.groupIndex(g)] = g.mailboxError(closed.Err)
		default:
			for i, c := range m.calls {
				m.errs[i] = m.groups[c.groupIndex].mailboxError(err)
			}
			b.abandonPiggybacked(err)
			return
		}
	}
}

// assignStates gives the groups that are open a place.
func (b *pipelineBatch) assignStates() {
	b.groups = nil
	for i, g := range b.pipeline.groups {
		if b.closedErrs[i] == nil {
			b.stateIndexes[i] = len(b.groups)
			b.groups = append(b.groups, g)
		}
	}
}

// run executes all calls, in as many batches as it takes.
func (b *pipelineBatch) run(states []*executor) {
	b.setStates(states)
	if b.pipeline.haltedChains == nil {
		b.pipeline.haltedChains = map[uint64]bool{}
	}
	clear(b.pipeline.haltedChains)
	for _, x := range states {
		x.answerBytes, x.reader.uncachedReads = 0, 0
		if !plant.Bug("group-chain-of-one-group") {
			x.haltedChains = b.pipeline.haltedChains // a chain goes through all of them
		}
		defer func() { x.haltedChains = nil }()
	}
	for from := 0; from < len(b.pipeline.calls); {
		from = b.runBatch(from)
	}
	b.countCalls()
}

// countCalls counts the calls for the metrics of their groups.
func (b *pipelineBatch) countCalls() {
	calls := make([]uint64, len(b.groups))
	for _, c := range b.pipeline.calls {
		if x, seat := b.stateOf(c); x != nil {
			calls[seat]++
		}
	}
	for i, g := range b.groups {
		g.multiGroupCommands.Add(calls[i])
		g.multiGroupBatches.Add(1)
	}
}

// runBatch executes calls from one on as one batch, and returns where it ends.
func (b *pipelineBatch) runBatch(from int) (end int) {
	b.raiseCeilings()
	for _, c := range b.pipeline.calls[from:] {
		if x, seat := b.stateOf(c); x != nil && b.refusedErrs[seat] == nil {
			b.refusedErrs[seat] = x.admitCall(c)
		}
	}
	b.beginBatches()
	end = b.evalCalls(from)
	err := b.commit(false)
	b.finishBatches(err)
	if err != nil {
		b.answerRefused(from, end, err)
		return end
	}
	for i := from; i < end; i++ {
		if b.pipeline.errs[i] == nil {
			copyReply(b.pipeline.calls[i])
		}
	}
	return end
}

// stateOf returns the state of the group of a call, and its seat; nil if it is gone.
func (b *pipelineBatch) stateOf(c *call) (*executor, int) {
	if b.closedErrs[c.groupIndex] != nil {
		return nil, 0
	}
	seat := b.stateIndexes[c.groupIndex]
	return b.states[seat], seat
}

// evalCalls executes calls until the batch is large enough.
func (b *pipelineBatch) evalCalls(from int) (end int) {
	size := 0
	for i := from; i < len(b.pipeline.calls); i++ {
		c := b.pipeline.calls[i]
		x, seat := b.stateOf(c)
		if x == nil || b.refusedErrs[seat] != nil {
			b.refuseCall(i, seat)
			continue
		}
		if (i-from)%prefetchAhead == 0 {
			x.prefetchRows(b.pipeline.calls[i:min(i+prefetchAhead, len(b.pipeline.calls))])
		}
		out := x.env.Effects()
		before, bytes := out.Len(), out.Size()
		x.evalCall(c)
		x.maybeHaltChain(c)
		c.hasWritten = c.hasWritten || out.Len() > before
		if size += out.Size() - bytes; x.isBatchFull() || size > maxBatchBytes {
			return i + 1
		}
	}
	return len(b.pipeline.calls)
}

// refuseCall answers a call whose group takes no part. One that only reads is executed all the
// same, if the group is alive: see executor.batch.
func (b *pipelineBatch) refuseCall(i, seat int) {
	c := b.pipeline.calls[i]
	switch {
	case b.closedErrs[c.groupIndex] != nil:
		b.pipeline.errs[i] = b.closedErrs[c.groupIndex]
	case b.pipeline.haltedChains[c.chain]:
		b.pipeline.errs[i] = ErrSkipped
	default:
		x := b.states[seat]
		if x.fatalErr == nil {
			x.answerReads(b.pipeline.calls[i : i+1])
		}
		b.pipeline.errs[i] = x.callerError(c, b.refusedErrs[seat])
	}
	if errors.Is(b.pipeline.errs[i], ownership.ErrWrongGroup) && c.chain != 0 {
		b.pipeline.haltedChains[c.chain] = true
	}
}

// answerRefused answers the calls of a batch that was refused: see executor.batch.
func (b *pipelineBatch) answerRefused(from, end int, err error) {
	for seat, x := range b.states {
		var calls []*call
		var at []int
		for i := from; i < end; i++ {
			if mine, of := b.stateOf(b.pipeline.calls[i]); mine == x && of == seat && b.pipeline.errs[i] == nil {
				calls, at = append(calls, b.pipeline.calls[i]), append(at, i)
			}
		}
		if x.fatalErr == nil {
			x.answerReads(calls)
		}
		errs := make([]error, len(calls))
		for i, c := range calls {
			errs[i] = x.callerError(c, err)
		}
		if x.fatalErr == nil {
			x.retryUrgent(calls, errs, true)
		}
		for i := range calls {
			b.pipeline.errs[at[i]] = errs[i]
		}
	}
}
