package store

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cleavekv/cleave/internal/storage/rowcache"
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
	if state != rowcache.Unknown {
		return value, state == rowcache.Present, nil
	}
	return s.getApplied(key, dst)
}

// Lookup is Get for callers that must not wait for the disk: known is false if the answer is
// not in memory.
func (s *Store) Lookup(key, dst []byte) (value []byte, found, known bool) {
	if s.health.err() != nil || s.closing.Load() {
		return dst, false, false
	}
	value, state := s.table.Get(key, dst)
	return value, state == rowcache.Present, state != rowcache.Unknown
}

// LookupView is Look that may return a view of a large value instead of a copy: see [rowcache.Cache.GetView].
func (s *Store) LookupView(key, dst []byte) (value []byte, found, known bool) {
	if s.health.err() != nil || s.closing.Load() {
		return dst, false, false
	}
	value, state := s.table.GetView(key, dst)
	return value, state == rowcache.Present, state != rowcache.Unknown
}

// PrefetchIndex begins to fetch what memory has of a key, and Near goes on with it, for callers
// that are about to look at several: see [rowcache.Cache.PrefetchIndex].
func (s *Store) PrefetchIndex(key []byte) uint64 { return uint64(s.table.PrefetchIndex(key)) }

// PrefetchRow goes on with what Seek has begun.
func (s *Store) PrefetchRow(hint uint64) { s.table.PrefetchRow(rowcache.Hint(hint)) }

// LookupSize reports whether a Get of key would find it, or that it is absent, in memory, and how long
// it is.
func (s *Store) LookupSize(key []byte) (size int, known bool) { return s.table.LookupSize(key) }

// getApplied asks Pebble, and fills the row table with its answer. That memory
// did not know the row means that every commit of it up to then is applied.
func (s *Store) getApplied(key, dst []byte) (value []byte, ok bool, err error) {
	if err := s.beginCall(); err != nil {
		return dst, false, err
	}
	defer s.endCall()
	// The ticket comes before the read: a commit in between voids it.
	ticket := s.table.NewTicket(key)
	value, ok, err = getFromEngine(s.db, key, dst)
	callHook(s.hooks.afterRead)
	if err == nil {
		s.table.Fill(ticket, key, value[len(dst):], ok)
	}
	return value, ok, err
}

// getFromEngine appends the value that Pebble, or a snapshot of it, has for key.
func getFromEngine(r pebble.Reader, key, dst []byte) ([]byte, bool, error) {
	buf := keyBuffers.Get().(*[]byte)
	*buf = appendEngineKey((*buf)[:0], key)
	v, closer, err := r.Get(*buf)
	keyBuffers.Put(buf)
	if errors.Is(err, pebble.ErrNotFound) {
		return dst, false, nil
	}
	if err != nil {
		return dst, false, readError(err)
	}
	dst = append(dst, v...)
	return dst, true, readError(closer.Close())
}

// keyBuffers holds buffers for the keys as Pebble has them. Pebble keeps them while
// it searches only.
var keyBuffers = sync.Pool{New: func() any { return new([]byte) }}

func appendEngineKey(dst, key []byte) []byte {
	return append(append(dst, rowPrefix), key...)
}

// Sequence counts publications: it is odd while a commit becomes visible. A reader that finds
// the same even number before and after several Gets has read one moment.
func (s *Store) Sequence() uint64 { return s.chunks.sequence.Load() }

// maxSingleGets are read one by one: an iterator costs more than it saves.
const maxSingleGets = 4

