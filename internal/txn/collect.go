package txn

import (
	"bytes"
	"slices"
	"sort"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/partition"
)

// KeepMS is for how long after the deadline a decision is kept that all parts
// have heard of, in milliseconds: its coordinator may not have. Ten seconds are
// many times what a message takes, and such a record is some 30 bytes.
const KeepMS = 10_000

// Collect tells a decider which spans are resolved: their owners at that time
// have confirmed it. When all are, the decision is forgotten, but not before
// KeepMS after the deadline: until the deadline it keeps a late Decide away, and
// then it answers one. The reply is how many spans are left.
type Collect struct {
	bound
	ID        ID
	Decider   partition.GroupID
	Confirmed []partition.Span
}

// Eval takes the confirmed spans off the decision.
func (c *Collect) Eval(e *command.Env) command.Reply {
	d, ok, err := LookUp(e, c.Decider, c.ID)
	switch {
	case err != nil:
		return failed(err)
	case c.Decider != c.site.group:
		return failed(ErrDecider)
	case !ok:
		return command.Reply{Kind: command.Int}
	}
	before := len(d.Spans)
	for _, s := range c.Confirmed {
		d.Spans = subtract(d.Spans, s)
	}
	if plant.Bug("txn-collect-unconfirmed") {
		d.Spans = nil
	}
	key := decisionKey(nil, c.site.group, c.ID)
	switch {
	case d.Over(e.NowMS()):
		e.Delete(key)
	case before != len(d.Spans) || len(c.Confirmed) > 0:
		e.Put(key, d.append(nil))
	}
	return command.Reply{Kind: command.Int, Int: int64(len(d.Spans))}
}

// Urgent tells that it makes room.
func (c *Collect) Urgent() bool { return true }

// Over tells whether nobody asks for the decision any more, or would be told the
// same without it.
func (d *Decision) Over(nowMS int64) bool {
	if plant.Bug("txn-decision-not-kept") {
		return len(d.Spans) == 0
	}
	if d.Outcome == Aborted {
		return nowMS > d.DeadlineMS
	}
	return nowMS > d.DeadlineMS+KeepMS && len(d.Spans) == 0
}

// subtract takes a span off a list of spans that are in order and do not overlap. The list
// is changed: there may be thousands, which are taken off one by one.
func subtract(list []partition.Span, s partition.Span) []partition.Span {
	first := sort.Search(len(list), func(i int) bool {
		return len(list[i].End) == 0 || bytes.Compare(list[i].End, s.Start) > 0
	})
	end := len(list)
	if len(s.End) > 0 {
		end = sort.Search(len(list), func(i int) bool { return bytes.Compare(list[i].Start, s.End) >= 0 })
	}
	if first >= end {
		return list
	}
	var left []partition.Span // of those that reach beyond it
	if before := list[first].Start; bytes.Compare(before, s.Start) < 0 {
		left = append(left, partition.Span{Start: before, End: s.Start})
	}
	if last := list[end-1].End; len(s.End) > 0 && (len(last) == 0 || bytes.Compare(s.End, last) < 0) {
		left = append(left, partition.Span{Start: s.End, End: last})
	}
	return slices.Replace(list, first, end, left...)
}
