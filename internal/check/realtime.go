package check

import (
	"cmp"
	"slices"
)

// realTime adds the order of real time to arcs with three arcs for a
// transaction, where one for each ordered pair would be quadratic. Every
// transaction that returned has a barrier, the barriers form a chain in the order
// of their instants, and a transaction hangs from the last barrier before its
// invocation. So there is a path from one transaction to another through
// barriers alone if and only if the first returned before the second was invoked.
func (l *lists) realTime(arcs []arc, nodes int) ([]arc, int) {
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
			arcs = append(arcs, arc{int32(nodes + passed - 1), t, none, through})
		}
	}
	for i, t := range returned {
		arcs = append(arcs, arc{t, int32(nodes + i), none, rt})
		if i > 0 {
			arcs = append(arcs, arc{int32(nodes + i - 1), int32(nodes + i), none, through})
		}
	}
	return arcs, nodes + len(returned)
}