// Prefetch brings what Pebble knows of some keys into memory, as far as there is room, so that
// a reader of them need not wait for the disk. Many keys cost much less than as many
// Gets: they are read in order, and if many are absent, the filters of the lowest level, which
// Get does not use, tell most of those. Keys that cannot be read stay unknown.
func (s *Store) Prefetch(keys ...[]byte) {
	if s.beginCall() != nil {
		return
	}
	defer s.endCall()
	cold, done := newUncachedList()
	defer done()
	s.visitTickets(keys, func(i int, t rowcache.Ticket) {
		if t.IsValid() {
			*cold = append(*cold, uncachedKey{i, keys[i], t})
		}
	})
	_ = s.readUncached(*cold, func(c *uncachedKey, value []byte, ok bool) bool {
		s.table.FillNeeded(c.ticket, c.key, value, ok)
		return true
	})
}

const (
	// fastReadTime is how long the blocks of a row may take to read. From the memory of the
	// machine they take less, from most disks more; one as fast as memory is taken for it.
	fastReadTime = 50 * time.Microsecond
	// fastReadBudget is how long those of all rows may take.
	fastReadBudget = 4 * fastReadTime
	// slowPauseFactor is for how many times as long as it was waited for a disk nothing is near
	// after that: a caller that must not wait for one does so for about a hundredth of the time. A wait
	// for a block that another caller is reading does not count.
	slowPauseFactor = 100
	// maxSlowPause bounds that: a disk may have been stuck once.
	maxSlowPause = 10 * time.Second
)

// IsStorageFast reports whether a GetMany that must not wait for a disk visits anything now.
func (s *Store) IsStorageFast() bool {
	return time.Since(s.openedAt) >= time.Duration(s.fastAfter.Load())
}

// GetMany is Get for several keys, which costs much less than as many Gets if they are not
// in memory. It visits them in any order, each with its number, until the visitor wants no
// more; a value is valid until the visitor returns. They are not of one moment, but the ticket of a row shows
// whether it is still the newest: see [Store.IsCurrent]. After an error some were not visited.
//
// If it must not wait for a disk, it ends, with or without an error, before it has visited all when that takes more
// than a moment. If it was a disk that took it, it visits nothing for a while.
func (s *Store) GetMany(keys [][]byte, nonBlocking bool, visit func(i int, value []byte, ok bool, t rowcache.Ticket) (more bool)) error {
	if err := s.health.err(); err != nil {
		return err
	}
	if nonBlocking && !s.IsStorageFast() {
		return nil
	}
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.endCall()
	var room []byte
	cold, done := newUncachedList()
	defer done()
	more := true
	s.visitTickets(keys, func(i int, t rowcache.Ticket) {
		if !more {
			return
		}
		// A ticket is valid if memory does not know the row: then all commits of it up to
		// now are applied.
		if !t.IsValid() {
			value, state := s.table.Get(keys[i], room[:0])
			if room = value; state != rowcache.Unknown {
				more = visit(i, value, state == rowcache.Present, t)
				return
			} // else it was forgotten since, which no row is before it is applied
		}
		*cold = append(*cold, uncachedKey{i, keys[i], t})
	})
	if !more || len(*cold) == 0 {
		return nil
	}
	found := func(c *uncachedKey, value []byte, ok bool) bool {
		s.table.Fill(c.ticket, c.key, value, ok)
		return visit(c.index, value, ok, c.ticket)
	}
	if nonBlocking {
		return s.readSorted(*cold, true, found)
	}
	return s.readUncached(*cold, found)
}

// IsCurrent reports whether a value that GetMany has visited is the newest now. It may say no
// though it is.
func (s *Store) IsCurrent(t rowcache.Ticket) bool { return s.table.IsCurrent(t) }

// visitTickets visits keys with the right to fill them in. What reports whether they are known is
// fetched from memory for some of them together.
func (s *Store) visitTickets(keys [][]byte, visit func(i int, t rowcache.Ticket)) {
	for i := range keys {
		if i%rowcache.MaxPrefetchKeys == 0 && len(keys) > maxSingleGets {
			for _, k := range keys[i:min(i+rowcache.MaxPrefetchKeys, len(keys))] {
				s.table.PrefetchIndex(k)
			}
		}
		visit(i, s.table.NewTicket(keys[i]))
	}
}

