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
		r := read{t, k, l.cutOwn(t, i)}
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

// cutOwn returns what a read shows in front of the transaction's own appends.
func (l *lists) cutOwn(t int32, at int) []uint64 {
	ops := l.history[t].Ops
	list := ops[at].List
	var before, all []uint64
	for i, op := range ops {
		if !op.Read && l.opKeys[t][i] == l.opKeys[t][at] {
			all = append(all, op.Element)
			if i < at {
				before = append(before, op.Element)
			}
		}
	}
	if len(all) == 0 {
		return list
	}
	front := len(list) - len(before)
	if front < 0 || !slices.Equal(list[front:], before) {
		l.addf(Internal, []int32{t}, "T%d appended %v to %s and then read it as %s: it does not see its own appends at the end",
			t, before, ops[at].Key, brief(list))
		front = len(list)
	} else if slices.ContainsFunc(all, func(own uint64) bool { return slices.Contains(list[:front], own) }) {
		l.addf(Internal, []int32{t}, "T%d read %s as %s and saw its own append where it had not put it",
			t, ops[at].Key, brief(list))
	}
	for _, own := range all {
		if i := slices.Index(list[:front], own); i >= 0 {
			front = i
		}
	}
	return list[:front]
}
