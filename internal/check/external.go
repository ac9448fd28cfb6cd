package check

import "slices"

// external returns what a transaction read of others, one read for each state
// that it saw of a key, and reports where it contradicts itself: it must see its
// own appends at the end of a list, those and no later ones, and in front of
// them always the same.
func (l *lists) external(t int32) (reads []read) {
	for i, op := range l.history[t].Ops {
		if !op.Read {
			continue
		}
		l.report.Reads++
		k := l.opKeys[t][i]
		list, ok := l.cutOwn(t, i)
		if !ok {
			continue
		}
		r := read{t, k, list}
		again := slices.IndexFunc(reads, func(p read) bool { return p.key == k })
		switch {
		case again < 0:
			reads = append(reads, r)
		case !slices.Equal(reads[again].list, r.list):
			l.addf(Internal, []int32{t}, "T%d read %s twice and saw the others' appends change: %s, then %s",
				t, op.Key, brief(reads[again].list), brief(r.list))
			reads = append(reads, r)
		}
	}
	return reads
}

// cutOwn returns what a read shows in front of the transaction's own appends. A
// read that shows them elsewhere, or not, is reported and proves nothing else.
func (l *lists) cutOwn(t int32, at int) (list []uint64, ok bool) {
	ops := l.history[t].Ops
	list = ops[at].List
	var before, after []uint64 // its own appends
	for i, op := range ops {
		switch {
		case op.Read || l.opKeys[t][i] != l.opKeys[t][at]:
		case i < at:
			before = append(before, op.Element)
		default:
			after = append(after, op.Element)
		}
	}
	front := len(list) - len(before)
	if front < 0 || !slices.Equal(list[front:], before) {
		l.addf(Internal, []int32{t}, "T%d appended %v to %s and then read it as %s: it does not see its own appends at the end",
			t, before, ops[at].Key, brief(list))
		return nil, false
	}
	own := func(e uint64) bool { return slices.Contains(before, e) || slices.Contains(after, e) }
	if len(before)+len(after) > 0 && slices.ContainsFunc(list[:front], own) {
		l.addf(Internal, []int32{t}, "T%d read %s as %s and saw its own append where it had not put it",
			t, ops[at].Key, brief(list))
		return nil, false
	}
	return list[:front], true
}
