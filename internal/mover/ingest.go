package mover

import (
	"fmt"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/partition"
)

// bound is a command that knows where it is evaluated.
type bound struct{ site *own.Site }

// Bind says where the command is evaluated.
func (b *bound) Bind(s *own.Site) { b.site = s }

// reown evaluates a change of the list as a part of a command.
func (b *bound) reown(e *command.Env, c own.Reown) command.Reply {
	c.Bind(b.site)
	return c.Eval(e)
}

// incoming returns the range of a span if it is one that this job copies.
func (b *bound) incoming(job own.Job, s partition.Span) (own.Range, bool) {
	r, ok := b.site.List.One(s)
	return r, ok && same(r.Span, s) && r.State == own.Incoming && r.Job == job
}

func failed(err error) command.Reply { return command.Reply{Kind: command.Failed, Err: err} }

// Ingest brings rows into a range that is being copied. If After is Upto, they
// are a piece of the copy that began there; if not, they are what the source's
// log has between the two. The reply is how far the range has come, which is
// behind Upto if they were here before.
type Ingest struct {
	bound
	Job     own.Job
	Attempt uint64
	Span    partition.Span
	// After and Upto are places in the log of the source's store.
	After, Upto uint64
	Rows        effect.Batch
}

// Eval brings them in, if they are what comes next.
//
// A piece of the copy may come in any order and again, as long as nothing of the
// log has: each row of it is what the key had at some moment since After, and
// what has become of it later comes with the log.
func (c *Ingest) Eval(e *command.Env) command.Reply {
	r, ok := c.incoming(c.Job, c.Span)
	if !ok || r.Attempt != c.Attempt && !plant.Bug("mover-old-attempt-ingested") || r.Upto == 0 {
		return failed(fmt.Errorf("%w: job %d, attempt %d, of %v", ErrNotIncoming, c.Job, c.Attempt, c.Span))
	}
	log := c.After < c.Upto
	switch {
	case log && c.Upto <= r.Upto:
		return command.Reply{Kind: command.Int, Int: int64(r.Upto)}
	case plant.Bug("mover-old-attempt-ingested"):
	case c.After < r.Upto:
		return failed(fmt.Errorf("%w: from %d to %d, the range is at %d", ErrAhead, c.After, c.Upto, r.Upto))
	case c.After > r.Upto || c.Upto < c.After:
		return failed(fmt.Errorf("%w: from %d to %d, the range is at %d", ErrGap, c.After, c.Upto, r.Upto))
	}
	for _, op := range c.Rows.All() {
		if !Moves(op.Key, c.Span) {
			return failed(fmt.Errorf("%w: %v", ErrOutside, c.Span))
		}
		e.Redo(op)
	}
	if log {
		further := r
		further.Upto = c.Upto
		if reply := c.reown(e, own.Reown{Expect: []own.Range{r}, Become: []own.Range{further}}); reply.Err != nil {
			return reply
		}
	}
	return command.Reply{Kind: command.Int, Int: int64(c.Upto)}
}

// Clear removes rows that nobody needs: those of a range whose copy is about to
// begin, or of one that was given away or did not come. The reply is how many;
// if More, call again. A range that was cleared to the end is cleared no more:
// its positions may be another group's on the same store.
type Clear struct {
	bound
	Job own.Job
	// Attempt is the copy that is about to begin, 0 for what is left of a range.
	Attempt uint64
	Span    partition.Span
	Limit   int
	// After is a store key up to which everything was removed, for whoever knows.
	After []byte
	// Keys are what Find has found, and More that there were others; found tells
	// that it was asked.
	Keys  [][]byte
	More  bool
	found bool
}

// Urgent tells that it gives room back.
func (c *Clear) Urgent() bool { return true }

// Find looks for what is to be removed. A driver does that before the command is
// evaluated, so that the group need not wait for a search among rows that are gone;
// nobody adds any to such a range meanwhile.
func (c *Clear) Find(r command.Reader) error {
	c.Keys, c.More = nil, false
	err := each(r, c.Span, c.After, func(key, _ []byte) bool {
		if c.More = len(c.Keys) >= max(c.Limit, 1); c.More {
			return false
		}
		c.Keys = append(c.Keys, append([]byte(nil), key...))
		return true
	})
	c.found = err == nil
	return err
}

// Eval removes some of them.
func (c *Clear) Eval(e *command.Env) command.Reply {
	r, ok := c.site.List.One(c.Span)
	ok = ok && same(r.Span, c.Span) && r.Job == c.Job && r.Attempt == c.Attempt && r.Upto == 0
	// A Foreign range that was cleared to the end has an attempt, see own.Dropped.
	before := ok && r.State == own.Incoming && c.Attempt > 0
	after := ok && r.State == own.Foreign && c.Attempt == 0
	if !before && !after && !plant.Bug("mover-late-clear") {
		return failed(fmt.Errorf("%w: job %d, attempt %d, of %v", ErrServed, c.Job, c.Attempt, c.Span))
	}
	now := *c // what it finds is true of this evaluation
	if !now.found {
		if err := now.Find(e); err != nil {
			return failed(err)
		}
	}
	for _, key := range now.Keys {
		e.Delete(key)
	}
	return command.Reply{Kind: command.Int, Int: int64(len(now.Keys)), More: now.More}
}
