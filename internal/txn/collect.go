package txn

import (
	"bytes"

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

// subtract takes a span off a list of spans.
func subtract(list []partition.Span, s partition.Span) (left []partition.Span) {
	for _, x := range list {
		if before := (partition.Span{Start: x.Start, End: earlier(x.End, s.Start)}); len(s.Start) > 0 && !before.Empty() {
			left = append(left, before)
		}
		if behind := (partition.Span{Start: later(x.Start, s.End), End: x.End}); len(s.End) > 0 && !behind.Empty() {
			left = append(left, behind)
		}
	}
	return left
}

// earlier is the first of an end, empty for that of the space, and a position.
func earlier(end, p partition.Position) partition.Position {
	if len(end) == 0 || bytes.Compare(p, end) < 0 {
		return p
	}
	return end
}

// later is the last of two positions.
func later(a, b partition.Position) partition.Position {
	if bytes.Compare(a, b) > 0 {
		return a
	}
	return b
}
