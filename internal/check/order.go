package check

import "slices"

// order gives every element its place in the versions of its key.
func (l *lists) order() {
	for k := range l.keys {
		key := &l.keys[k]
		key.at = make([]int32, len(key.versions))
		for place, value := range key.versions {
			n := l.admit(int32(k), key.reader, value)
			if n != none && l.elements[n].place != none {
				l.addf(Duplicate, []int32{l.elements[n].txn, key.reader}, "T%d read %s as %s, with %d at both %d and %d",
					key.reader, key.name, brief(key.versions), value, l.elements[n].place, place)
				n = none
			}
			if key.at[place] = n; n != none {
				l.elements[n].place = int32(place)
			}
		}
	}
	for n := range l.elements {
		e := &l.elements[n]
		if e.prev != none && e.place != none && l.elements[e.prev].place > e.place {
			key := &l.keys[e.key]
			l.addf(Reordered, []int32{e.txn, key.reader}, "T%d appended %d to %s and then %d, but T%d read %s",
				e.txn, l.elements[e.prev].value, key.name, e.value, key.reader, brief(key.versions))
		}
	}
}

// admit returns the committed element of that value in a read, or none, after a
// report, if there is no such.
func (l *lists) admit(k, reader int32, value uint64) int32 {
	n, ok := l.number[value]
	name := l.keys[k].name
	if !ok {
		l.addf(Garbage, []int32{reader}, "T%d read %d in %s, which nobody appended",
			reader, value, name)
		return none
	}
	e := l.elements[n]
	switch {
	case e.key != k:
		l.addf(Garbage, []int32{e.txn, reader}, "T%d read %d in %s, but T%d appended it to %s",
			reader, value, name, e.txn, l.keys[e.key].name)
		return none
	case !l.committed[e.txn]:
		l.addf(G1a, []int32{e.txn, reader}, "T%d read %d in %s, which T%d appended, and that failed",
			reader, value, name, e.txn)
		return none
	}
	return n
}

// compare holds every read against the order. Invariant afterwards: the list of
// each read in l.reads begins the versions of its key.
func (l *lists) compare() {
	kept := l.reads[:0]
	for _, r := range l.reads {
		key := &l.keys[r.key]
		if !slices.Equal(r.list, key.versions[:len(r.list)]) {
			l.reportFork(r)
			continue
		}
		kept = append(kept, r)
		if len(r.list) == 0 {
			continue
		}
		n := key.at[len(r.list)-1]
		if n != none && l.elements[n].next && l.elements[n].txn != r.txn {
			e := l.elements[n]
			l.addf(G1b, []int32{e.txn, r.txn}, "T%d read %s up to %d, but T%d appended more to it after that",
				r.txn, key.name, e.value, e.txn)
		}
	}
	l.reads = kept
}

// reportFork reports a read that does not begin the longest one.
func (l *lists) reportFork(r read) {
	key := &l.keys[r.key]
	at := 0
	for r.list[at] == key.versions[at] {
		at++
	}
	l.addf(Forked, []int32{key.reader, r.txn}, "T%d read %s as %s, T%d as %s: they part at %d",
		key.reader, key.name, brief(key.versions), r.txn, brief(r.list), at)
	seen := map[uint64]bool{}
	for _, value := range r.list {
		if seen[value] {
			l.addf(Duplicate, []int32{r.txn}, "T%d read %s as %s, with %d twice",
				r.txn, key.name, brief(r.list), value)
		}
		seen[value] = true
		if n, ok := l.number[value]; ok && l.elements[n].key == r.key && l.elements[n].place != none {
			continue // it is in the order, so it was admitted already
		}
		if n := l.admit(r.key, r.txn, value); n != none {
			l.elements[n].forked = true
		}
	}
}

// findLost gathers what nobody saw, and reports what somebody should have.
func (l *lists) findLost() {
	for n := range l.elements {
		e := &l.elements[n]
		if e.place != none || e.forked || !l.committed[e.txn] {
			continue
		}
		key := &l.keys[e.key]
		key.unseen = append(key.unseen, int32(n))
		if last := key.last; last != none && l.history[e.txn].before(l.history[last].Call) {
			l.addf(Lost, []int32{e.txn, last}, "T%d appended %d to %s and returned before T%d, but neither that nor any other read shows it",
				e.txn, e.value, key.name, last)
		}
	}
}
