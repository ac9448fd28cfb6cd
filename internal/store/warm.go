package store

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/rows"
)

// fewKeys are read one by one: an iterator costs more than it saves.
const fewKeys = 4

// Warm brings what Pebble knows of some keys into memory, as far as there is room, so that
// who looks at them next need not wait for the disk. Many keys cost much less than as many
// Gets: they are read in order, and if many are absent, the filters of the lowest level, which
// Get does not use, tell most of those. Keys that cannot be read stay unknown.
func (s *Store) Warm(keys ...[]byte) {
	if s.enter() != nil {
		return
	}
	defer s.leave()
	cold, done := coldKeys()
	defer done()
	s.tickets(keys, func(i int, t rows.Ticket) {
		if t.Valid() {
			*cold = append(*cold, coldKey{i, keys[i], t})
		}
	})
	_ = s.readCold(*cold, func(c *coldKey, value []byte, ok bool) bool {
		s.table.FillWanted(c.ticket, c.key, value, ok)
		return true
	})
}

// GetMany is Get for several keys, which costs much less than as many Gets if they are not
// in memory. It visits them in any order, each with its number, until the visitor wants no
// more; a value is his until he returns. They are not of one moment, but its ticket tells
// whether it is still the newest: see [Store.Unmoved]. After an error some were not visited.
func (s *Store) GetMany(keys [][]byte, visit func(i int, value []byte, ok bool, t rows.Ticket) (more bool)) error {
	return s.getMany(keys, false, visit)
}

// GetNear is GetMany for one who must not wait for a disk. It ends, with or without an error,
// before it has visited all when that takes more than a moment. If it was a disk that took
// it, it visits nothing for a while.
func (s *Store) GetNear(keys [][]byte, visit func(i int, value []byte, ok bool, t rows.Ticket) (more bool)) error {
	return s.getMany(keys, true, visit)
}

const (
	// nearTime is how long the blocks of a row may take to read. From the memory of the
	// machine they take less, from most disks more; one as fast as memory is taken for it.
	nearTime = 50 * time.Microsecond
	// nearAll is how long those of all rows may take.
	nearAll = 4 * nearTime
	// nearPause is for how many times as long as it was waited for a disk nothing is near
	// after that: who must not wait for one does so for about a hundredth of the time. To
	// wait for a block that somebody else is reading does not count.
	nearPause = 100
	// maxPause bounds that: a disk may have been stuck once.
	maxPause = 10 * time.Second
)

// IsNear tells whether GetNear visits anything now.
func (s *Store) IsNear() bool { return time.Since(s.began) >= time.Duration(s.nearAfter.Load()) }

