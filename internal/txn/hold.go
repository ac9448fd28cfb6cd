package txn

import (
	"fmt"

	"github.com/cleavekv/cleave/internal/command"
)

// Hold asks the group for a place in the queue of [Holds]. The reply says whether
// all claims are held by now (see [HeldBy]); if not, ask again in a while, with
// the same ID. Nothing is stored: after a crash of the group it is as if nobody
// had asked, and the transaction is one like any other.
//
// A transaction asks its groups one after the other, in the order of their ids and
// for all that it needs of a group at once, and goes on to the next when it has
// that. In any other order two could wait for each other until their deadline: a
// group may own ranges on both sides of another's.
type Hold struct {
	bound
	ID         ID
	Claims     []Claim
	DeadlineMS int64
}

// Eval asks.
func (c *Hold) Eval(e *command.Env) command.Reply {
	if c.ID == (ID{}) || len(c.Claims) == 0 {
		return failed(fmt.Errorf("%w: a hold needs an ID and claims", ErrPart))
	}
	for _, x := range c.Claims {
		if err := c.site.owns(x.Span); err != nil {
			return failed(err)
		}
	}
	c.site.holds.Expire(e.NowMS())
	if e.NowMS() > c.DeadlineMS {
		return failed(ErrDeadline)
	}
	reply := command.Reply{Kind: command.Int}
	if c.site.holds.Ask(c.ID, c.Claims, c.DeadlineMS) {
		reply.Int = 1
	}
	return reply
}

// HeldBy reads the reply to a Hold.
func HeldBy(r command.Reply) bool { return r.Err == nil && r.Int == 1 }

// Unhold takes a transaction out of the queue, as well as all whose deadline has
// passed: their owners may have died. Where nobody asks or leaves, whoever keeps house
// for the group does that ([Holds.Expire]). The reply is how many are left.
type Unhold struct {
	bound
	ID ID
}

// Eval releases.
func (c *Unhold) Eval(e *command.Env) command.Reply {
	c.site.holds.Release(c.ID)
	c.site.holds.Expire(e.NowMS())
	return command.Reply{Kind: command.Int, Int: int64(c.site.holds.Len())}
}
