package rows

import (
	"errors"
	"fmt"
)

// ErrNoRoom means that a row cannot be held: it is too large for the table, or those that
// are held take all that they may. Release some, or make the table larger.
var ErrNoRoom = errors.New("rows: no room to hold the row")

// heldShare is how much of its share a stripe may hold: so that held rows, in blocks that
// are three quarters full, leave a third of it to others.
const heldShare = 2

// Hold keeps the row of key from being evicted until it is released, and whatever is
// published for the key then. It reports whether the row is known: if not, read the
// state and use [Table.FillHeld]. A row that grows until there is no room for it is held
// no longer. The error is ErrNoRoom.
func (t *Table) Hold(key []byte) (known bool, err error) {
	s, h := t.stripe(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _, r := s.find(h, key)
	switch {
	case r == nil:
		return false, nil
	case r.has(flagHeld):
		return true, nil
	}
	if err := s.hold(key, r.extent()); err != nil {
		return true, err
	}
	r.setWord(r.word() | flagHeld)
	return true, nil
}

// FillHeld is Fill for a row that is to be held, which is cached if there is room to
// hold it.
func (t *Table) FillHeld(tk Ticket, key, value []byte, present bool) (filled bool, err error) {
	s, h := t.stripe(key)
	if !tk.valid || h != tk.hash {
		return false, nil
	}
	var flags uint32
	if !present {
		flags, value = flagAbsent, nil
	}
	if len(key) > maxKey || len(value) > maxValue || extentOf(len(key), len(value)) > s.share/4 {
		return false, s.noRoom(extentOf(len(key), len(value)))
	}
	return s.fill(tk, flags, key, value, toHold)
}

// Release lets the row of key go when there is need to.
func (t *Table) Release(key []byte) {
	s, h := t.stripe(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, _, r := s.find(h, key); r != nil && r.has(flagHeld) {
		r.setWord(r.word() &^ flagHeld)
		s.letGo(key, r.extent())
	}
}

// hold counts a row as held, if it may be.
func (s *stripe) hold(key []byte, extent int) error {
	w := weight(extent)
	if extent > s.share/4 || s.held+w > s.share/heldShare {
		return s.noRoom(extent)
	}
	s.held += w
	c := s.class(key)
	c.Held, c.HeldBytes = c.Held+1, c.HeldBytes+int64(w)
	return nil
}

// noRoom says why a row cannot be held.
func (s *stripe) noRoom(extent int) error {
	if extent > s.share/4 {
		return fmt.Errorf("%w: it takes %d bytes, and none may take more than %d", ErrNoRoom, extent, s.share/4)
	}
	return fmt.Errorf("%w: it takes %d bytes, and where it belongs %d of %d are taken", ErrNoRoom, extent, s.held, s.share/heldShare)
}

// letGo counts a row as held no more.
func (s *stripe) letGo(key []byte, extent int) {
	w := weight(extent)
	s.held -= w
	c := s.class(key)
	c.Held, c.HeldBytes = c.Held-1, c.HeldBytes-int64(w)
}

// passHold hands the hold of a row on to the one that replaces it, and returns the
// flag that this one is to have.
func (s *stripe) passHold(old row, extent int) uint32 {
	if !old.has(flagHeld) {
		return 0
	}
	s.letGo(old.key(), old.extent())
	if s.hold(old.key(), extent) != nil {
		s.class(old.key()).Outgrown++
		return 0
	}
	return flagHeld
}
