package store

import (
	"errors"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/rows"
)

// Get appends the newest committed value of key to dst. It runs on the caller's
// goroutine and is linearizable: it sees every commit that returned before it
// began, and what it saw every later Get sees or something newer.
func (s *Store) Get(key, dst []byte) (value []byte, ok bool, err error) {
	if err := s.health.err(); err != nil {
		return dst, false, err
	}
	if s.closing.Load() {
		return dst, false, ErrClosed
	}
	value, state := s.table.Get(key, dst)
	if state != rows.Unknown {
		return value, state == rows.Present, nil
	}
	return s.getApplied(key, dst)
}

// Look is Get for those who must not wait for the disk: known is false if memory does
// not tell.
func (s *Store) Look(key, dst []byte) (value []byte, found, known bool) {
	if s.health.err() != nil || s.closing.Load() {
		return dst, false, false
	}
	value, state := s.table.Get(key, dst)
	return value, state == rows.Present, state != rows.Unknown
}

// Seek begins to fetch what memory has of a key, and Near goes on with it, for those who
// are about to look at several: see [rows.Table.Seek].
func (s *Store) Seek(key []byte) uint64 { return uint64(s.table.Seek(key)) }

// Near goes on with what Seek has begun.
func (s *Store) Near(hint uint64) { s.table.Near(rows.Hint(hint)) }

// Knows tells whether a Get of key would find it, or that it is absent, in memory, and how long
// it is.
func (s *Store) Knows(key []byte) (size int, known bool) { return s.table.Knows(key) }

// getApplied asks Pebble, and fills the row table with its answer. That memory
// did not know the row means that every commit of it up to then is applied.
func (s *Store) getApplied(key, dst []byte) (value []byte, ok bool, err error) {
	if err := s.enter(); err != nil {
		return dst, false, err
	}
	defer s.leave()
	// The ticket comes before the read: a commit in between voids it.
	ticket := s.table.Ticket(key)
	value, ok, err = getFrom(s.db, key, dst)
	at(s.hooks.afterRead)
	if plant.Bug("store-fill-stale") {
		ticket = s.table.Ticket(key)
	}
	if err == nil {
		s.table.Fill(ticket, key, value[len(dst):], ok)
	}
	return value, ok, err
}

// getFrom appends the value that Pebble, or a snapshot of it, has for key.
func getFrom(r pebble.Reader, key, dst []byte) ([]byte, bool, error) {
	buf := keys.Get().(*[]byte)
	*buf = appendKey((*buf)[:0], key)
	v, closer, err := r.Get(*buf)
	keys.Put(buf)
	if errors.Is(err, pebble.ErrNotFound) {
		return dst, false, nil
	}
	if err != nil {
		return dst, false, readError(err)
	}
	dst = append(dst, v...)
	return dst, true, readError(closer.Close())
}

// keys holds buffers for the keys as Pebble has them. Pebble keeps them while
// it searches only.
var keys = sync.Pool{New: func() any { return new([]byte) }}

func appendKey(dst, key []byte) []byte {
	return append(append(dst, replicaPrefix), key...)
}

// Sequence counts publications: it is odd while a commit becomes visible. Who finds
// the same even number before and after several Gets has read one moment.
func (s *Store) Sequence() uint64 { return s.chunks.sequence.Load() }
