package balancer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/reshard/distributor"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// ReliefDecision is what was decided about a shard or a group, and what came of it.
type ReliefDecision struct {
	// ID grows from one decision to the next.
	ID uint64 `json:"id"`
	// TimeMS is when it was made, LastMS when it was made last, and Times how often: to do nothing, for the same reason,
	// is one decision for as long as it lasts. In Unix milliseconds.
	TimeMS int64 `json:"time_ms"`
	LastMS int64 `json:"last_ms"`
	Times  int   `json:"times"`
	// Shard is what it is about, 0 if that is a group, or all of them; With the right neighbour of a merge.
	Shard partition.ShardID `json:"shard,omitempty"`
	With  partition.ShardID `json:"with,omitempty"`
	Group partition.GroupID `json:"group,omitempty"`
	To    partition.GroupID `json:"to,omitempty"`
	// Change is keep, split, move, merge or throttle, and Reason why, in words.
	Change string `json:"change"`
	Reason string `json:"reason"`
	// Class is what is wrong with the shard, Evidence the figures that show it, and Remedy what else helps: what the
	// balancer cannot do itself.
	Class    string `json:"class,omitempty"`
	Evidence string `json:"evidence,omitempty"`
	Remedy   string `json:"remedy,omitempty"`
	// Keyspace has the shard.
	Keyspace string `json:"keyspace,omitempty"`
	// Start and End are the span that it is about, as it was; none if that is a group.
	Start []byte `json:"start,omitempty"`
	End   []byte `json:"end,omitempty"`
	// Key is the key that the reason names, and Cuts are where a shard is split: keys as clients write them.
	Key  string   `json:"key,omitempty"`
	Cuts []string `json:"cuts,omitempty"`
	// Before is the work of the group when it was decided, Predicted what it was predicted to become, and Measured what it
	// was when it was judged, once JudgedMS is set. A work of 1 is all that a group can do.
	Before    float64 `json:"before"`
	Predicted float64 `json:"predicted"`
	Measured  float64 `json:"measured,omitempty"`
	JudgedMS  int64   `json:"judged_ms,omitempty"`
	// Job does it. Outcome is what became of it, and IsFinal reports that it stays done: nothing judges whether it helped.
	Job     ownership.JobID `json:"job,omitempty"`
	Outcome ReliefOutcome   `json:"outcome"`
	IsFinal bool            `json:"is_final,omitempty"`
	// Error is why it was not done, or taken back.
	Error string `json:"error,omitempty"`
	// ByHand reports that an operator has asked for it.
	ByHand bool `json:"by_hand,omitempty"`

	wroteMS int64 // when its row was written last
}

// ReliefOutcome is what became of a decision.
type ReliefOutcome string

// The outcomes.
const (
	// Kept means that nothing is done.
	Kept ReliefOutcome = "kept"
	// Proposed means that it is left to an operator.
	Proposed ReliefOutcome = "proposed"
	// Running means that a job is at work.
	Running ReliefOutcome = "running"
	// Done means that the job has ended. Only moves that relieve a group are judged.
	Done ReliefOutcome = "done"
	// Helped and DidNotHelp are the verdict of the planner on the group some time after: it holds a group that was not helped.
	Helped     ReliefOutcome = "helped"
	DidNotHelp ReliefOutcome = "did not help"
	// Refused means that the job was not begun, or taken back.
	Refused ReliefOutcome = "refused"
)

// isOpen reports whether something is still to be found out about it.
func (d *ReliefDecision) isOpen() bool {
	return d.Outcome == Running || d.Outcome == Done && !d.IsFinal
}

// isSameKeep reports whether two decisions leave the same alone for the same reason.
func (d *ReliefDecision) isSameKeep(o *ReliefDecision) bool {
	return d.Outcome == Kept && o.Outcome == Kept && d.Change == o.Change && d.Reason == o.Reason && d.Class == o.Class && d.Key == o.Key
}

// isAboutSame reports whether two decisions are about the same shard, or the same group; of a moving edge, about the same
// keyspace in a group: the shard that has the edge is another one after each split.
func (d *ReliefDecision) isAboutSame(o *ReliefDecision) bool {
	edge := distributor.MovingEdge.String()
	return d.Group == o.Group && (d.Shard == o.Shard || d.Reason == edge && o.Reason == edge && d.Keyspace == o.Keyspace)
}

const (
	// maxDecisions is how many decisions are kept: a day at one every three minutes. About 400 bytes each.
	maxDecisions = 500
	// repeatMS is after how long a decision that is made again is written again, so that it is not written each second.
	repeatMS = 60_000

	decisionPrefix = "decision/"
	piecesNote     = "pieces"
)

// decisionLog is the newest decisions: a copy of what the catalog has.
type decisionLog struct {
	node  *node.Node
	stats *loopStats

	mu     sync.Mutex
	all    []*ReliefDecision // by id
	next   uint64
	pieces []partition.ShardID
}

// noteName is the name of the row of a decision. The names are in the order of the ids.
func noteName(id uint64) string { return fmt.Sprintf("%s%020d", decisionPrefix, id) }

