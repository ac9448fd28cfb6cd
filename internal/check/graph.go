package check

// edges is a set of kinds of edges.
type edges uint8

const (
	ww edges = 1 << iota
	wr
	rw
	rt
	// through leads out of a node that is no transaction. It belongs to every
	// set: the edge into that node tells what the two are together.
	through

	anyEdge = ww | wr | rw | rt
)

// arc is an edge of the graph. About is the element that it is about: of ww and
// rw the later one, of wr the one read.
type arc struct {
	from, to int32
	about    int32
	kind     edges
}

// graph has a node for each transaction (committed or not), then one for each
// key, and one for each barrier of real time.
//
// A key's node stands between those that read or wrote the last version that
// anybody saw and those that appended what nobody saw: as many arcs as there are
// transactions, not pairs of them.
type graph struct {
	txns  int   // number of transactions
	inner int   // first node of a barrier
	arcs  []arc // by from
	first []int32
	calls []Txn
}

// out returns the arcs that leave a node.
func (g *graph) out(node int32) []arc { return g.arcs[g.first[node]:g.first[node+1]] }

// graph draws the edges that the order of versions and real time give.
//
// It is acyclic, self-loops apart, if and only if some order of the committed
// transactions explains all reads that compare has kept. For if it is acyclic,
// take any order that respects the edges: a read of k elements stands behind the
// writer of the k-th (wr) and of all before (ww), and in front of the writer of
// the next (rw) and of all after (ww, and the key's node). And no order can do
// without one of these edges.
func (l *lists) graph() *graph {
	txns := len(l.history)
	g := &graph{txns: txns, inner: txns + len(l.keys), calls: l.history}
	arcs := make([]arc, 0, len(l.elements)+2*len(l.reads)+3*txns)
	add := func(from, to, about int32, kind edges) {
		if from != to {
			arcs = append(arcs, arc{from, to, about, kind})
		}
	}
	for k := range l.keys {
		key, node := &l.keys[k], int32(txns+k)
		prev := int32(none)
		for _, n := range key.at {
			if n == none {
				continue
			}
			if prev != none {
				add(l.elements[prev].txn, l.elements[n].txn, n, ww)
			}
			prev = n
		}
		if prev != none && len(key.unseen) > 0 {
			add(l.elements[prev].txn, node, none, ww)
		}
		for _, n := range key.unseen {
			add(node, l.elements[n].txn, n, through)
		}
	}
	for _, r := range l.reads {
		key := &l.keys[r.key]
		if n := lastOf(key.at[:len(r.list)]); n != none {
			add(l.elements[n].txn, r.txn, n, wr)
		}
		if n := firstOf(key.at[len(r.list):]); n != none {
			add(r.txn, l.elements[n].txn, n, rw)
		} else if len(key.unseen) > 0 {
			add(r.txn, int32(txns)+r.key, none, rw)
		}
	}
	nodes := g.inner
	arcs, nodes = l.realTime(arcs, nodes)
	g.sort(arcs, nodes)
	return g
}

// lastOf and firstOf skip what does not count.
func lastOf(at []int32) int32 {
	for i := len(at) - 1; i >= 0; i-- {
		if at[i] != none {
			return at[i]
		}
	}
	return none
}

func firstOf(at []int32) int32 {
	for _, n := range at {
		if n != none {
			return n
		}
	}
	return none
}

// sort lays the arcs of each node side by side, in the order in which they came.
func (g *graph) sort(arcs []arc, nodes int) {
	g.first = make([]int32, nodes+1)
	for i := range arcs {
		g.first[arcs[i].from+1]++
	}
	for n := range nodes {
		g.first[n+1] += g.first[n]
	}
	g.arcs = make([]arc, len(arcs))
	next := append([]int32(nil), g.first[:nodes]...)
	for _, a := range arcs {
		g.arcs[next[a.from]] = a
		next[a.from]++
	}
}
