package txn

import (
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/partition"
)

// Reserve asks the group for a place in its [ReservationQueue]. The reply reports whether all
// spans are held by now (see [IsReserved]); if not, ask again in a while, with the same ID.
// Nothing is stored: after a crash of the group the reservation is gone, and the transaction is
// one like any other.
//
// A transaction asks its groups one after the other, in the order of their ids and
// for all that it needs of a group at once, and goes on to the next when it has
// that. In any other order two could wait for each other until their deadline: a
// group may own ranges on both sides of another's.
type Reserve struct {
	siteBinding
	ID         ID
	Spans      []ReservedSpan
	DeadlineMS int64
}

// Eval asks.
func (c *Reserve) Eval(e *command.Env) command.Reply {
	if c.ID == (ID{}) || len(c.Spans) == 0 {
		return failedReply(fmt.Errorf("%w: a reservation needs an ID and spans", ErrBadParticipant))
	}
	for _, x := range c.Spans {
		if err := c.site.checkOwned(x.Span); err != nil {
			return failedReply(err)
		}
	}
	c.site.reservations.Expire(e.ClockMS())
	if e.ClockMS() > c.DeadlineMS {
		return failedReply(ErrDeadline)
	}
	reply := command.Reply{Kind: command.Int}
	if c.site.reservations.Reserve(c.ID, c.Spans, c.DeadlineMS) {
		reply.Int = 1
	}
	return reply
}

// IsReserved reads the reply to a Hold.
func IsReserved(r command.Reply) bool { return r.Err == nil && r.Int == 1 }

// Release takes a transaction out of the queue, and all whose deadline has passed: their owners
// may have died. Without any Reserve or Release, the housekeeping of the group does that
// ([ReservationQueue.Expire]). The reply is how many are left.
type Release struct {
	siteBinding
	ID ID
}

// Eval releases.
func (c *Release) Eval(e *command.Env) command.Reply {
	c.site.reservations.Release(c.ID)
	c.site.reservations.Expire(e.ClockMS())
	return command.Reply{Kind: command.Int, Int: int64(c.site.reservations.Len())}
}

// ReservationQueue is the queue of transactions and plain writes that were turned away too
// often, in one group. Each asks its groups, in the order of their ids, to hold what it needs
// (see [Reserve]), evaluates when it has all of it, and then commits like any other. First come,
// first served, so none starves; and as all ask in the same order, they never wait in a circle.
//
// Reservations keep other transactions from beginning. A nil *ReservationQueue has none. They
// are in memory only, and protect nothing: what was read is validated all the same.
type ReservationQueue struct {
	queue    []reservation // in the order in which they asked
	released uint64        // how many have left it
}

type reservation struct {
	id         ID
	spans      []ReservedSpan
	deadlineMS int64
	granted    bool
	plainOnly  bool // all spans are
}

// ReservedSpan is a key or a range that a transaction needs, or a plain write.
type ReservedSpan struct {
	Span  partition.Span // of one key: KeySpan
	Write bool
	// Plain means that a plain write needs it. It reads nothing before it has its reservation,
	// so two of them do not wait for each other: they would go on to queue, one write of the log
	// for each, when the transactions that made them do so have long left.
	Plain bool
}

// Reserve queues a transaction and reports whether everything it asks for is reserved for it. If not,
// a later Release or Expire returns it. To ask again is to get the same answer, and to stay
// until a later deadline: the asking transaction has not died.
func (h *ReservationQueue) Reserve(id ID, spans []ReservedSpan, deadlineMS int64) (granted bool) {
	if i := h.indexOf(id); i >= 0 {
		h.queue[i].deadlineMS = max(h.queue[i].deadlineMS, deadlineMS)
		return h.queue[i].granted
	}
	plain := !slices.ContainsFunc(spans, func(c ReservedSpan) bool { return !c.Plain })
	h.queue = append(h.queue, reservation{id: id, spans: spans, deadlineMS: deadlineMS, plainOnly: plain})
	return len(h.grantFrom(len(h.queue)-1)) > 0
}

// Release takes a transaction out of the queue and returns those that are granted by that.
func (h *ReservationQueue) Release(id ID) []ID {
	return h.removeMatching(func(x reservation) bool { return x.id == id })
}

// Expire is Release of all whose deadline has passed.
func (h *ReservationQueue) Expire(nowMS int64) []ID {
	return h.removeMatching(func(x reservation) bool { return nowMS > x.deadlineMS })
}

// Check returns ErrReserved if a transaction other than id comes first in a span. A write,
// Prepare or Decide of a transaction that has not asked gives way to all that have asked; one
// that has, to those before it. A plain write has asked for its own spans only: others were
// given their turns while it had its own.
func (h *ReservationQueue) Check(id ID, c ReservedSpan) error {
	for i := range h.queue {
		x := &h.queue[i]
		if x.id == id && (!c.Plain || x.overlapsSpan(c.Span)) {
			return nil
		}
		if x.id != id && x.conflictsWith(c) {
			return ErrReserved
		}
	}
	return nil
}

// Len returns how many have asked and not been released.
func (h *ReservationQueue) Len() int {
	if h == nil {
		return 0
	}
	return len(h.queue)
}

// ReleasedCount counts those that were released: a transaction behind one looks again when the
// count has grown.
func (h *ReservationQueue) ReleasedCount() uint64 { return h.released }

func (h *ReservationQueue) removeMatching(matches func(reservation) bool) (granted []ID) {
	before := len(h.queue)
	h.queue = slices.DeleteFunc(h.queue, matches)
	if before == len(h.queue) {
		return nil
	}
	h.released += uint64(before - len(h.queue))
	return h.grantFrom(0)
}

func (h *ReservationQueue) indexOf(id ID) int {
	return slices.IndexFunc(h.queue, func(x reservation) bool { return x.id == id })
}

// grantFrom grants its turn to each reservation from one on that has no conflict with one before
// it, also if that one waits itself: a later one that overtook it would do so for ever.
func (h *ReservationQueue) grantFrom(from int) (granted []ID) {
	var firm []*reservation // of those before that are known: a plain one conflicts with no others
	known := 0
	for i := from; i < len(h.queue); i++ {
		x := &h.queue[i]
		if x.granted {
			continue
		}
		for ; x.plainOnly && known < i; known++ {
			if before := &h.queue[known]; !before.plainOnly {
				firm = append(firm, before)
			}
		}
		if !h.isBlocked(i, firm) {
			x.granted = true
			granted = append(granted, x.id)
		}
	}
	return granted
}

// isBlocked reports whether one in the queue has a conflict with one before it. firm are those before
// it that are not plain.
func (h *ReservationQueue) isBlocked(i int, firm []*reservation) bool {
	x := &h.queue[i]
	conflict := func(before *reservation) bool {
		return slices.ContainsFunc(x.spans, before.conflictsWith)
	}
	if x.plainOnly {
		return slices.ContainsFunc(firm, conflict)
	}
	for j := range i {
		if conflict(&h.queue[j]) {
			return true
		}
	}
	return false
}

func (h *reservation) overlapsSpan(s partition.Span) bool {
	return slices.ContainsFunc(h.spans, func(mine ReservedSpan) bool { return mine.Span.Overlaps(s) })
}

func (h *reservation) conflictsWith(c ReservedSpan) bool {
	return slices.ContainsFunc(h.spans, func(mine ReservedSpan) bool {
		return (mine.Write || c.Write) && !(mine.Plain && c.Plain) && mine.Span.Overlaps(c.Span)
	})
}