// load reads what an earlier balancer has decided. A decision that was running is judged as any other: its job goes on.
func (l *decisionLog) load(ctx context.Context) error {
	notes, err := l.node.Notes(ctx, decisionPrefix)
	if err != nil {
		return fmt.Errorf("read the decisions: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(notes)) {
		d := new(ReliefDecision)
		if err := json.Unmarshal(notes[name], d); err != nil {
			return fmt.Errorf("read decision %s: %w", name, err)
		}
		d.wroteMS = d.LastMS
		l.all = append(l.all, d)
		l.next = max(l.next, d.ID)
	}
	kept, err := l.node.Notes(ctx, piecesNote)
	if err == nil && kept[""] != nil {
		err = json.Unmarshal(kept[""], &l.pieces)
	}
	return err
}

// add keeps decisions, and removes the oldest beyond the limit. Those that repeat the last one about the same are
// counted with it.
func (l *decisionLog) add(ctx context.Context, decisions ...*ReliefDecision) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	notes := map[string][]byte{}
	var errs []error
	write := func(d *ReliefDecision) {
		b, err := json.Marshal(d)
		errs = append(errs, err)
		notes[noteName(d.ID)] = b
		d.wroteMS = d.LastMS
	}
	for _, d := range decisions {
		if was := l.findSame(d); was != nil {
			was.Times++
			was.Shard, was.Before, was.Predicted, was.Evidence, was.Remedy, was.LastMS = d.Shard, d.Before, d.Predicted, d.Evidence, d.Remedy, d.TimeMS
			if d.TimeMS-was.wroteMS >= repeatMS {
				write(was)
			}
			continue
		}
		l.next++
		d.ID, d.LastMS, d.Times = l.next, d.TimeMS, 1
		l.all = append(l.all, d)
		l.stats.recordOutcome(d)
		write(d)
	}
	if over := len(l.all) - maxDecisions; over > 0 {
		for _, d := range l.all[:over] {
			notes[noteName(d.ID)] = nil
		}
		l.all = slices.Clone(l.all[over:])
	}
	return errors.Join(append(errs, l.node.PutNotes(ctx, notes))...)
}

// findSame returns the decision that one to keep something repeats, nil if there is none: with others to keep the same
// between them, as a reason that comes and goes is one reason, but with no change. mu is held.
func (l *decisionLog) findSame(d *ReliefDecision) *ReliefDecision {
	for _, was := range slices.Backward(l.all) {
		switch {
		case !was.isAboutSame(d):
		case was.isSameKeep(d):
			return was
		case was.Outcome != Kept:
			return nil
		}
	}
	return nil
}

// update changes a decision.
func (l *decisionLog) update(ctx context.Context, id uint64, change func(*ReliefDecision)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ok := slices.BinarySearchFunc(l.all, id, func(d *ReliefDecision, id uint64) int { return cmp.Compare(d.ID, id) })
	if !ok {
		return nil // it was removed for newer ones
	}
	c := *l.all[i]
	change(&c)
	if c.Outcome != l.all[i].Outcome {
		l.stats.recordOutcome(&c)
	}
	l.all[i] = &c
	b, err := json.Marshal(&c)
	return errors.Join(err, l.node.PutNotes(ctx, map[string][]byte{noteName(id): b}))
}

// lastID is the id of the newest decision.
func (l *decisionLog) lastID() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next
}

// open returns the decisions about which something is still to be found out.
func (l *decisionLog) open() (open []ReliefDecision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.all {
		if d.isOpen() {
			open = append(open, *d)
		}
	}
	return open
}

// newest returns the newest decisions that match, the newest first.
func (l *decisionLog) newest(n int, match func(*ReliefDecision) bool) (found []ReliefDecision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range slices.Backward(l.all) {
		if len(found) == n {
			break
		}
		if match(d) {
			found = append(found, *d)
		}
	}
	return found
}

// setPieces keeps which shards splits have made, if that has changed.
func (l *decisionLog) setPieces(ctx context.Context, pieces []partition.ShardID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Equal(pieces, l.pieces) {
		return nil
	}
	b, err := json.Marshal(pieces)
	if err != nil {
		return err
	}
	if len(pieces) == 0 {
		b = nil
	}
	if err := l.node.PutNotes(ctx, map[string][]byte{piecesNote: b}); err != nil {
		return err
	}
	l.pieces = pieces
	return nil
}

// String is a decision in a line.
func (d *ReliefDecision) String() string {
	what := d.Change
	switch {
	case d.Shard != 0 && d.With != 0:
		what += fmt.Sprintf(" %v and %v", d.Shard, d.With)
	case d.Shard != 0:
		what += " " + d.Shard.String()
	case d.Group != 0:
		what += " " + d.Group.String()
	}
	if d.To != 0 {
		what += " to " + d.To.String()
	}
	if d.Key != "" {
		what += ", key " + strconv.Quote(d.Key)
	}
	return fmt.Sprintf("%s: %s; %s", what, d.Reason, d.Outcome)
}
