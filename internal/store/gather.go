package store

import (
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cleavekv/cleave/internal/rows"
)

const (
	// gatherPage is how many rows are brought into memory at a time, and gatherPause how long
	// clients have the processors and the disk to themselves in between.
	gatherPage  = 512
	gatherPause = 300 * time.Microsecond
	// gatherRoom is how much of the row cache a byte on disk may take, compressed as it is: if
	// everything does not fit, it is better filled with what is asked for.
	gatherRoom = 3
	// gatherTries is how often a row is read that is overtaken by commits of others.
	gatherTries = 100
)

// gather brings all rows into memory, if they fit, while others use the store. Then memory also
// knows which keys are absent. What it cannot read it leaves to those who ask for it.
func (s *Store) gather() {
	if s.enter() != nil {
		return
	}
	defer s.leave()
	from, to := appendKey(nil, nil), rowsEnd
	if size, err := s.db.EstimateDiskUsage(from, to); err != nil || int64(size)*gatherRoom > s.opts.CacheBytes {
		return
	}
	g := s.table.Gather() // before the moment that the iterator sees
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to, KeyTypes: pebble.IterKeyTypePointsOnly})
	if err != nil {
		return
	}
	defer it.Close()
	var page [][]byte
	for more := it.First(); more; {
		for page = page[:0]; more && len(page) < gatherPage; more = it.Next() {
			page = append(page, append([]byte(nil), it.Key()[1:]...)) // without the prefix
		}
		if s.closing.Load() || !s.gatherPage(g, page) {
			return
		}
		time.Sleep(gatherPause)
	}
	if it.Error() == nil {
		g.End()
	}
}

// gatherPage brings rows into memory, as they are now, and tells whether to go on.
func (s *Store) gatherPage(g *rows.Gathering, keys [][]byte) (more bool) {
	for try := 0; len(keys) > 0; try++ {
		var cold []coldKey
		s.tickets(keys, func(i int, t rows.Ticket) {
			if t.Valid() {
				cold = append(cold, coldKey{i, keys[i], t})
			}
		})
		full := false
		var again [][]byte
		err := s.readCold(cold, func(c *coldKey, value []byte, ok bool) bool {
			if !ok {
				return true // it was deleted meanwhile
			}
			switch g.Fill(c.ticket, c.key, value) {
			case rows.NoRoom:
				full = true
			case rows.Overtaken:
				again = append(again, c.key)
			}
			return !full
		})
		if err != nil || full || try == gatherTries {
			return false
		}
		keys = again
	}
	return true
}
