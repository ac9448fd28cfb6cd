package rowcache

import (
	"errors"
	"fmt"
)

// ErrNoRoom means that a row cannot be held: it is too large for the table, or those that
// are held take all that they may. Release some, or make the table larger.
var ErrNoRoom = errors.New("rowcache: no room to hold the row")

// maxPinnedDivisor is how much of its share a stripe may hold: so that held rows, in blocks that
// are three quarters full, leave a third of it to others.
const maxPinnedDivisor = 2

// PinRow keeps the row of key from being evicted until it is released, and whatever is
// published for the key then. It reports whether the row is known: if not, read the
// state and use [Cache.FillPinned]. A row that grows until there is no room for it is held
// no longer. The error is ErrNoRoom.
func (t *Cache) PinRow(key []byte) (known bool, err error) {
	s, h := t.findStripe(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _, r := s.find(h, key)
	switch {
	case r == nil:
		return false, nil
	case r.hasFlag(flagPinned):
		return true, nil
	}
	if err := s.addPinned(key, r.sizeBytes()); err != nil {
		return true, err
	}
	r.setFlagWord(r.flagWord() | flagPinned)
	return true, nil
}

// FillPinned is Fill for a row that is to be held, which is cached if there is room to
// hold it.
func (t *Cache) FillPinned(tk Ticket, key, value []byte, present bool) (filled bool, err error) {
	s, h := t.findStripe(key)
	if !tk.valid || h != tk.hash {
		return false, nil
	}
	var flags uint32
	if !present {
		flags, value = flagAbsent, nil
	}
	if len(key) > maxKeyBytes || len(value) > maxValueBytes || rowBytes(len(key), len(value)) > s.shareBytes/4 {
		return false, s.noRoomError(rowBytes(len(key), len(value)))
	}
	return s.fillRow(tk, flags, key, value, fillPinned)
}

// UnpinRow lets the row of key go when there is need to.
func (t *Cache) UnpinRow(key []byte) {
	s, h := t.findStripe(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, _, r := s.find(h, key); r != nil && r.hasFlag(flagPinned) {
		r.setFlagWord(r.flagWord() &^ flagPinned)
		s.removePinned(key, r.sizeBytes())
	}
}

// addPinned counts a row as held, if it may be.
func (s *stripe) addPinned(key []byte, extent int) error {
	w := weightOfRow(extent)
	if extent > s.shareBytes/4 || s.pinnedBytes+w > s.shareBytes/maxPinnedDivisor {
		return s.noRoomError(extent)
	}
	s.pinnedBytes += w
	c := s.metricsOf(key)
	c.PinnedRows, c.PinnedBytes = c.PinnedRows+1, c.PinnedBytes+int64(w)
	return nil
}

// noRoomError returns why a row cannot be held.
func (s *stripe) noRoomError(extent int) error {
	if extent > s.shareBytes/4 {
		return fmt.Errorf("%w: it takes %d bytes, and none may take more than %d", ErrNoRoom, extent, s.shareBytes/4)
	}
	return fmt.Errorf("%w: it takes %d bytes, and where it belongs %d of %d are taken", ErrNoRoom, extent, s.pinnedBytes, s.shareBytes/maxPinnedDivisor)
}

// removePinned counts a row as held no more.
func (s *stripe) removePinned(key []byte, extent int) {
	w := weightOfRow(extent)
	s.pinnedBytes -= w
	c := s.metricsOf(key)
	c.PinnedRows, c.PinnedBytes = c.PinnedRows-1, c.PinnedBytes-int64(w)
}

// movePin hands the hold of a row on to the one that replaces it, and returns the
// flag that this one is to have.
func (s *stripe) movePin(old row, extent int) uint32 {
	if !old.hasFlag(flagPinned) {
		return 0
	}
	s.removePinned(old.key(), old.sizeBytes())
	if s.addPinned(old.key(), extent) != nil {
		s.metricsOf(old.key()).Outgrown++
		return 0
	}
	return flagPinned
}
