package store

import (
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/rows"
	"github.com/cleavekv/cleave/partition"
)

// ErrNoRoom means that a row cannot be held in memory: it is too large for the row cache,
// or those that are held take all that they may.
var ErrNoRoom = rows.ErrNoRoom

// Hold keeps the newest row of key in memory, or that there is none, whatever becomes of
// it, until Release. The error is [ErrNoRoom] if there is no room to. A row that grows
// beyond that later is held no longer.
func (s *Store) Hold(key []byte) error {
	for {
		if known, err := s.table.Hold(key); known || err != nil {
			return err
		}
		if held, err := s.holdApplied(key); held || err != nil {
			return err
		}
		// Something was committed meanwhile.
	}
}

// holdApplied brings in a row that memory does not know.
func (s *Store) holdApplied(key []byte) (held bool, err error) {
	if err := s.enter(); err != nil {
		return false, err
	}
	defer s.leave()
	ticket := s.table.Ticket(key) // before the read, as in getApplied
	value, ok, err := getFrom(s.db, key, nil)
	if err != nil {
		return false, err
	}
	return s.table.FillHeld(ticket, key, value, ok)
}

// Release lets a row go that is held, when there is need to.
func (s *Store) Release(key []byte) { s.table.Release(key) }

// CacheOf returns the figures of the row cache for the rows of a keyspace.
func (s *Store) CacheOf(id partition.KeyspaceID) rows.Class { return s.table.Class(uint32(id)) }

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
