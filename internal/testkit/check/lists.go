package check

import (
	"slices"
)

// Lists reports whether transactions over lists are strictly serializable.
func Lists(history []Txn) *Report { return checkLists(history, maxSearchSteps) }

// checkLists is Lists with a search for cycles of so many steps.
func checkLists(history []Txn, steps int) *Report {
	l := &listChecker{
		history:      history,
		report:       &Report{Calls: len(history)},
		elementIndex: map[uint64]int32{},
	}
	if l.indexHistory(); l.report.Has(Malformed) {
		return l.report
	}
	l.findCommitted()
	l.orderVersions()
	l.compareReads()
	l.findLost()
	g := l.buildGraph()
	if len(g.stronglyConnected(anyEdge)) > 0 {
		newSearch(l, g, steps).run()
	}
	return l.report
}

// none stands for no element or no transaction.
const none = -1

// listChecker is a history on its way through the checker. Keys, elements and
// transactions are numbers here.
type listChecker struct {
	history      []Txn
	report       *Report
	keys         []listKey
	opKeys       [][]int32 // of transaction and step
	elements     []element
	elementIndex map[uint64]int32 // of an element
	// committed are those whose reads and appends count.
	committed []bool
	reads     []keyRead
}

// listKey is one list.
type listKey struct {
	name string
	// versions is the longest read, so the order in which elements came;
	// reader is the transaction that saw it.
	versions []uint64
	reader   int32
	// elementAt has the element at each place of versions. Invariant: one that does
	// not count (garbage, failed, a duplicate) is none.
	elementAt []int32
	// unseen are committed elements that no read shows: they lie behind all
	// versions, in an unknown order.
	unseen []int32
	// lastAppended is the element that was registered last.
	lastAppended int32
	// lastReader is the last reader, by invocation.
	lastReader int32
}

// element is one append.
type element struct {
	value    uint64
	txn, key int32
	// prev is what the same transaction appended to the same key just before;
	// next reports whether it appended another after.
	prev    int32
	hasNext bool
	// position is where it stands in key.versions, or none.
	position int32
	// forked reports whether only a read off the order shows it: nothing is known.
	forked bool
}

// keyRead is what a committed transaction saw of others in one read: its own
// appends are cut off.
type keyRead struct {
	txn, key int32
	list     []uint64
}

// indexHistory numbers keys and elements, and refuses histories that cannot be.
func (l *listChecker) indexHistory() {
	numbers := map[string]int32{}
	l.opKeys = make([][]int32, len(l.history))
	for t := range l.history {
		txn := &l.history[t]
		l.report.CheckCall(t, txn.Call)
		l.opKeys[t] = make([]int32, len(txn.Ops))
		for i := range txn.Ops {
			op := &txn.Ops[i]
			k, ok := numbers[op.Key]
			if !ok {
				k = int32(len(l.keys))
				numbers[op.Key] = k
				l.keys = append(l.keys, listKey{name: op.Key, reader: none, lastAppended: none, lastReader: none})
			}
			l.opKeys[t][i] = k
			if !op.Read {
				l.indexElement(int32(t), k, op.Element)
			}
		}
	}
}

func (l *listChecker) indexElement(t, k int32, value uint64) {
	if first, ok := l.elementIndex[value]; ok {
		f := l.elements[first].txn
		l.report.addf(Malformed, []int{int(f), int(t)}, "T%d and T%d append the same element %d: make elements unique", f, t, value)
		return
	}
	n := int32(len(l.elements))
	e := element{value: value, txn: t, key: k, prev: none, position: none}
	if newest := l.keys[k].lastAppended; newest != none && l.elements[newest].txn == t {
		e.prev = newest
		l.elements[newest].hasNext = true
	}
	l.keys[k].lastAppended = n
	l.elementIndex[value] = n
	l.elements = append(l.elements, e)
}

// findCommitted finds the transactions that count, and what they read. Beside the
// acknowledged ones these are the unknown ones of which a read that counts saw
// an element, and so on.
func (l *listChecker) findCommitted() {
	l.committed = make([]bool, len(l.history))
	var todo []int32
	for t := range l.history {
		if l.history[t].Status == OK {
			l.committed[t] = true
			todo = append(todo, int32(t))
		}
	}
	for i := 0; i < len(todo); i++ {
		l.report.Judged++
		for _, r := range l.readsOfOthers(todo[i]) {
			todo = l.observeRead(r, todo)
		}
	}
}

// observeRead notes a read, and adds to todo the unknown transactions that it shows
// to be committed.
func (l *listChecker) observeRead(r keyRead, todo []int32) []int32 {
	l.reads = append(l.reads, r)
	k := &l.keys[r.key]
	// What the longest read so far shows was looked at when that came.
	known := min(len(r.list), len(k.versions))
	if !slices.Equal(r.list[:known], k.versions[:known]) {
		known = 0
	}
	for _, value := range r.list[known:] {
		if n, ok := l.elementIndex[value]; ok {
			if w := l.elements[n].txn; !l.committed[w] && l.history[w].Status == Unknown {
				l.committed[w] = true
				todo = append(todo, w)
			}
		}
	}
	if k.reader == none || len(r.list) > len(k.versions) {
		k.versions, k.reader = r.list, r.txn
	}
	if k.lastReader == none || l.history[r.txn].Invoke > l.history[k.lastReader].Invoke {
		k.lastReader = r.txn
	}
	return todo
}

