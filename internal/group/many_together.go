package group

import (
	"context"
	"errors"

	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/plant"
)

// manyBatch is the requests of a list as batches of their groups.
type manyBatch struct {
	together
	m *Many
	// gone is why a group of the list takes no requests any more. seats are the places of
	// the others in the batch.
	gone  []error
	seats []int
}

// tryTogether executes requests of several groups.
func (m *Many) tryTogether() {
	b := &manyBatch{m: m, gone: make([]error, len(m.groups)), seats: make([]int, len(m.groups))}
	for {
		b.seat()
		err := actor.DoAll(context.Background(), actorsOf(b.groups), b.run)
		var closed *actor.ShardError
		switch {
		case err == nil:
			return
		case errors.As(err, &closed): // nothing was executed
			g := b.groups[closed.Shard]
			b.gone[m.number(g)] = g.refused(closed.Err)
		default:
			for i, c := range m.calls {
				m.errs[i] = m.groups[c.group].refused(err)
			}
			b.abandon(err)
			return
		}
	}
}

// seat gives the groups that are open a place.
func (b *manyBatch) seat() {
	b.groups = nil
	for i, g := range b.m.groups {
		if b.gone[i] == nil {
			b.seats[i] = len(b.groups)
			b.groups = append(b.groups, g)
		}
	}
}

// run executes all calls, in as many batches as it takes.
func (b *manyBatch) run(states []*executor) {
	b.use(states)
	if b.m.halted == nil {
		b.m.halted = map[uint64]bool{}
	}
	clear(b.m.halted)
	for _, x := range states {
		x.answers, x.reader.near = 0, 0
		if !plant.Bug("group-chain-of-one-group") {
			x.halted = b.m.halted // a chain goes through all of them
		}
		defer func() { x.halted = nil }()
	}
	for from := 0; from < len(b.m.calls); {
		from = b.batch(from)
	}
	b.count()
}

// count counts the calls for the metrics of their groups.
func (b *manyBatch) count() {
	calls := make([]uint64, len(b.groups))
	for _, c := range b.m.calls {
		if x, seat := b.of(c); x != nil {
			calls[seat]++
		}
	}
	for i, g := range b.groups {
		g.joined.Add(calls[i])
		g.joinedBatches.Add(1)
	}
}

// batch executes calls from one on as one batch, and returns where it ends.
func (b *manyBatch) batch(from int) (end int) {
	b.reserve()
	for _, c := range b.m.calls[from:] {
		if x, seat := b.of(c); x != nil && b.refused[seat] == nil {
			b.refused[seat] = x.admit(c)
		}
	}
	b.begin()
	end = b.evaluate(from)
	err := b.commit(false)
	b.finish(err)
	if err != nil {
		b.takeBack(from, end, err)
		return end
	}
	for i := from; i < end; i++ {
		if b.m.errs[i] == nil {
			keepReply(b.m.calls[i])
		}
	}
	return end
}

// of returns the state of the group of a call, and its seat; nil if it is gone.
func (b *manyBatch) of(c *call) (*executor, int) {
	if b.gone[c.group] != nil {
		return nil, 0
	}
	seat := b.seats[c.group]
	return b.states[seat], seat
}

// evaluate executes calls until the batch is large enough.
func (b *manyBatch) evaluate(from int) (end int) {
	size := 0
	for i := from; i < len(b.m.calls); i++ {
		c := b.m.calls[i]
		x, seat := b.of(c)
		if x == nil || b.refused[seat] != nil {
			b.refuse(i, seat)
			continue
		}
		if (i-from)%ahead == 0 {
			x.seek(b.m.calls[i:min(i+ahead, len(b.m.calls))])
		}
		out := x.env.Effects()
		before, bytes := out.Len(), out.Size()
		x.execute(c)
		x.halt(c)
		c.wrote = c.wrote || out.Len() > before
		if size += out.Size() - bytes; x.full() || size > maxBatchBytes {
			return i + 1
		}
	}
	return len(b.m.calls)
}

// refuse answers a call whose group takes no part. One that only reads is executed all the
// same, if the group is alive: see executor.batch.
func (b *manyBatch) refuse(i, seat int) {
	c := b.m.calls[i]
	switch {
	case b.gone[c.group] != nil:
		b.m.errs[i] = b.gone[c.group]
	case b.m.halted[c.chain]:
		b.m.errs[i] = ErrBehind
	default:
		x := b.states[seat]
		if x.dead == nil {
			x.answerReads(b.m.calls[i : i+1])
		}
		b.m.errs[i] = x.outcome(c, b.refused[seat])
	}
	if errors.Is(b.m.errs[i], own.ErrWrongGroup) && c.chain != 0 {
		b.m.halted[c.chain] = true
	}
}

// takeBack answers the calls of a batch that was refused: see executor.batch.
func (b *manyBatch) takeBack(from, end int, err error) {
	for seat, x := range b.states {
		var calls []*call
		var at []int
		for i := from; i < end; i++ {
			if mine, of := b.of(b.m.calls[i]); mine == x && of == seat && b.m.errs[i] == nil {
				calls, at = append(calls, b.m.calls[i]), append(at, i)
			}
		}
		if x.dead == nil {
			x.answerReads(calls)
		}
		errs := make([]error, len(calls))
		for i, c := range calls {
			errs[i] = x.outcome(c, err)
		}
		if x.dead == nil {
			x.urge(calls, errs, true)
		}
		for i := range calls {
			b.m.errs[at[i]] = errs[i]
		}
	}
}