func (s *Store) getMany(keys [][]byte, near bool, visit func(i int, value []byte, ok bool, t rows.Ticket) (more bool)) error {
	if err := s.health.err(); err != nil {
		return err
	}
	if near && !s.IsNear() {
		return nil
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	var room []byte
	cold, done := coldKeys()
	defer done()
	more := true
	s.tickets(keys, func(i int, t rows.Ticket) {
		if !more {
			return
		}
		// A ticket is valid if memory does not know the row: then all commits of it up to
		// now are applied.
		if !t.Valid() {
			value, state := s.table.Get(keys[i], room[:0])
			if room = value; state != rows.Unknown {
				more = visit(i, value, state == rows.Present, t)
				return
			} // else it was forgotten since, which no row is before it is applied
		}
		*cold = append(*cold, coldKey{i, keys[i], t})
	})
	if !more || len(*cold) == 0 {
		return nil
	}
	found := func(c *coldKey, value []byte, ok bool) bool {
		s.table.Fill(c.ticket, c.key, value, ok)
		return visit(c.number, value, ok, c.ticket)
	}
	if near {
		return s.readSorted(*cold, true, found)
	}
	return s.readCold(*cold, found)
}

// Unmoved tells whether a value that GetMany has visited is the newest now. It may say no
// though it is.
func (s *Store) Unmoved(t rows.Ticket) bool { return s.table.Unmoved(t) }

// tickets visits keys with the right to fill them in. What tells whether they are known is
// fetched from memory for some of them together.
func (s *Store) tickets(keys [][]byte, visit func(i int, t rows.Ticket)) {
	for i := range keys {
		if i%rows.TouchMost == 0 && len(keys) > fewKeys {
			for _, k := range keys[i:min(i+rows.TouchMost, len(keys))] {
				s.table.Seek(k)
			}
		}
		visit(i, s.table.Ticket(keys[i]))
	}
}

// coldKey is a key that memory does not know, with the right to fill it in.
type coldKey struct {
	number int
	key    []byte
	ticket rows.Ticket
}

// colds are lists of such keys that are not in use.
var colds = sync.Pool{New: func() any { return new([]coldKey) }}

// coldKeys returns an empty list, and what ends its use.
func coldKeys() (list *[]coldKey, done func()) {
	list = colds.Get().(*[]coldKey)
	return list, func() {
		clear(*list)
		if *list = (*list)[:0]; cap(*list) <= 1024 {
			colds.Put(list)
		}
	}
}

// readCold visits what Pebble has of some keys, and may sort them.
func (s *Store) readCold(cold []coldKey, visit func(c *coldKey, value []byte, ok bool) (more bool)) error {
	if len(cold) > fewKeys {
		return s.readSorted(cold, false, visit)
	}
	for i := range cold {
		value, ok, err := getFrom(s.db, cold[i].key, nil)
		at(s.hooks.afterRead)
		if err != nil {
			return err
		}
		if !visit(&cold[i], value, ok) {
			break
		}
	}
	return nil
}

// readSorted is readCold with one iterator for all of them. If they have to be near, it ends
// when they turn out not to be.
func (s *Store) readSorted(cold []coldKey, near bool, visit func(c *coldKey, value []byte, ok bool) (more bool)) error {
	slices.SortFunc(cold, func(a, b coldKey) int { return bytes.Compare(a.key, b.key) })
	// The filters of the lowest level are worth a look if some keys are absent.
	it, err := s.db.NewIter(&pebble.IterOptions{KeyTypes: pebble.IterKeyTypePointsOnly, UseL6Filters: s.absent.Load()})
	if err != nil {
		return readError(err)
	}
	defer it.Close()
	room := keys.Get().(*[]byte)
	defer keys.Put(room)
	read, absent, p, began := 0, 0, patience{s: s}, time.Now()
	defer func() { s.absent.Store(absent > read/8) }()
	for i := range cold {
		read++
		*room = appendKey((*room)[:0], cold[i].key)
		// A prefix is a whole key.
		found := it.SeekPrefixGE(*room)
		if err := it.Error(); err != nil {
			if near { // what could not be read is not in the iterator's figures
				s.waited(time.Since(began))
			}
			return readError(err)
		}
		var value []byte
		if found {
			if value, err = it.ValueAndErr(); err != nil {
				return readError(err)
			}
		}
		if !found {
			absent++
		}
		at(s.hooks.afterRead)
		if !visit(&cold[i], value, found) {
			break
		}
		if near && p.ends(it) {
			break
		}
	}
	return nil
}

// patience is that of one who must not wait for a disk.
type patience struct {
	s      *Store
	waited time.Duration
}

// patienceRows is how many rows, or patienceBytes how many bytes of them, of a scan may be read before it is
// asked for again.
const patienceRows, patienceBytes = 8, 4 << 10

// ends tells whether an iterator has waited for a disk since the last time, or for all its blocks
// together too long. If it was a disk, nothing is near for a while.
func (p *patience) ends(it *pebble.Iterator) bool {
	if plant.Bug("store-near-waits") {
		return false
	}
	before := p.waited
	p.waited = it.Stats().InternalStats.BlockReadDuration
	return p.s.waited(p.waited-before) || p.waited > nearAll
}

// waited tells whether it is a disk that took so long. Then nothing is near for a while,
// or for longer if that was known.
func (s *Store) waited(took time.Duration) bool {
	if took <= nearTime {
		return false
	}
	until := int64(time.Since(s.began) + min(nearPause*took, maxPause))
	for {
		after := s.nearAfter.Load()
		if until <= after || s.nearAfter.CompareAndSwap(after, until) {
			return true
		}
	}
}
