package check

import (
	"cmp"
	"slices"
)

// edgeKinds is a set of kinds of edges.
type edgeKinds uint8

const (
	ww edgeKinds = 1 << iota
	wr
	rw
	rt
	// viaNode leads out of a node that is no transaction. It belongs to every
	// set: the edge into that node tells what the two are together.
	viaNode

	anyEdge = ww | wr | rw | rt
)

// arc is an edge of the graph. About is the element that it is about: of ww and
// rw the later one, of wr the one read.
type arc struct {
	from, to int32
	element  int32
	kind     edgeKinds
}

// graph has a node for each transaction (committed or not), then one for each
// key, and one for each barrier of real time.
//
// A key's node stands between those that read or wrote the last version that was
// read and those that appended what was never read: as many arcs as there are
// transactions, not pairs of them.
type graph struct {
	txnCount     int   // number of transactions
	firstBarrier int   // first node of a barrier
	arcs         []arc // by from
	firstArc     []int32
	history      []Txn
}

// arcsFrom returns the arcs that leave a node.
func (g *graph) arcsFrom(node int32) []arc { return g.arcs[g.firstArc[node]:g.firstArc[node+1]] }

// buildGraph draws the edges that the order of versions and real time give.
//
// It is acyclic, self-loops apart, if and only if some order of the committed
// transactions explains all reads that compare has kept. For if it is acyclic,
// take any order that respects the edges: a read of k elements stands behind the
// writer of the k-th (wr) and of all before (ww), and in front of the writer of
// the next (rw) and of all after (ww, and the key's node). And no order can do
// without one of these edges.
func (l *listChecker) buildGraph() *graph {
	txns := len(l.history)
	g := &graph{txnCount: txns, firstBarrier: txns + len(l.keys), history: l.history}
	arcs := make([]arc, 0, len(l.elements)+2*len(l.reads)+3*txns)
	add := func(from, to, about int32, kind edgeKinds) {
		if from != to {
			arcs = append(arcs, arc{from, to, about, kind})
		}
	}
	for k := range l.keys {
		key, node := &l.keys[k], int32(txns+k)
		prev := int32(none)
		for _, n := range key.elementAt {
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
			add(node, l.elements[n].txn, n, viaNode)
		}
	}
	for _, r := range l.reads {
		key := &l.keys[r.key]
		if n := lastPresent(key.elementAt[:len(r.list)]); n != none {
			add(l.elements[n].txn, r.txn, n, wr)
		}
		if n := firstPresent(key.elementAt[len(r.list):]); n != none {
			add(r.txn, l.elements[n].txn, n, rw)
		} else if len(key.unseen) > 0 {
			add(r.txn, int32(txns)+r.key, none, rw)
		}
	}
	nodes := g.firstBarrier
	arcs, nodes = l.addRealTime(arcs, nodes)
	g.sortArcs(arcs, nodes)
	return g
}

// lastPresent and firstPresent skip what does not count.
func lastPresent(at []int32) int32 {
	for i := len(at) - 1; i >= 0; i-- {
		if at[i] != none {
			return at[i]
		}
	}
	return none
}

func firstPresent(at []int32) int32 {
	for _, n := range at {
		if n != none {
			return n
		}
	}
	return none
}

// sortArcs lays the arcs of each node side by side, in the order in which they came.
func (g *graph) sortArcs(arcs []arc, nodes int) {
	g.firstArc = make([]int32, nodes+1)
	for i := range arcs {
		g.firstArc[arcs[i].from+1]++
	}
	for n := range nodes {
		g.firstArc[n+1] += g.firstArc[n]
	}
	g.arcs = make([]arc, len(arcs))
	next := append([]int32(nil), g.firstArc[:nodes]...)
	for _, a := range arcs {
		g.arcs[next[a.from]] = a
		next[a.from]++
	}
}

