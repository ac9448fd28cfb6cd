package store

import (
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/storage/rowcache"
	"github.com/cleavekv/cleave/partition"
)

// ErrNoRoom means that a row cannot be held in memory: it is too large for the row cache,
// or those that are held take all that they may.
var ErrNoRoom = rowcache.ErrNoRoom

// PinRow keeps the newest row of key in memory, or that there is none, whatever becomes of
// it, until Release. The error is [ErrNoRoom] if there is no room to. A row that grows
// beyond that later is held no longer.
func (s *Store) PinRow(key []byte) error {
	for {
		if known, err := s.table.PinRow(key); known || err != nil {
			return err
		}
		if held, err := s.loadAndPin(key); held || err != nil {
			return err
		}
		// Something was committed meanwhile.
	}
}

// loadAndPin brings in a row that memory does not know.
func (s *Store) loadAndPin(key []byte) (held bool, err error) {
	if err := s.beginCall(); err != nil {
		return false, err
	}
	defer s.endCall()
	ticket := s.table.NewTicket(key) // before the read, as in getApplied
	value, ok, err := getFromEngine(s.db, key, nil)
	if err != nil {
		return false, err
	}
	return s.table.FillPinned(ticket, key, value, ok)
}

// UnpinRow lets a row go that is held, when there is need to.
func (s *Store) UnpinRow(key []byte) { s.table.UnpinRow(key) }

// CacheMetrics returns the figures of the row cache for the rows of a keyspace.
func (s *Store) CacheMetrics(id partition.KeyspaceID) rowcache.ClassMetrics {
	return s.table.ClassMetrics(uint32(id))
}

// keyspaceOf is the class under which a row is counted: its keyspace. Class 0 has what is
// the system's own.
func keyspaceOf(key []byte) uint32 {
	if len(key) < 2 || key[0] != byte(effect.Rows) {
		return 0
	}
	id, err := partition.IDOf(partition.Position(key[1:]))
	if err != nil {
		return 0
	}
	return uint32(id)
}

const (
	// preloadPageRows is how many rows are brought into memory at a time, and preloadPause how long
	// clients have the processors and the disk to themselves in between.
	preloadPageRows = 512
	preloadPause    = 300 * time.Microsecond
	// preloadExpansion is how much of the row cache a byte on disk may take, compressed as it is: if
	// everything does not fit, it is better filled with what is asked for.
	preloadExpansion = 3
	// maxPreloadTries is how often a row is read that is overtaken by commits of others.
	maxPreloadTries = 100
)

// preloadRows brings all rows into memory, if they fit, while others use the store. Then memory also
// knows which keys are absent. What it cannot read it leaves to later readers.
func (s *Store) preloadRows() {
	if s.beginCall() != nil {
		return
	}
	defer s.endCall()
	from, to := appendEngineKey(nil, nil), rowsEnd
	if size, err := s.db.EstimateDiskUsage(from, to); err != nil || int64(size)*preloadExpansion > s.opts.CacheBytes {
		return
	}
	g := s.table.BeginPreload() // before the moment that the iterator sees
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to, KeyTypes: pebble.IterKeyTypePointsOnly})
	if err != nil {
		return
	}
	defer it.Close()
	var page [][]byte
	for more := it.First(); more; {
		for page = page[:0]; more && len(page) < preloadPageRows; more = it.Next() {
			page = append(page, append([]byte(nil), it.Key()[1:]...)) // without the prefix
		}
		if s.closing.Load() || !s.preloadPage(g, page) {
			return
		}
		time.Sleep(preloadPause)
	}
	if it.Error() == nil {
		g.End()
	}
}

// preloadPage brings rows into memory, as they are now, and reports whether to go on.
func (s *Store) preloadPage(g *rowcache.Preload, keys [][]byte) (more bool) {
	for try := 0; len(keys) > 0; try++ {
		var cold []uncachedKey
		s.visitTickets(keys, func(i int, t rowcache.Ticket) {
			if t.IsValid() {
				cold = append(cold, uncachedKey{i, keys[i], t})
			}
		})
		full := false
		var again [][]byte
		err := s.readUncached(cold, func(c *uncachedKey, value []byte, ok bool) bool {
			if !ok {
				return true // it was deleted meanwhile
			}
			switch g.Fill(c.ticket, c.key, value) {
			case rowcache.NoRoom:
				full = true
			case rowcache.Superseded:
				again = append(again, c.key)
			}
			return !full
		})
		if err != nil || full || try == maxPreloadTries {
			return false
		}
		keys = again
	}
	return true
}
