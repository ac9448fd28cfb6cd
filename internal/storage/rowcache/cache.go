// Package rowcache answers one question: what is the newest value of this key, if
// memory knows it?
//
// [Cache] holds two kinds of rows at once. A row that was published but is not
// yet in the state behind the log is pinned: it is in memory until [Cache.SetApplied]
// says otherwise. Every other row is cached and may go at any time, unless it is held
// ([Cache.PinRow]).
//
// # Promises
//
//   - [Cache.Get] answers with the value published last, or [Unknown]. It never
//     answers with an older one, and never Unknown while the row is pinned.
//   - A slow [Cache.Fill] cannot bring back an old value: it needs a [Ticket]
//     taken before the state was read, and a publication in between voids it.
//   - A row that is held stays, and what is published for its key takes its place. Held
//     rows take at most half of Options.Bytes; a row that no longer fits is released.
//   - In a full table a row that was read is cached only if its key was asked for
//     before, not long ago: reads that come once do not drive out what is hot.
//   - Unpinned rows take at most Options.Bytes, index and headers included. What
//     is pinned comes on top; DESIGN.md states the slack.
//   - Get with a large enough buffer does not allocate. Publish and Fill take
//     whole blocks, and none while what is pinned stays the same; only a row
//     with a block of its own is an allocation.
//
// # Choices
//
// Keys are spread over stripes, each with a lock that is held for a lookup and
// one copy. Rows lie in a few large blocks without pointers, so that the garbage
// collector sees blocks and not rows. Space is reclaimed block by block, oldest
// first; a row that was used since gets a second chance. Hashes are seeded:
// keys that share a stripe or a slot cannot be chosen in advance.
//
// # Limits
//
// The table has no order and no snapshots (package runs has the unapplied rows
// in order). The blocks of a table of 32 MiB or more are not on the Go heap, so it has
// to be closed. Those of a smaller one, and large rows, are ordinary Go memory. A row
// that alone exceeds a quarter of a stripe's share is cached only while it is pinned.
package rowcache

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"runtime"
	"slices"
	"sync/atomic"
)

// State is what the table knows about a key.
type State uint8

const (
	// Unknown means: ask the state behind the log.
	Unknown State = iota
	// Present means: the key exists and this is its newest value.
	Present
	// Absent means: the key is known not to exist.
	Absent
)

