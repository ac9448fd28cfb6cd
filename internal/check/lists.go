package check

import "slices"

// Lists tells whether transactions over lists are strictly serializable.
func Lists(history []Txn) *Report { return judge(history, searchSteps) }

// judge is Lists with a search for cycles of so many steps.
func judge(history []Txn, steps int) *Report {
	l := &lists{
		history: history,
		report:  &Report{Calls: len(history)},
		number:  map[uint64]int32{},
	}
	if l.register(); l.report.Has(Malformed) {
		return l.report
	}
	l.commit()
	l.order()
	l.compare()
	l.findLost()
	g := l.graph()
	if len(g.knots(anyEdge)) > 0 {
		newSearch(l, g, steps).run()
	}
	return l.report
}

// none stands for no element or no transaction.
const none = -1

// lists is a history on its way through the checker. Keys, elements and
// transactions are numbers here.
type lists struct {
	history  []Txn
	report   *Report
	keys     []key
	opKeys   [][]int32 // of transaction and step
	elements []element
	number   map[uint64]int32 // of an element
	// committed are those whose reads and appends count.
	committed []bool
	reads     []read
}

// key is one list.
type key struct {
	name string
	// versions is the longest read, so the order in which elements came;
	// reader is who saw it.
	versions []uint64
	reader   int32
	// at has the element at each place of versions. Invariant: one that does
	// not count (garbage, failed, a duplicate) is none.
	at []int32
	// unseen are committed elements that no read shows: they lie behind all
	// versions, in an order that nobody knows.
	unseen []int32
	// newest is the element that was registered last.
	newest int32
	// last is who read it last, by invocation.
	last int32
}

// element is one append.
type element struct {
	value    uint64
	txn, key int32
	// prev is what the same transaction appended to the same key just before;
	// next tells whether it appended another after.
	prev int32
	next bool
	// place is where it stands in key.versions, or none.
	place int32
	// forked tells that only a read off the order shows it: nothing is known.
	forked bool
}

// read is what a committed transaction saw of others in one read: its own
// appends are cut off.
type read struct {
	txn, key int32
	list     []uint64
}

// register numbers keys and elements, and refuses histories that cannot be.
func (l *lists) register() {
	numbers := map[string]int32{}
	l.opKeys = make([][]int32, len(l.history))
	for t := range l.history {
		txn := &l.history[t]
		l.report.Admit(t, txn.Call)
		l.opKeys[t] = make([]int32, len(txn.Ops))
		for i := range txn.Ops {
			op := &txn.Ops[i]
			k, ok := numbers[op.Key]
			if !ok {
				k = int32(len(l.keys))
				numbers[op.Key] = k
				l.keys = append(l.keys, key{name: op.Key, reader: none, newest: none, last: none})
			}
			l.opKeys[t][i] = k
			if !op.Read {
				l.registerElement(int32(t), k, op.Element)
			}
		}
	}
}

func (l *lists) registerElement(t, k int32, value uint64) {
	if first, ok := l.number[value]; ok {
		f := l.elements[first].txn
		l.report.addf(Malformed, []int{int(f), int(t)}, "T%d and T%d append the same element %d: make elements unique", f, t, value)
		return
	}
	n := int32(len(l.elements))
	e := element{value: value, txn: t, key: k, prev: none, place: none}
	if newest := l.keys[k].newest; newest != none && l.elements[newest].txn == t {
		e.prev = newest
		l.elements[newest].next = true
	}
	l.keys[k].newest = n
	l.number[value] = n
	l.elements = append(l.elements, e)
}

// commit finds the transactions that count, and what they read. Beside the
// acknowledged ones these are the unknown ones of which a read that counts saw
// an element, and so on.
func (l *lists) commit() {
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
		for _, r := range l.external(todo[i]) {
			todo = l.observe(r, todo)
		}
	}
}

// observe notes a read, and adds to todo the unknown transactions that it shows
// to be committed.
func (l *lists) observe(r read, todo []int32) []int32 {
	l.reads = append(l.reads, r)
	k := &l.keys[r.key]
	// What the longest read so far shows was looked at when that came.
	known := min(len(r.list), len(k.versions))
	if !slices.Equal(r.list[:known], k.versions[:known]) {
		known = 0
	}
	for _, value := range r.list[known:] {
		if n, ok := l.number[value]; ok {
			if w := l.elements[n].txn; !l.committed[w] && l.history[w].Status == Unknown {
				l.committed[w] = true
				todo = append(todo, w)
			}
		}
	}
	if k.reader == none || len(r.list) > len(k.versions) {
		k.versions, k.reader = r.list, r.txn
	}
	if k.last == none || l.history[r.txn].Invoke > l.history[k.last].Invoke {
		k.last = r.txn
	}
	return todo
}
