package txn

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// Decision is what became of a transaction, and the spans whose owners have yet to receive it.
type Decision struct {
	ID         ID
	Outcome    Outcome
	DeadlineMS int64
	// Spans are those of the other parts whose owners have not confirmed yet
	// that they have resolved them.
	Spans []partition.Span
}

const decisionFormat = 1

// decisionTag is the first byte behind the table of a group's own state.
const decisionTag = 'd'

// decisionKey appends the store key of a decision.
func decisionKey(dst []byte, group partition.GroupID, id ID) []byte {
	dst = append(dst, byte(effect.State), decisionTag)
	return append(binary.BigEndian.AppendUint64(dst, uint64(group)), id[:]...)
}

// appendRecord appends the record of the decision; its key has the ID.
func (d *Decision) appendRecord(dst []byte) []byte {
	dst = append(dst, decisionFormat, byte(d.Outcome))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(d.DeadlineMS))
	dst = binary.AppendUvarint(dst, uint64(len(d.Spans)))
	for _, s := range d.Spans {
		dst = appendBytes(appendBytes(dst, s.Start), s.End)
	}
	return dst
}

// DecodeDecision takes the row of a decision apart.
func DecodeDecision(key, value []byte) (Decision, error) {
	d := Decision{}
	r := recordReader{rest: value}
	if n := len(key) - len(d.ID); n == 1+1+8 && key[0] == byte(effect.State) && key[1] == decisionTag {
		copy(d.ID[:], key[n:])
	} else {
		r.setError("its key is not one")
	}
	r.checkFormat(decisionFormat)
	d.Outcome, d.DeadlineMS = Outcome(r.readByte()), int64(r.readUint64())
	if r.err == nil && (!d.Outcome.isFinal() || d.DeadlineMS < 0) {
		r.setError("it has no outcome or a bad time")
	}
	for n := r.readCount(); n > 0 && r.err == nil; n-- {
		d.Spans = append(d.Spans, partition.Span{Start: r.readBytes(), End: r.readBytes()})
	}
	if err := r.checkEnd(); err != nil {
		return Decision{}, fmt.Errorf("%w: a decision of %d and %d bytes: %w", ErrBadRecord, len(key), len(value), err)
	}
	return d, nil
}

// DecisionSpan returns the store keys of a group's decisions.
func DecisionSpan(group partition.GroupID) (from, to []byte) {
	const size = 1 + 1 + 8
	return decisionKey(nil, group, ID{})[:size], decisionKey(nil, group+1, ID{})[:size]
}

// LookupDecision returns the decision about a transaction that a group has recorded, if
// it has, in the state that r reads.
func LookupDecision(r command.Reader, group partition.GroupID, id ID) (Decision, bool, error) {
	key := decisionKey(nil, group, id)
	value, ok, err := r.Get(key, nil)
	if err != nil || !ok {
		return Decision{}, false, err
	}
	d, err := DecodeDecision(key, value)
	return d, err == nil, err
}

// ScanDecisions visits the decisions that a group keeps, in the order of their IDs, until visit
// returns false: those with spans left have yet to be resolved.
func ScanDecisions(r command.Reader, group partition.GroupID, visit func(Decision) bool) error {
	from, to := DecisionSpan(group)
	var bad error
	err := r.Scan(from, to, false, func(key, value []byte) bool {
		var d Decision
		if d, bad = DecodeDecision(key, value); bad != nil {
			return false
		}
		return visit(d)
	})
	if err == nil {
		err = bad
	}
	return err
}

// Decide decides a transaction, in the group that all its locks name. To commit
// it, all other parts are prepared; its own part is validated and done in the
// same step that records the decision. A decision never changes: the reply is
// the outcome that is recorded, whatever was asked for (see [ParseOutcome]); past
// the deadline it is Aborted without a record. If the part cannot be done now,
// the reply is an error and nothing is decided.
type Decide struct {
	siteBinding
	ID               ID
	Commit           bool
	Participant      Participant
	CoordinatorGroup partition.GroupID
	DeadlineMS       int64
	// OtherSpans are the spans of the other parts.
	OtherSpans []partition.Span
}

