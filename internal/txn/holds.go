package txn

import (
	"slices"

	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/partition"
)

// Holds is the queue of transactions and plain writes that were turned away too often,
// in one group. Such a one asks its groups, in the order of their ids, to hold what it
// needs (see [Hold]), evaluates when it has it all, and then commits like any
// other. First come, first served; so nobody starves, and as all ask in the same
// order nobody waits in a circle.
//
// Holds keep others from beginning. A nil *Holds has none. They are in memory only, and protect
// nothing: what was read is validated all the same.
type Holds struct {
	queue []hold // in the order in which they asked
	left  uint64 // how many have left it
}

type hold struct {
	id         ID
	claims     []Claim
	deadlineMS int64
	granted    bool
	plain      bool // all claims are
}

// Claim is a key or a range that a transaction needs, or a plain write.
type Claim struct {
	Span  partition.Span // of one key: KeySpan
	Write bool
	// Plain tells that a plain write needs it. It reads nothing before it has its turn, so two
	// of them do not wait for each other: they would go on to queue, one write of the log for
	// each, when the transactions that made them do so have long left.
	Plain bool
}

// Ask queues a transaction and tells whether everything it claims is held for
// it. If not, it is told of by a later Release or Expire. To ask again is to get
// the same answer, and to stay until a later deadline: whoever asks has not died.
func (h *Holds) Ask(id ID, claims []Claim, deadlineMS int64) (granted bool) {
	if i := h.index(id); i >= 0 {
		h.queue[i].deadlineMS = max(h.queue[i].deadlineMS, deadlineMS)
		return h.queue[i].granted
	}
	plain := !slices.ContainsFunc(claims, func(c Claim) bool { return !c.Plain })
	h.queue = append(h.queue, hold{id: id, claims: claims, deadlineMS: deadlineMS, plain: plain})
	return len(h.grant(len(h.queue)-1)) > 0
}

// Release takes a transaction out of the queue and returns those whose turn has
// come.
func (h *Holds) Release(id ID) []ID {
	return h.leave(func(x hold) bool { return x.id == id })
}

// Expire is Release of all whose deadline has passed.
func (h *Holds) Expire(nowMS int64) []ID {
	return h.leave(func(x hold) bool { return nowMS > x.deadlineMS })
}

// Check returns ErrHeld if somebody other than id comes first in a span. A write, Prepare
// or Decide of one that has not asked gives way to all that have asked; one that has, to
// those before it. A plain write has asked for what it claims only: others were given their
// turns while it had its own.
func (h *Holds) Check(id ID, c Claim) error {
	for i := range h.queue {
		x := &h.queue[i]
		if x.id == id && (!c.Plain || x.claimed(c.Span)) {
			return nil
		}
		if x.id != id && x.conflicts(c) {
			return ErrHeld
		}
	}
	return nil
}

// Len returns how many have asked and not been released.
func (h *Holds) Len() int {
	if h == nil {
		return 0
	}
	return len(h.queue)
}

// Left counts those that were released: who waits behind one looks again when there
// are more.
func (h *Holds) Left() uint64 { return h.left }

func (h *Holds) leave(who func(hold) bool) (granted []ID) {
	before := len(h.queue)
	h.queue = slices.DeleteFunc(h.queue, who)
	if before == len(h.queue) {
		return nil
	}
	h.left += uint64(before - len(h.queue))
	return h.grant(0)
}

func (h *Holds) index(id ID) int {
	return slices.IndexFunc(h.queue, func(x hold) bool { return x.id == id })
}

// grant gives everybody from one on a turn who has no conflict with one before it, also one
// that waits itself: a later one that passed by would do so for ever.
func (h *Holds) grant(from int) (granted []ID) {
	var firm []*hold // of those before that are known: a plain one conflicts with no others
	known := 0
	for i := from; i < len(h.queue); i++ {
		x := &h.queue[i]
		if x.granted {
			continue
		}
		for ; x.plain && known < i; known++ {
			if before := &h.queue[known]; !before.plain {
				firm = append(firm, before)
			}
		}
		if !h.waits(i, firm) {
			x.granted = true
			granted = append(granted, x.id)
		}
	}
	return granted
}

// waits tells whether one in the queue has a conflict with one before it. firm are those before
// it that are not plain.
func (h *Holds) waits(i int, firm []*hold) bool {
	x := &h.queue[i]
	conflict := func(before *hold) bool {
		overtakes := plant.Bug("txn-holds-overtaken") && !before.granted
		return slices.ContainsFunc(x.claims, before.conflicts) && !overtakes
	}
	if x.plain {
		return slices.ContainsFunc(firm, conflict)
	}
	for j := range i {
		if conflict(&h.queue[j]) {
			return true
		}
	}
	return false
}

func (h *hold) claimed(s partition.Span) bool {
	return slices.ContainsFunc(h.claims, func(mine Claim) bool { return mine.Span.Overlaps(s) })
}

func (h *hold) conflicts(c Claim) bool {
	return slices.ContainsFunc(h.claims, func(mine Claim) bool {
		return (mine.Write || c.Write) && !(mine.Plain && c.Plain) && mine.Span.Overlaps(c.Span)
	})
}
