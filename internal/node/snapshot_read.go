package node

import (
	"bytes"
	"errors"
	"maps"
	"slices"

	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

// KeyClock returns the time at which to check whether a key has expired, or
// ownership.ErrWrongGroup if no group serves the key.
type KeyClock func(partition.Position) (nowMS int64, err error)

// findStore returns the side that served a position, and the group.
func (v *Snapshot) findStore(p partition.Position) (*storeSnapshot, *groupState, error) {
	for i := range v.stores {
		s := &v.stores[i]
		if k := s.groups.findServing(p); k != nil {
			return s, k, nil
		}
	}
	return nil, nil, ownership.ErrWrongGroup
}

// Get implements [command.Reader] for tables by position.
func (v *Snapshot) Get(key, dst []byte) ([]byte, bool, error) {
	if v.resolver == nil && len(v.stores) == 1 {
		return v.stores[0].visible.reader.Get(key, dst)
	}
	var seen *visibleState
	s, k, err := v.findStore(key[1:])
	switch {
	case err == nil:
		seen, err = v.visibleKey(s, k, key[1:])
	case len(v.stores) == 1: // with one store, it need not be served
		seen, err = v.visibleIn(&v.stores[0], v.wholeKeySpan(&v.stores[0], key[1:]))
	}
	if err != nil {
		return nil, false, err
	}
	return seen.reader.Get(key, dst)
}

// GetWithTime is Get with NowMS, for a caller that has a key and asks once.
func (v *Snapshot) GetWithTime(key, dst []byte) (value []byte, nowMS int64, ok bool, err error) {
	seen, nowMS, err := v.visibleAt(key[1:])
	if err != nil {
		return nil, 0, false, err
	}
	value, ok, err = seen.reader.Get(key, dst)
	return value, nowMS, ok, err
}

// visibleAt returns what is seen of a key, and the time at which its expiry was checked.
func (v *Snapshot) visibleAt(p partition.Position) (seen *visibleState, nowMS int64, err error) {
	s, k, err := v.findStore(p)
	if err != nil {
		return nil, 0, err
	}
	nowMS = k.clockMS
	seen, err = v.visibleKey(s, k, p)
	if err == nil {
		nowMS = seen.keyTimeMS(p, nowMS)
	}
	return seen, nowMS, err
}

// Scan implements [command.Reader] for tables by position. All of it must have been
// served.
func (v *Snapshot) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	span := partition.Span{Start: start[1:]}
	if end[0] == start[0] {
		span.End = end[1:]
	}
	stretches := []servedSpan{{&v.stores[0], span}}
	if len(v.stores) > 1 {
		var err error
		if stretches, err = v.splitByStore(span); err != nil {
			return err
		}
	}
	if reverse {
		slices.Reverse(stretches)
	}
	more := true
	for _, x := range stretches {
		from, to := append([]byte{start[0]}, x.span.Start...), end
		if len(x.span.End) > 0 {
			to = append([]byte{start[0]}, x.span.End...)
		}
		// The first key may begin before the span, and its locks with it.
		judged := x.span
		if around := v.wholeKeySpan(x.store, judged.Start); bytes.Compare(around.Start, judged.Start) < 0 {
			judged.Start = around.Start
		}
		judged.End = v.extendToKeyEnd(judged.End)
		seen, err := v.visibleIn(x.store, judged)
		if err != nil {
			return err
		}
		err = seen.reader.Scan(from, to, reverse, func(key, value []byte) bool {
			more = visit(key, value)
			return more
		})
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// servedSpan is what one store has of a span.
type servedSpan struct {
	store *storeSnapshot
	span  partition.Span
}

// servedUpTo returns the side that served a position, and up to where one of its groups
// served everything from there on.
func (v *Snapshot) servedUpTo(p partition.Position) (*storeSnapshot, partition.Position, error) {
	for i := range v.stores {
		if end, ok := v.stores[i].groups.servedUpTo(p); ok {
			return &v.stores[i], end, nil
		}
	}
	return nil, nil, ownership.ErrWrongGroup
}

// splitByStore cuts a span by the stores that served it.
func (v *Snapshot) splitByStore(s partition.Span) (list []servedSpan, err error) {
	for at := s.Start; ; {
		side, end, err := v.servedUpTo(at)
		if err != nil {
			return nil, err
		}
		last := endReaches(end, s.End)
		if last {
			end = s.End
		}
		if k := len(list) - 1; k >= 0 && list[k].store == side {
			list[k].span.End = end
		} else {
			list = append(list, servedSpan{side, partition.Span{Start: at, End: end}})
		}
		if last {
			return list, nil
		}
		at = end
	}
}

// NowMS returns the time at which the expiry of a key was checked: that of the group that served
// it, or that of an undecided transaction that has locked it.
func (v *Snapshot) NowMS(p partition.Position) (int64, error) {
	_, nowMS, err := v.visibleAt(p)
	return nowMS, err
}

// ClockMS returns the time of the group that served a key, whatever transaction had locked it.
func (v *Snapshot) ClockMS(p partition.Position) (int64, error) {
	_, k, err := v.findStore(p)
	if err != nil {
		return 0, err
	}
	return k.clockMS, nil
}

// CheckServed returns nil if all of a span was served, else ownership.ErrWrongGroup.
func (v *Snapshot) CheckServed(s partition.Span) error {
	if len(v.stores) == 1 {
		return v.stores[0].groups.CheckServed(s)
	}
	_, err := v.splitByStore(s)
	return err
}

// LatestMS returns the latest time that a group had, 0 if there is none: all groups of
// a store may have been removed.
func (v *Snapshot) LatestMS() (latest int64) {
	for i := range v.stores {
		for _, k := range v.stores[i].groups.states {
			latest = max(latest, k.clockMS)
		}
	}
	return latest
}

// outcomeResolver is what a view needs to determine which transactions that have locked something
// were committed at its moment.
type outcomeResolver struct {
	// snapshots are all stores at the moment: any group may be the coordinator group, also one that
	// was removed since.
	snapshots []*store.Snapshot
	outcomes  map[txn.ID]txn.Outcome
	// hasRangeLocks reports whether a range was locked. Such a lock is found far from the keys
	// that it is about, so all outcomes are resolved at once.
	hasRangeLocks bool
}

func newOutcomeResolver(sides []storeSnapshot, at []*store.Snapshot) *outcomeResolver {
	j := &outcomeResolver{snapshots: at, outcomes: map[txn.ID]txn.Outcome{}}
	for i := range sides {
		j.hasRangeLocks = j.hasRangeLocks || sides[i].groups.hasRangeLocks
		sides[i].visible = visibleState{}
	}
	return j
}

// fork returns a resolver of the same moment with outcomes of its own.
func (j *outcomeResolver) fork() *outcomeResolver {
	f := *j
	f.outcomes = maps.Clone(j.outcomes)
	return &f
}

// visibleState is the state of one store in a span: what is seen of it, with all applied that
// was committed and is not applied yet, and the other locks, nil if there are none. Keys under
// those do not expire, for any reader, as long as the locks exist: a reader of a key outside a
// snapshot does not ask what was decided.
type visibleState struct {
	span   partition.Span
	reader command.Reader
	locks  *txn.Locks
	// committed are keys of which from has what a transaction that was committed leaves: that
	// expires as others do, also if the transaction has locked a range around it.
	committed *txn.Locks
}

// keyTimeMS is when the expiry of a key is checked that was served at nowMS.
func (v *visibleState) keyTimeMS(p partition.Position, nowMS int64) int64 {
	if v.locks == nil || v.committed != nil && v.committed.FindKeyConflict(txn.ID{}, p, false) != nil {
		return nowMS
	}
	return v.locks.ExpiryCheckMS(p, nowMS)
}

// visibleIn returns what is seen of a side in a span. Locks are looked up where something is
// read: there may be many of them, and a transaction reads few keys. The last result is kept,
// because a key is asked about several times.
func (v *Snapshot) visibleIn(s *storeSnapshot, span partition.Span) (*visibleState, error) {
	if v.resolver == nil || s.visible.reader != nil && s.visible.span.Covers(span) {
		return &s.visible, nil
	}
	if v.resolver.hasRangeLocks {
		span = partition.Whole
	}
	// The caller may use its bytes again.
	span = partition.Span{Start: bytes.Clone(span.Start), End: bytes.Clone(span.End)}
	found := visibleState{span: span, reader: s.snap}
	var bad error
	some := false
	err := protocol.ScanLocks(s.snap, span, func(l txn.Lock) bool {
		var o txn.Outcome
		if o, bad = v.lookupOutcome(l); bad != nil {
			return false
		}
		some = some || o == txn.Committed
		to := &found.locks
		if o == txn.Committed && l.Write {
			to = &found.committed
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
		through, err := txn.NewResolvedReader(s.snap, span, func(id txn.ID) bool { return v.resolver.outcomes[id] == txn.Committed })
		if err != nil {
			return nil, err
		}
		found.reader = through
	}
	s.visible = found
	return &s.visible, nil
}

// lookupOutcome returns what had become of the transaction of a lock, by the decisions of the
// same moment.
func (v *Snapshot) lookupOutcome(l txn.Lock) (txn.Outcome, error) {
	o, known := v.resolver.outcomes[l.Txn]
	for i := 0; i < len(v.resolver.snapshots) && !known; i++ {
		d, found, err := txn.LookupDecision(v.resolver.snapshots[i], l.CoordinatorGroup, l.Txn)
		if err != nil {
			return txn.Undecided, err
		}
		o, known = d.Outcome, found
	}
	v.resolver.outcomes[l.Txn] = o
	return o, nil
}

// visibleKey is judged for the key that a position belongs to, which a group served. Most
// keys were not locked, and it knows of those.
func (v *Snapshot) visibleKey(s *storeSnapshot, k *groupState, p partition.Position) (*visibleState, error) {
	if v.resolver == nil || s.visible.reader != nil && s.visible.span.Contains(p) {
		return &s.visible, nil
	}
	whole, ok := v.node.wholeKey(p)
	switch {
	case !ok:
		return v.visibleIn(s, partition.Whole)
	case v.resolver.hasRangeLocks || k.group.MayHaveLock(whole, k.lockEpoch):
		return v.visibleIn(s, txn.KeySpan(whole))
	}
	s.visible = visibleState{span: txn.KeySpan(bytes.Clone(whole)), reader: s.snap}
	return &s.visible, nil
}

// wholeKeySpan returns the span of the key that a position belongs to, with all its
// elements: what locks them is at the key. It is everything if there is no such key.
func (v *Snapshot) wholeKeySpan(s *storeSnapshot, p partition.Position) partition.Span {
	if v.resolver == nil || s.visible.reader != nil && s.visible.span.Contains(p) {
		return s.visible.span
	}
	whole, ok := v.node.wholeKey(p)
	if !ok {
		return partition.Whole
	}
	return txn.KeySpan(whole)
}

// extendToKeyEnd returns the end of the key that the end of a span lies in, if it lies in one: the
// locks of a key come behind its row.
func (v *Snapshot) extendToKeyEnd(end partition.Position) partition.Position {
	if v.resolver == nil {
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
	} else if id == systemKeyspace.ID {
		p, err = systemKeyspace.WholeKey(p)
	} else {
		return nil, false
	}
	// The edges of slots, prefixes and keys are in no key.
	return p, err == nil && len(p) > 0 && p[len(p)-1] == 1
}

// newLiveReader reads what is visible now.
func newLiveReader(p *GroupHost) command.Reader { return p.Store }

// readOutcome returns what became of the transaction of a lock, as far as the state of its
// coordinator group has that.
func (n *Node) readOutcome(l txn.Lock, at func(*GroupHost) command.Reader) (txn.Outcome, error) {
	p := n.lookupGroup(l.CoordinatorGroup)
	if p == nil {
		return txn.Undecided, nil
	}
	d, _, err := txn.LookupDecision(at(p), l.CoordinatorGroup, l.Txn)
	return d.Outcome, err
}