// readsOfOthers returns what a transaction read of others, one read for each state
// that it saw of a key, and reports where it contradicts itself: it must see its
// own appends at the end of a list, those and no later ones, and in front of
// them always the same.
func (l *listChecker) readsOfOthers(t int32) (reads []keyRead) {
	for i, op := range l.history[t].Ops {
		if !op.Read {
			continue
		}
		l.report.Reads++
		k := l.opKeys[t][i]
		list, ok := l.cutOwnAppends(t, i)
		if !ok {
			continue
		}
		r := keyRead{t, k, list}
		again := slices.IndexFunc(reads, func(p keyRead) bool { return p.key == k })
		switch {
		case again < 0:
			reads = append(reads, r)
		case !slices.Equal(reads[again].list, r.list):
			l.addAnomaly(Internal, []int32{t}, "T%d read %s twice and saw the others' appends change: %s, then %s",
				t, op.Key, formatList(reads[again].list), formatList(r.list))
			reads = append(reads, r)
		}
	}
	return reads
}

// cutOwnAppends returns what a read shows in front of the transaction's own appends. A
// read that shows them elsewhere, or not, is reported and proves nothing else.
func (l *listChecker) cutOwnAppends(t int32, at int) (list []uint64, ok bool) {
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
		l.addAnomaly(Internal, []int32{t}, "T%d appended %v to %s and then read it as %s: it does not see its own appends at the end",
			t, before, ops[at].Key, formatList(list))
		return nil, false
	}
	own := func(e uint64) bool { return slices.Contains(before, e) || slices.Contains(after, e) }
	if len(before)+len(after) > 0 && slices.ContainsFunc(list[:front], own) {
		l.addAnomaly(Internal, []int32{t}, "T%d read %s as %s and saw its own append where it had not put it",
			t, ops[at].Key, formatList(list))
		return nil, false
	}
	return list[:front], true
}

// orderVersions gives every element its place in the versions of its key.
func (l *listChecker) orderVersions() {
	for k := range l.keys {
		key := &l.keys[k]
		key.elementAt = make([]int32, len(key.versions))
		for place, value := range key.versions {
			n := l.lookupCommitted(int32(k), key.reader, value)
			if n != none && l.elements[n].position != none {
				l.addAnomaly(Duplicate, []int32{l.elements[n].txn, key.reader}, "T%d read %s as %s, with %d at both %d and %d",
					key.reader, key.name, formatList(key.versions), value, l.elements[n].position, place)
				n = none
			}
			if key.elementAt[place] = n; n != none {
				l.elements[n].position = int32(place)
			}
		}
	}
	for n := range l.elements {
		e := &l.elements[n]
		if e.prev != none && e.position != none && l.elements[e.prev].position > e.position {
			key := &l.keys[e.key]
			l.addAnomaly(Reordered, []int32{e.txn, key.reader}, "T%d appended %d to %s and then %d, but T%d read %s",
				e.txn, l.elements[e.prev].value, key.name, e.value, key.reader, formatList(key.versions))
		}
	}
}

// lookupCommitted returns the committed element of that value in a read, or none, after a
// report, if there is no such.
func (l *listChecker) lookupCommitted(k, reader int32, value uint64) int32 {
	n, ok := l.elementIndex[value]
	name := l.keys[k].name
	if !ok {
		l.addAnomaly(Garbage, []int32{reader}, "T%d read %d in %s, which nobody appended",
			reader, value, name)
		return none
	}
	e := l.elements[n]
	switch {
	case e.key != k:
		l.addAnomaly(Garbage, []int32{e.txn, reader}, "T%d read %d in %s, but T%d appended it to %s",
			reader, value, name, e.txn, l.keys[e.key].name)
		return none
	case !l.committed[e.txn]:
		l.addAnomaly(G1a, []int32{e.txn, reader}, "T%d read %d in %s, which T%d appended, and that failed",
			reader, value, name, e.txn)
		return none
	}
	return n
}

// compareReads holds every read against the order. Invariant afterwards: the list of
// each read in l.reads begins the versions of its key.
func (l *listChecker) compareReads() {
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
		n := key.elementAt[len(r.list)-1]
		if n != none && l.elements[n].hasNext && l.elements[n].txn != r.txn {
			e := l.elements[n]
			l.addAnomaly(G1b, []int32{e.txn, r.txn}, "T%d read %s up to %d, but T%d appended more to it after that",
				r.txn, key.name, e.value, e.txn)
		}
	}
	l.reads = kept
}

// reportFork reports a read that does not begin the longest one.
func (l *listChecker) reportFork(r keyRead) {
	key := &l.keys[r.key]
	at := 0
	for r.list[at] == key.versions[at] {
		at++
	}
	l.addAnomaly(Forked, []int32{key.reader, r.txn}, "T%d read %s as %s, T%d as %s: they part at %d",
		key.reader, key.name, formatList(key.versions), r.txn, formatList(r.list), at)
	seen := map[uint64]bool{}
	for _, value := range r.list {
		if seen[value] {
			l.addAnomaly(Duplicate, []int32{r.txn}, "T%d read %s as %s, with %d twice",
				r.txn, key.name, formatList(r.list), value)
		}
		seen[value] = true
		if n, ok := l.elementIndex[value]; ok && l.elements[n].key == r.key && l.elements[n].position != none {
			continue // it is in the order, so it was admitted already
		}
		if n := l.lookupCommitted(r.key, r.txn, value); n != none {
			l.elements[n].forked = true
		}
	}
}

// findLost gathers what no read saw, and reports what some read should have seen.
func (l *listChecker) findLost() {
	for n := range l.elements {
		e := &l.elements[n]
		if e.position != none || e.forked || !l.committed[e.txn] {
			continue
		}
		key := &l.keys[e.key]
		key.unseen = append(key.unseen, int32(n))
		if last := key.lastReader; last != none && l.history[e.txn].isBefore(l.history[last].Call) {
			l.addAnomaly(Lost, []int32{e.txn, last}, "T%d appended %d to %s and returned before T%d, but neither that nor any other read shows it",
				e.txn, e.value, key.name, last)
		}
	}
}