// Eval decides.
func (c *Decide) Eval(e *command.Env) command.Reply {
	if c.CoordinatorGroup != c.site.group {
		return failedReply(fmt.Errorf("%w: %v decides, this is %v", ErrNotCoordinator, c.CoordinatorGroup, c.site.group))
	}
	d, decided, err := c.findDecision(e)
	switch {
	case err != nil:
		return failedReply(err)
	case decided:
		return outcomeReply(d.Outcome)
	case c.Commit:
		return c.evalCommit(e)
	}
	if e.NowMS() > c.DeadlineMS {
		// It can no longer be committed: the absence of a record means the same.
		return c.replyPastDeadline(e)
	}
	c.recordDecision(e, Aborted)
	return outcomeReply(Aborted)
}

// IsUrgent reports that it ends what found space before, unless it is to commit.
func (c *Decide) IsUrgent() bool { return !c.Commit }

// replyPastDeadline is the answer about a transaction without a record past its deadline.
func (c *Decide) replyPastDeadline(e *command.Env) command.Reply {
	if e.NowMS() > c.DeadlineMS+DecisionKeepMS {
		return failedReply(ErrForgotten)
	}
	return outcomeReply(Aborted)
}

func (c *Decide) evalCommit(e *command.Env) command.Reply {
	if e.NowMS() > c.DeadlineMS {
		return c.replyPastDeadline(e)
	}
	if err := c.site.checkOwned(c.Participant.Span); err != nil {
		return failedReply(err)
	}
	t, err := c.site.tryParticipant(e, c.ID, &c.Participant)
	if err != nil {
		return failedReply(err)
	}
	for i := range t.entries {
		if err := t.entries[i].applyEffects(e); err != nil {
			return failedReply(err)
		}
	}
	c.recordDecision(e, Committed)
	return outcomeReply(Committed)
}

// findDecision returns the decision if there is one.
func (c *Decide) findDecision(e *command.Env) (Decision, bool, error) {
	s := c.site
	if !s.decisionsLoaded {
		err := ScanDecisions(e, s.group, func(d Decision) bool {
			s.decidedTxns.add(d.ID, d.DeadlineMS, e.NowMS())
			return true
		})
		if err != nil {
			return Decision{}, false, err
		}
		s.decisionsLoaded = true
	}
	if s.decidedTxns.hasNoRecord(c.ID, c.DeadlineMS, e.NowMS()) {
		return Decision{}, false, nil
	}
	return LookupDecision(e, s.group, c.ID)
}

func (c *Decide) recordDecision(e *command.Env, o Outcome) {
	c.site.decidedTxns.add(c.ID, c.DeadlineMS, e.NowMS())
	d := Decision{ID: c.ID, Outcome: o, DeadlineMS: c.DeadlineMS, Spans: c.OtherSpans}
	e.Put(decisionKey(nil, c.site.group, c.ID), d.appendRecord(nil))
}

// Inquire asks a group for its decision. The reply is an outcome: without a
// record, the transaction is Aborted from its deadline on, as no decision to
// commit is made after it, and Undecided before.
//
// A reply is about locks that still exist when it arrives: once all are resolved the decision is
// forgotten. So a caller that receives Aborted reads the lock again, and if it is gone, the key.
type Inquire struct {
	siteBinding
	ID               ID
	CoordinatorGroup partition.GroupID
	DeadlineMS       int64
}

// Eval looks the decision up.
func (c *Inquire) Eval(e *command.Env) command.Reply {
	if c.CoordinatorGroup != c.site.group {
		return failedReply(fmt.Errorf("%w: %v decides, this is %v", ErrNotCoordinator, c.CoordinatorGroup, c.site.group))
	}
	d, decided, err := LookupDecision(e, c.site.group, c.ID)
	switch {
	case err != nil:
		return failedReply(err)
	case decided:
		return outcomeReply(d.Outcome)
	case e.NowMS() > c.DeadlineMS:
		return outcomeReply(Aborted)
	}
	return outcomeReply(Undecided)
}

