package txn

import (
	"bytes"
	"errors"
	"slices"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/testkit/rowtable"
	"github.com/cleavekv/cleave/partition"
)

var space = partition.Keyspace{ID: 1, Name: "test", Kind: partition.Range}

func positionOf(key string) partition.Position { return space.AppendPosition(nil, []byte(key)) }

var errWrongShard = errors.New("test: wrong shard")

// peer is a group in memory: it evaluates batches of commands and applies what
// comes out of them.
type peer struct {
	id           partition.GroupID
	store        *rowtable.Table
	env          *command.Env
	locks        *Locks
	reservations *ReservationQueue
	site         *Site
	owned        []partition.Span
	clock        int64
	next         uint64
}

func newPeer(id partition.GroupID) *peer {
	p := &peer{id: id, store: rowtable.New(), clock: 1000, next: 1, reservations: new(ReservationQueue)}
	p.env = command.NewEnv(p.store)
	p.reopen()
	return p
}

// reopen builds memory from the records, as after a crash.
func (p *peer) reopen() {
	p.locks, p.reservations = NewLocks(), new(ReservationQueue)
	if err := p.locks.Load(p.store, partition.Whole, nil); err != nil {
		panic(err)
	}
	p.locks.BeginBatch()
	p.site = NewSite(p.id, p.locks, p.reservations, p.checkOwned)
}

// checkOwned reports whether all of a span is owned.
func (p *peer) checkOwned(s partition.Span) error {
	if left := []partition.Span{s}; len(p.owned) > 0 {
		for _, mine := range p.owned {
			left = subtractSpan(left, mine)
		}
		if len(left) == 0 {
			return nil
		}
	}
	return errWrongShard
}

// evalBatch evaluates commands as one batch. If it is refused, nothing has happened.
func (p *peer) evalBatch(refuse bool, commands ...command.Command) []command.Reply {
	p.env.Begin(effect.Header{ClockMS: p.clock}, p.next)
	p.locks.BeginBatch()
	var replies []command.Reply
	for _, c := range commands {
		if x, ok := c.(SiteCommand); ok {
			x.Bind(p.site)
		}
		mark := p.locks.Savepoint()
		reply := p.env.Do(c)
		if reply.Err != nil {
			p.locks.RollbackTo(mark)
		}
		replies = append(replies, reply.Clone())
	}
	if refuse {
		p.locks.RollbackTo(0)
		return nil
	}
	batch, err := effect.Parse(bytes.Clone(p.env.Effects().Bytes()))
	if err != nil {
		panic(err)
	}
	for _, op := range batch.All() {
		p.store.Apply(op)
	}
	p.next = p.env.NextVersion()
	return replies
}

func (p *peer) evalOne(c command.Command) command.Reply { return p.evalBatch(false, c)[0] }

// hasConsistentLocks reports whether the locks in memory are those of the records.
func (p *peer) hasConsistentLocks() bool {
	fresh := NewLocks()
	if err := fresh.Load(p.store, partition.Whole, nil); err != nil {
		return false
	}
	return slices.EqualFunc(p.locks.ListAll(), fresh.ListAll(), func(a, b *Lock) bool {
		return bytes.Equal(a.recordKey(nil), b.recordKey(nil)) && bytes.Equal(a.appendRecord(nil, nil), b.appendRecord(nil, nil))
	})
}

// deleteMarks removes marks that serve no Prepare any more, among limit of them, as the
// housekeeping of a group does. The reply is how many; if More, go on with after = Bytes.
type deleteMarks struct {
	siteBinding
	// span is where to look. The group owns it.
	span  partition.Span
	after []byte
	limit int
}

// Eval forgets.
func (c *deleteMarks) Eval(e *command.Env) command.Reply {
	if err := c.site.checkOwned(c.span); err != nil {
		return failedReply(err)
	}
	from, to := effect.Marks.SpanBetween(c.span.Start, c.span.End)
	return deleteObsolete(e, from, to, c.after, c.limit, func(_, value []byte) (bool, error) {
		m, err := DecodeMark(value)
		return e.NowMS() > m.DeadlineMS, err
	})
}

// deleteDecisions does the same with the decisions of the group: those that all parts
// have confirmed, or that would be the same without a record.
type deleteDecisions struct {
	siteBinding
	after []byte
	limit int
}

// Eval forgets.
func (c *deleteDecisions) Eval(e *command.Env) command.Reply {
	from, to := DecisionSpan(c.site.group)
	return deleteObsolete(e, from, to, c.after, c.limit, func(key, value []byte) (bool, error) {
		d, err := DecodeDecision(key, value)
		return d.IsObsolete(e.NowMS()), err
	})
}

// deleteObsolete removes rows that are over.
func deleteObsolete(e *command.Env, from, to, after []byte, limit int, over func(key, value []byte) (bool, error)) command.Reply {
	if len(after) > 0 {
		from = append(bytes.Clone(after), 0)
	}
	var old [][]byte
	var last []byte
	var bad error
	seen, more := 0, false
	err := e.Scan(from, to, false, func(key, value []byte) bool {
		if more = seen == limit; more {
			return false
		}
		seen++
		last = bytes.Clone(key)
		var dead bool
		if dead, bad = over(key, value); dead && bad == nil {
			old = append(old, last)
		}
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return failedReply(err)
	}
	for _, key := range old {
		e.Delete(key)
	}
	return command.Reply{Kind: command.Int, Int: int64(len(old)), More: more, Bytes: last}
}
