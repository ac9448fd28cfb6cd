package check

import "slices"

// explainable tells whether some order of the transactions explains a history:
// the definition of strict serializability, tried out in all ways.
func explainable(history []Txn) bool {
	placed := make([]bool, len(history))
	return place(history, placed, map[string][]uint64{})
}

// place puts one more transaction behind those that are placed.
func place(history []Txn, placed []bool, lists map[string][]uint64) bool {
	complete := true
	for i, t := range history {
		if placed[i] || t.Status == Failed {
			continue
		}
		if t.Status == OK {
			complete = false // an open one may be left out
		}
		if hasToWait(history, placed, t) {
			continue
		}
		after, ok := replay(t, lists)
		if !ok {
			continue
		}
		placed[i] = true
		if place(history, placed, after) {
			return true
		}
		placed[i] = false
	}
	return complete
}

// hasToWait tells whether a transaction that is not placed returned before t began.
func hasToWait(history []Txn, placed []bool, t Txn) bool {
	for i, other := range history {
		if !placed[i] && other.Status == OK && other.Return < t.Invoke {
			return true
		}
	}
	return false
}

// replay runs a transaction alone and compares what it reads.
func replay(t Txn, lists map[string][]uint64) (after map[string][]uint64, ok bool) {
	after = copyOf(lists)
	for _, op := range t.Ops {
		if !op.Read {
			after[op.Key] = append(after[op.Key], op.Element)
		} else if !slices.Equal(op.List, after[op.Key]) {
			return nil, false
		}
	}
	return after, true
}