// DecisionKeepMS is for how long after the deadline a decision is kept that all parts have
// received, in milliseconds: its coordinator may not have. Ten seconds are many times what a
// message takes, and such a record is some 30 bytes.
const DecisionKeepMS = 10_000

// Collect reports to a coordinator group which spans are resolved: their owners at that time have confirmed it.
// When all are, the decision is forgotten, but not before DecisionKeepMS after the deadline:
// until the deadline it keeps a late Decide away, and then it answers one. The reply is how many
// spans are left.
type Collect struct {
	siteBinding
	ID               ID
	CoordinatorGroup partition.GroupID
	Confirmed        []partition.Span
}

// Eval takes the confirmed spans off the decision.
func (c *Collect) Eval(e *command.Env) command.Reply {
	d, ok, err := LookupDecision(e, c.CoordinatorGroup, c.ID)
	switch {
	case err != nil:
		return failedReply(err)
	case c.CoordinatorGroup != c.site.group:
		return failedReply(ErrNotCoordinator)
	case !ok:
		return command.Reply{Kind: command.Int}
	}
	before := len(d.Spans)
	for _, s := range c.Confirmed {
		d.Spans = subtractSpan(d.Spans, s)
	}
	key := decisionKey(nil, c.site.group, c.ID)
	switch {
	case d.IsObsolete(e.NowMS()):
		e.Delete(key)
	case before != len(d.Spans) || len(c.Confirmed) > 0:
		e.Put(key, d.appendRecord(nil))
	}
	return command.Reply{Kind: command.Int, Int: int64(len(d.Spans))}
}

// IsUrgent reports that it frees space.
func (c *Collect) IsUrgent() bool { return true }

// IsObsolete reports whether no group asks for the decision any more, or would get the same
// reply without it.
func (d *Decision) IsObsolete(nowMS int64) bool {
	if d.Outcome == Aborted {
		return nowMS > d.DeadlineMS
	}
	return nowMS > d.DeadlineMS+DecisionKeepMS && len(d.Spans) == 0
}

// subtractSpan takes a span off a list of spans that are in order and do not overlap. The list
// is changed: there may be thousands, which are taken off one by one.
func subtractSpan(list []partition.Span, s partition.Span) []partition.Span {
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

// recentTxns has the transactions of which there may be a record, each until its deadline. Most
// transactions asked for are new: recentTxns knows that, and spares a search of the store for a
// record that does not exist.
//
// Invariant: a transaction before its deadline that is not in it has no record. The code that
// writes a record adds the transaction, and the code that finds records loads them. It may have
// too many: a batch that failed leaves what it has added.
type recentTxns struct {
	deadlines  map[ID]int64
	sweepAbove int // how many there may be before those past their deadlines are looked for
}

// minSweepAbove is the size up to which expired transactions are not swept.
const minSweepAbove = 1024

func (r *recentTxns) add(id ID, deadlineMS, nowMS int64) {
	if r.deadlines == nil {
		r.deadlines = map[ID]int64{}
	}
	r.deadlines[id] = deadlineMS
	if len(r.deadlines) <= max(r.sweepAbove, minSweepAbove) {
		return
	}
	for other, ms := range r.deadlines {
		if nowMS > ms {
			delete(r.deadlines, other)
		}
	}
	r.sweepAbove = 2 * len(r.deadlines)
}

// hasNoRecord reports whether there is surely no record of a transaction.
func (r *recentTxns) hasNoRecord(id ID, deadlineMS, nowMS int64) bool {
	if nowMS > deadlineMS {
		return false // it may be no more in it
	}
	_, known := r.deadlines[id]
	return !known
}
