package node

import (
	"bytes"
	"errors"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// judges is what a view needs to tell which transactions that have locked something
// were committed at its moment.
type judges struct {
	// at are all stores at the moment: any group may be the decider, also one that
	// was removed since.
	at       []*store.Snapshot
	outcomes map[txn.ID]txn.Outcome
	// spanned tells that a range was locked. Such a lock is found far from the keys
	// that it is about, so everything is judged at once.
	spanned bool
}

func newJudges(sides []side, at []*store.Snapshot) *judges {
	j := &judges{at: at, outcomes: map[txn.ID]txn.Outcome{}}
	for i := range sides {
		j.spanned = j.spanned || sides[i].moment.spanned
		sides[i].verdict = verdict{}
	}
	return j
}

// verdict is the state of one store in a span: what is seen of it, with all done that
// was committed and is not done yet, and the other locks, nil if there are none. Keys under
// those do not expire, for nobody, as long as they are there: whoever reads a key past a view
// does not ask what was decided.
type verdict struct {
	span  partition.Span
	from  command.Reader
	locks *txn.Locks
	// written are keys of which from has what a transaction that was committed leaves: that
	// expires as others do, also if the transaction has locked a range around it.
	written *txn.Locks
}

// judgeMS is when a key is judged that was served at nowMS.
func (v *verdict) judgeMS(p partition.Position, nowMS int64) int64 {
	if v.locks == nil || v.written != nil && v.written.Key(txn.ID{}, p, false) != nil {
		return nowMS
	}
	return v.locks.JudgeMS(p, nowMS)
}

// judged returns what is seen of a side in a span. Locks are looked at where something
// is read: there may be many of them, and a transaction reads few keys. The last
// verdict is kept, because a key is asked about several times.
func (v *View) judged(s *side, span partition.Span) (*verdict, error) {
	if v.judges == nil || s.verdict.from != nil && s.verdict.span.Covers(span) {
		return &s.verdict, nil
	}
	if v.judges.spanned {
		span = partition.Whole
	}
	// The caller may use its bytes again.
	span = partition.Span{Start: bytes.Clone(span.Start), End: bytes.Clone(span.End)}
	found := verdict{span: span, from: s.snap}
	var bad error
	some := false
	err := drive.EachLock(s.snap, span, func(l txn.Lock) bool {
		var o txn.Outcome
		if o, bad = v.outcome(l); bad != nil {
			return false
		}
		some = some || o == txn.Committed
		to := &found.locks
		if o == txn.Committed && l.Write {
			to = &found.written
		}
		if *to == nil {
			*to = txn.NewLocks()
		}
		(*to).Add(l)
		return true
	})
	if err = errors.Join(err, bad); err != nil {
		return nil, err
	}
	if some {
		through, err := txn.NewThrough(s.snap, span, func(id txn.ID) bool { return v.judges.outcomes[id] == txn.Committed })
		if err != nil {
			return nil, err
		}
		found.from = through
	}
	s.verdict = found
	return &s.verdict, nil
}

// outcome tells what had become of the transaction of a lock, by the decisions of the
// same moment.
func (v *View) outcome(l txn.Lock) (txn.Outcome, error) {
	if plant.Bug("node-view-ignores-decisions") {
		return txn.Undecided, nil
	}
	o, known := v.judges.outcomes[l.Txn]
	for i := 0; i < len(v.judges.at) && !known; i++ {
		d, found, err := txn.LookUp(v.judges.at[i], l.Decider, l.Txn)
		if err != nil {
			return txn.Undecided, err
		}
		o, known = d.Outcome, found
	}
	v.judges.outcomes[l.Txn] = o
	return o, nil
}

// judgedKey is judged for the key that a position belongs to, which a group served. Most
// keys were not locked, and it knows of those.
func (v *View) judgedKey(s *side, k *known, p partition.Position) (*verdict, error) {
	if v.judges == nil || s.verdict.from != nil && s.verdict.span.Contains(p) {
		return &s.verdict, nil
	}
	whole, ok := v.node.wholeKey(p)
	switch {
	case !ok:
		return v.judged(s, partition.Whole)
	case v.judges.spanned || k.group.MayLock(whole, k.epoch):
		return v.judged(s, txn.KeySpan(whole))
	}
	s.verdict = verdict{span: txn.KeySpan(bytes.Clone(whole)), from: s.snap}
	return &s.verdict, nil
}

// around returns the span of the key that a position belongs to, with all its
// elements: what locks them is at the key. It is everything if there is no such key.
func (v *View) around(s *side, p partition.Position) partition.Span {
	if v.judges == nil || s.verdict.from != nil && s.verdict.span.Contains(p) {
		return s.verdict.span
	}
	whole, ok := v.node.wholeKey(p)
	if !ok {
		return partition.Whole
	}
	return txn.KeySpan(whole)
}

// behind returns the end of the key that the end of a span lies in, if it lies in one: the
// locks of a key come behind its row.
func (v *View) behind(end partition.Position) partition.Position {
	if v.judges == nil || plant.Bug("node-scan-misses-the-last-lock") {
		return end
	}
	if whole, ok := v.node.wholeKey(end); ok && len(whole) < len(end) {
		return txn.KeySpan(whole).End
	}
	return end
}

// wholeKey returns the key that a position belongs to, and whether there is one.
func (n *Node) wholeKey(p partition.Position) (partition.Position, bool) {
	id, err := partition.IDOf(p)
	if err != nil {
		return nil, false
	}
	if space := n.KeyspaceByID(id); space != nil {
		p, err = space.WholeKey(p)
	} else if id == system.ID {
		p, err = system.WholeKey(p)
	} else {
		return nil, false
	}
	// The edges of slots, prefixes and keys are in no key.
	return p, err == nil && len(p) > 0 && p[len(p)-1] == 1
}

// newest reads what is visible now.
func newest(p *Part) command.Reader { return p.Store }

// decided tells what became of the transaction of a lock, as far as the state of its
// decider says.
func (n *Node) decided(l txn.Lock, at func(*Part) command.Reader) (txn.Outcome, error) {
	p := n.part(l.Decider)
	if p == nil {
		return txn.Undecided, nil
	}
	d, _, err := txn.LookUp(at(p), l.Decider, l.Txn)
	return d.Outcome, err
}