// addRealTime adds the order of real time to arcs with three arcs for a
// transaction, where one for each ordered pair would be quadratic. Every
// transaction that returned has a barrier, the barriers form a chain in the order
// of their instants, and a transaction hangs from the last barrier before its
// invocation. So there is a path from one transaction to another through
// barriers alone if and only if the first returned before the second was invoked.
func (l *listChecker) addRealTime(arcs []arc, nodes int) ([]arc, int) {
	var returned, invoked []int32
	for t := range l.history {
		if !l.committed[t] {
			continue
		}
		invoked = append(invoked, int32(t))
		if l.history[t].Status == OK { // an open call is before nothing
			returned = append(returned, int32(t))
		}
	}
	slices.SortStableFunc(invoked, func(a, b int32) int { return cmp.Compare(l.history[a].Invoke, l.history[b].Invoke) })
	slices.SortStableFunc(returned, func(a, b int32) int { return cmp.Compare(l.history[a].Return, l.history[b].Return) })
	passed := 0 // barriers before the invocation
	for _, t := range invoked {
		for passed < len(returned) && l.history[returned[passed]].Return < l.history[t].Invoke {
			passed++
		}
		if passed > 0 {
			arcs = append(arcs, arc{int32(nodes + passed - 1), t, none, viaNode})
		}
	}
	for i, t := range returned {
		arcs = append(arcs, arc{t, int32(nodes + i), none, rt})
		if i > 0 {
			arcs = append(arcs, arc{int32(nodes + i - 1), int32(nodes + i), none, viaNode})
		}
	}
	return arcs, nodes + len(returned)
}

// txnComponent is a set of at least two transactions each of which reaches each other:
// every cycle lies within one. They are in the order of their invocations.
type txnComponent []int32

// stronglyConnected returns the knots that edges of these kinds form, by Tarjan's algorithm
// with a stack of its own: a history is deeper than a goroutine's may get.
func (g *graph) stronglyConnected(kinds edgeKinds) (found []txnComponent) {
	kinds |= viaNode
	nodes := len(g.firstArc) - 1
	// seen is the number of a node in the order of visits, from 1; low the least
	// that it reaches. done marks nodes whose knot is known.
	seen, low := make([]int32, nodes), make([]int32, nodes)
	done := make([]bool, nodes)
	type frame struct{ node, next int32 }
	var path []frame  // from the root to the node at hand
	var open []int32  // visited and not done
	var visited int32 // number of them
	enter := func(n int32) {
		visited++
		seen[n], low[n] = visited, visited
		open = append(open, n)
		path = append(path, frame{n, g.firstArc[n]})
	}
	for root := range int32(nodes) {
		if seen[root] != 0 {
			continue
		}
		enter(root)
		for len(path) > 0 {
			f := &path[len(path)-1]
			if f.next < g.firstArc[f.node+1] {
				a := &g.arcs[f.next]
				f.next++
				switch {
				case a.kind&kinds == 0 || done[a.to]:
				case seen[a.to] == 0:
					enter(a.to)
				default:
					low[f.node] = min(low[f.node], seen[a.to])
				}
				continue
			}
			n := f.node
			path = path[:len(path)-1]
			if len(path) > 0 {
				parent := path[len(path)-1].node
				low[parent] = min(low[parent], low[n])
			}
			if low[n] == seen[n] {
				start := len(open) - 1
				for open[start] != n {
					start--
				}
				found = g.collectComponent(found, open[start:], done)
				open = open[:start]
			}
		}
	}
	slices.SortFunc(found, func(a, b txnComponent) int { return cmp.Compare(a[0], b[0]) })
	return found
}

// collectComponent marks the nodes of a component as done and adds the transactions in
// it, if it is a knot.
func (g *graph) collectComponent(found []txnComponent, component []int32, done []bool) []txnComponent {
	if len(component) == 1 {
		done[component[0]] = true
		return found
	}
	var k txnComponent
	for _, n := range component {
		done[n] = true
		if n < int32(g.txnCount) {
			k = append(k, n)
		}
	}
	if len(k) < 2 {
		return found
	}
	slices.SortFunc(k, func(a, b int32) int {
		return cmp.Or(cmp.Compare(g.history[a].Invoke, g.history[b].Invoke), cmp.Compare(a, b))
	})
	return append(found, k)
}