// uncachedKey is a key that memory does not know, with the right to fill it in.
type uncachedKey struct {
	index  int
	key    []byte
	ticket rowcache.Ticket
}

// uncachedLists are lists of such keys that are not in use.
var uncachedLists = sync.Pool{New: func() any { return new([]uncachedKey) }}

// newUncachedList returns an empty list, and what ends its use.
func newUncachedList() (list *[]uncachedKey, done func()) {
	list = uncachedLists.Get().(*[]uncachedKey)
	return list, func() {
		clear(*list)
		if *list = (*list)[:0]; cap(*list) <= 1024 {
			uncachedLists.Put(list)
		}
	}
}

// readUncached visits what Pebble has of some keys, and may sort them.
func (s *Store) readUncached(cold []uncachedKey, visit func(c *uncachedKey, value []byte, ok bool) (more bool)) error {
	if len(cold) > maxSingleGets {
		return s.readSorted(cold, false, visit)
	}
	for i := range cold {
		value, ok, err := getFromEngine(s.db, cold[i].key, nil)
		callHook(s.hooks.afterRead)
		if err != nil {
			return err
		}
		if !visit(&cold[i], value, ok) {
			break
		}
	}
	return nil
}

// readSorted is readUncached with one iterator for all of them. If it must not wait for a disk, it ends
// when it had to.
func (s *Store) readSorted(cold []uncachedKey, nonBlocking bool, visit func(c *uncachedKey, value []byte, ok bool) (more bool)) error {
	slices.SortFunc(cold, func(a, b uncachedKey) int { return bytes.Compare(a.key, b.key) })
	// The filters of the lowest level are worth a look if some keys are absent.
	it, err := s.db.NewIter(&pebble.IterOptions{KeyTypes: pebble.IterKeyTypePointsOnly, UseL6Filters: s.expectAbsent.Load()})
	if err != nil {
		return readError(err)
	}
	defer it.Close()
	room := keyBuffers.Get().(*[]byte)
	defer keyBuffers.Put(room)
	read, absent, p, began := 0, 0, readBudget{s: s}, time.Now()
	defer func() { s.expectAbsent.Store(absent > read/8) }()
	for i := range cold {
		read++
		*room = appendEngineKey((*room)[:0], cold[i].key)
		// A prefix is a whole key.
		found := it.SeekPrefixGE(*room)
		if err := it.Error(); err != nil {
			if nonBlocking { // what could not be read is not in the iterator's figures
				s.recordReadTime(time.Since(began))
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
		callHook(s.hooks.afterRead)
		if !visit(&cold[i], value, found) {
			break
		}
		if nonBlocking && p.isExceeded(it) {
			break
		}
	}
	return nil
}

// readBudget is that of a caller that must not wait for a disk.
type readBudget struct {
	s        *Store
	readTime time.Duration
}

// budgetCheckRows is how many rows, or budgetCheckBytes how many bytes of them, of a scan may be read before it is
// asked for again.
const budgetCheckRows, budgetCheckBytes = 8, 4 << 10

// isExceeded reports whether an iterator has waited for a disk since the last time, or for all its blocks
// together too long. If it was a disk, nothing is near for a while.
func (p *readBudget) isExceeded(it *pebble.Iterator) bool {
	before := p.readTime
	p.readTime = it.Stats().InternalStats.BlockReadDuration
	return p.s.recordReadTime(p.readTime-before) || p.readTime > fastReadBudget
}

// recordReadTime reports whether it is a disk that took so long. Then nothing is near for a while,
// or for longer if that was known.
func (s *Store) recordReadTime(took time.Duration) bool {
	if took <= fastReadTime {
		return false
	}
	until := int64(time.Since(s.openedAt) + min(slowPauseFactor*took, maxSlowPause))
	for {
		after := s.fastAfter.Load()
		if until <= after || s.fastAfter.CompareAndSwap(after, until) {
			return true
		}
	}
}