// String names the state.
func (s State) String() string {
	switch s {
	case Unknown:
		return "unknown"
	case Present:
		return "present"
	case Absent:
		return "absent"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Cache holds rows by key. Its methods may be called from any goroutine;
// publications of one key must come in their order.
type Cache struct {
	stripes    []stripe
	shift      uint // stripe = hash >> shift
	seed       maphash.Seed
	classFunc  func(key []byte) uint32
	slab       slab
	appliedGen atomic.Uint64
	// currentBatch is the one being published, revealed the last one that readers may
	// see. Invariant: revealed <= batch <= revealed+1.
	currentBatch, revealedBatch atomic.Uint64
}

// New makes an empty table. Memory is taken as rows come.
func New(o Options) *Cache {
	o = o.withDefaults()
	t := &Cache{
		stripes:   make([]stripe, o.Stripes),
		shift:     uint(64 - bits.Len(uint(o.Stripes-1))),
		seed:      o.Seed,
		classFunc: o.ClassOf,
	}
	t.slab.init(o.Bytes)
	share := int(o.Bytes / int64(o.Stripes))
	for i := range t.stripes {
		t.stripes[i].initStripe(share, t)
	}
	return t
}

// Close forgets all rows, pinned ones too, and gives back the memory that is not on the heap. A caller
// that comes later finds nothing and does no harm.
func (t *Cache) Close() {
	for i := range t.stripes {
		t.stripes[i].close()
	}
	t.slab.close()
}

func (t *Cache) findStripe(key []byte) (*stripe, uint64) {
	h := maphash.Bytes(t.seed, key)
	return &t.stripes[h>>t.shift], h
}

// BeginBatch starts a batch: what is published from now on is seen by no reader
// before [Cache.RevealBatch], and then all of it. One batch at a time; what is
// published outside of one is seen at once.
func (t *Cache) BeginBatch() { t.currentBatch.Add(1) }

// RevealBatch ends the batch and shows it.
func (t *Cache) RevealBatch() { t.revealedBatch.Store(t.currentBatch.Load()) }

// Get appends the value of key to dst if it is known. The result does not
// alias the table. A reader that meets a batch waits until it is revealed: a reader that
// has seen one row of it must not see an older one of another.
func (t *Cache) Get(key, dst []byte) ([]byte, State) {
	s, h := t.findStripe(key)
	for {
		out, state, lone, need := s.get(h, key, dst)
		switch {
		case need == notRevealed:
			runtime.Gosched() // publishing takes microseconds
		case need > 0: // grow outside the lock and look again
			dst = slices.Grow(dst, need)
		case lone != nil: // immutable: a long copy needs no lock
			return append(dst, lone...), state
		default:
			return out, state
		}
	}
}

// GetView is Get that does not copy a large value: the result may be a view of the table's memory,
// of a row that is never changed. It keeps that memory alive.
func (t *Cache) GetView(key, dst []byte) ([]byte, State) {
	s, h := t.findStripe(key)
	if out, state, lone, need := s.get(h, key, dst); need == 0 {
		if lone != nil {
			return lone[:len(lone):len(lone)], state
		}
		return out, state
	}
	return t.Get(key, dst)
}

// Publish makes value, or its absence, the newest of key, and keeps it until
// [Cache.SetApplied] reaches gen. Generations start at 1 and must not fall: a
// lower one than before may be treated as that one. The slices are copied.
func (t *Cache) Publish(gen uint64, key, value []byte, deleted bool) {
	if len(key) > maxKeyBytes || len(value) > maxValueBytes {
		panic(fmt.Sprintf("rowcache: publish of a key of %d bytes and a value of %d: limits are the caller's to enforce", len(key), len(value)))
	}
	var flags uint32
	if deleted {
		flags, value = flagAbsent, nil
	}
	s, h := t.findStripe(key)
	// A large row is built before the lock is taken.
	lone := s.buildDedicatedRow(gen, flags, key, value)
	s.publishRow(h, gen, flags, key, value, lone)
}

// SetApplied records that everything published with a generation up to gen is in the
// state behind the log, where the next read finds it: it may be forgotten now.
// This is one store; the memory is reclaimed as rows come, or by [Cache.Trim].
func (t *Cache) SetApplied(gen uint64) {
	for old := t.appliedGen.Load(); gen > old && !t.appliedGen.CompareAndSwap(old, gen); {
		old = t.appliedGen.Load()
	}
}

// Ticket is the right to fill in one key as long as nothing happens to it. The
// zero Ticket is void.
type Ticket struct {
	hash, sequence uint64
	valid          bool
}

// NewTicket returns the right to fill in key with what the state behind the log
// says. Take it before reading that state. It is void if the key is known.
func (t *Cache) NewTicket(key []byte) Ticket {
	s, h := t.findStripe(key)
	return s.newTicket(h, key)
}

// Fill caches what the state behind the log had for key after tk was taken,
// and reports whether it did. It does not if there may be something newer, if
// the row is too large to cache, or if there is no room and the key was not asked
// for lately; then it is as unknown as before.
func (t *Cache) Fill(tk Ticket, key, value []byte, present bool) bool {
	return t.fillRow(tk, key, value, present, fillIfAdmitted)
}

// FillNeeded is Fill for a row that is needed next, by a command that is about to be
// executed say: it is cached even if it was not asked for lately.
func (t *Cache) FillNeeded(tk Ticket, key, value []byte, present bool) bool {
	return t.fillRow(tk, key, value, present, fillNeeded)
}

func (t *Cache) fillRow(tk Ticket, key, value []byte, present bool, why fillPurpose) bool {
	if !tk.valid || len(key) > maxKeyBytes || len(value) > maxValueBytes {
		return false
	}
	s, h := t.findStripe(key)
	if h != tk.hash {
		return false
	}
	var flags uint32
	if !present {
		flags, value = flagAbsent, nil
	}
	if rowBytes(len(key), len(value)) > s.shareBytes/4 {
		return false
	}
	filled, _ := s.fillRow(tk, flags, key, value, why)
	return filled
}

// IsValid reports whether the key was unknown when the ticket was taken.
func (t Ticket) IsValid() bool { return t.valid }

// IsCurrent reports whether nothing was published for a key since the ticket was taken, valid or
// not: then what was read since is still the newest. It may say no though nothing was.
func (t *Cache) IsCurrent(tk Ticket) bool {
	s := &t.stripes[tk.hash>>t.shift]
	s.mu.Lock()
	defer s.mu.Unlock()
	return tk.sequence == s.sequence[findLane(tk.hash)]
}

// Options of a table. The zero value works.
type Options struct {
	// Bytes is the memory that unpinned rows may take, with headers and
	// index. Default 64 MiB. At least 64 KiB, below which it is raised.
	Bytes int64
	// Stripes is how many locks the keys are spread over; it is rounded up to
	// a power of two. Default one per MiB of Bytes, between 16 and 1024: so
	// many that goroutines seldom meet, so few that each holds many rows.
	// At most one for every 64 KiB.
	Stripes int
	// Seed of the hash. Default a random one, so that clients cannot choose
	// keys that fall into one stripe.
	Seed maphash.Seed
	// ClassOf, if set, returns the class under which a key is counted; see
	// [Cache.ClassMetrics]. It is called for every Get: keep it cheap.
	ClassOf func(key []byte) uint32
}

const (
	defaultBytes   = 64 << 20
	minStripeBytes = 64 << 10 // of one stripe
	maxStripes     = 1 << 14
	minBlockBytes  = 4 << 10
	maxBlockBytes  = 256 << 10
	// blocksPerStripe keeps the block that is being filled and the spare one
	// a small part of the share, and the work to reclaim one short.
	blocksPerStripe = 32
	// minRowsPerBlock bounds what is lost at the end of a block, where the
	// next row did not fit.
	minRowsPerBlock = 8
)

// withDefaults returns the options as the table uses them.
func (o Options) withDefaults() Options {
	if o.Bytes <= 0 {
		o.Bytes = defaultBytes
	}
	o.Bytes = max(o.Bytes, minStripeBytes)
	if o.Stripes <= 0 {
		o.Stripes = int(min(max(o.Bytes>>20, 16), 1024))
	}
	o.Stripes = int(min(int64(o.Stripes), o.Bytes/minStripeBytes, maxStripes))
	if up := 1 << bits.Len(uint(o.Stripes-1)); int64(up)*minStripeBytes <= o.Bytes {
		o.Stripes = up
	} else {
		o.Stripes = up / 2
	}
	if o.Seed == (maphash.Seed{}) {
		o.Seed = maphash.MakeSeed()
	}
	return o
}

// chooseBlockBytes returns the size of ordinary blocks for a stripe's share.
func chooseBlockBytes(share int) int {
	size := 1 << (bits.Len(uint(share/blocksPerStripe)) - 1)
	return min(max(size, minBlockBytes), maxBlockBytes)
}
