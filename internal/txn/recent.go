package txn

// recent has the transactions of which there may be a record, each until its deadline.
// Most that are asked for are new: that is known here, and nobody has to look in the
// store for what is not there.
//
// Invariant: a transaction before its deadline that is not in it has no record. Whoever
// writes one adds it, and whoever finds some loads them. It may have too many: a
// batch that failed leaves what it has added.
type recent struct {
	deadlines map[ID]int64
	full      int // how many there may be before those past their deadlines are looked for
}

// recentLeast is below how many nobody looks for those that are over.
const recentLeast = 1024

func (r *recent) add(id ID, deadlineMS, nowMS int64) {
	if r.deadlines == nil {
		r.deadlines = map[ID]int64{}
	}
	r.deadlines[id] = deadlineMS
	if len(r.deadlines) <= max(r.full, recentLeast) {
		return
	}
	for other, ms := range r.deadlines {
		if nowMS > ms {
			delete(r.deadlines, other)
		}
	}
	r.full = 2 * len(r.deadlines)
}

// unknown tells that there is no record of a transaction.
func (r *recent) unknown(id ID, deadlineMS, nowMS int64) bool {
	if nowMS > deadlineMS {
		return false // it may be no more in it
	}
	_, known := r.deadlines[id]
	return !known
}
