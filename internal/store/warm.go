package store

import (
	"bytes"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cleavekv/cleave/internal/rows"
)

// fewKeys are read one by one: an iterator costs more than it saves.
const fewKeys = 4

// Warm brings what Pebble knows of some keys into memory, as far as there is room, so that
// who looks at them next need not wait for the disk. Many keys cost much less than as many
// Gets: they are read in order, and the filters of the lowest level, which Get does not use,
// tell most of those that are absent. Keys that cannot be read stay unknown.
func (s *Store) Warm(keys ...[]byte) {
	if s.enter() != nil {
		return
	}
	defer s.leave()
	var cold []coldKey
	for i, k := range keys {
		if t := s.table.Ticket(k); t.Valid() {
			cold = append(cold, coldKey{i, k, t})
		}
	}
	_ = s.readCold(cold, func(c *coldKey, value []byte, ok bool) {
		s.table.FillWanted(c.ticket, c.key, value, ok)
	})
}

// GetMany is Get for several keys, which costs much less than as many Gets if they are not
// in memory. It visits them in any order, each with its number; a value is the visitor's
// until it returns. They are not of one moment. After an error some were not visited.
func (s *Store) GetMany(keys [][]byte, visit func(i int, value []byte, ok bool)) error {
	if err := s.health.err(); err != nil {
		return err
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	var room []byte
	var cold []coldKey
	for i, k := range keys {
		// A ticket is valid if memory does not know the row: then all commits of it up to
		// now are applied.
		t := s.table.Ticket(k)
		if !t.Valid() {
			value, state := s.table.Get(k, room[:0])
			if room = value; state != rows.Unknown {
				visit(i, value, state == rows.Present)
				continue
			}
		}
		if cold == nil {
			cold = make([]coldKey, 0, len(keys)-i)
		}
		cold = append(cold, coldKey{i, k, t})
	}
	return s.readCold(cold, func(c *coldKey, value []byte, ok bool) {
		s.table.Fill(c.ticket, c.key, value, ok)
		visit(c.number, value, ok)
	})
}

// coldKey is a key that memory does not know, with the right to fill it in.
type coldKey struct {
	number int
	key    []byte
	ticket rows.Ticket
}

// readCold visits what Pebble has of some keys, and sorts them.
func (s *Store) readCold(cold []coldKey, visit func(c *coldKey, value []byte, ok bool)) error {
	if len(cold) > fewKeys {
		slices.SortFunc(cold, func(a, b coldKey) int { return bytes.Compare(a.key, b.key) })
		return s.readSorted(cold, visit)
	}
	for i := range cold {
		value, ok, err := getFrom(s.db, cold[i].key, nil)
		at(s.hooks.afterRead)
		if err != nil {
			return err
		}
		visit(&cold[i], value, ok)
	}
	return nil
}

func (s *Store) readSorted(cold []coldKey, visit func(c *coldKey, value []byte, ok bool)) error {
	it, err := s.db.NewIter(&pebble.IterOptions{KeyTypes: pebble.IterKeyTypePointsOnly, UseL6Filters: true})
	if err != nil {
		return readError(err)
	}
	defer it.Close()
	room := keys.Get().(*[]byte)
	defer keys.Put(room)
	for i := range cold {
		*room = appendKey((*room)[:0], cold[i].key)
		// A prefix is a whole key.
		found := it.SeekPrefixGE(*room)
		if err := it.Error(); err != nil {
			return readError(err)
		}
		var value []byte
		if found {
			if value, err = it.ValueAndErr(); err != nil {
				return readError(err)
			}
		}
		at(s.hooks.afterRead)
		visit(&cold[i], value, found)
	}
	return nil
}
