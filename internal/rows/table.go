package rows

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

// Table holds rows by key. Its methods may be called from any goroutine;
// publications of one key must come in their order.
type Table struct {
	stripes []stripe
	shift   uint // stripe = hash >> shift
	seed    maphash.Seed
	class   func(key []byte) uint32
	slab    slab
	applied atomic.Uint64
	// batch is the one being published, revealed the last one that readers may
	// see. Invariant: revealed <= batch <= revealed+1.
	batch, revealed atomic.Uint64
}

// New makes an empty table. Memory is taken as rows come.
func New(o Options) *Table {
	o = o.withDefaults()
	t := &Table{
		stripes: make([]stripe, o.Stripes),
		shift:   uint(64 - bits.Len(uint(o.Stripes-1))),
		seed:    o.Seed,
		class:   o.Class,
	}
	t.slab.init(o.Bytes)
	share := int(o.Bytes / int64(o.Stripes))
	for i := range t.stripes {
		t.stripes[i].init(share, t)
	}
	return t
}

func (t *Table) stripe(key []byte) (*stripe, uint64) {
	h := maphash.Bytes(t.seed, key)
	return &t.stripes[h>>t.shift], h
}

// Begin starts a batch: what is published from now on is seen by no reader
// before [Table.Reveal], and then all of it. One batch at a time; what is
// published outside of one is seen at once.
func (t *Table) Begin() { t.batch.Add(1) }

// Reveal ends the batch and shows it.
func (t *Table) Reveal() { t.revealed.Store(t.batch.Load()) }

// Get appends the value of key to dst if it is known. The result does not
// alias the table. A reader that meets a batch waits until it is revealed: who
// has seen one row of it must not see an older one of another.
func (t *Table) Get(key, dst []byte) ([]byte, State) {
	s, h := t.stripe(key)
	for {
		out, state, lone, need := s.get(h, key, dst)
		switch {
		case need == hidden:
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

// Publish makes value, or its absence, the newest of key, and keeps it until
// [Table.Applied] reaches gen. Generations start at 1 and must not fall: a
// lower one than before may be treated as that one. The slices are copied.
func (t *Table) Publish(gen uint64, key, value []byte, deleted bool) {
	if len(key) > maxKey || len(value) > maxValue {
		panic(fmt.Sprintf("rows: publish of a key of %d bytes and a value of %d: limits are the caller's to enforce", len(key), len(value)))
	}
	var flags uint32
	if deleted {
		flags, value = flagAbsent, nil
	}
	s, h := t.stripe(key)
	// A large row is built before the lock is taken.
	lone := s.buildLone(gen, flags, key, value)
	s.publish(h, gen, flags, key, value, lone)
}

// Applied says that everything published with a generation up to gen is in the
// state behind the log, where the next read finds it: it may be forgotten now.
// This is one store; the memory is reclaimed as rows come, or by [Table.Trim].
func (t *Table) Applied(gen uint64) {
	for old := t.applied.Load(); gen > old && !t.applied.CompareAndSwap(old, gen); {
		old = t.applied.Load()
	}
}

// Ticket is the right to fill in one key as long as nothing happens to it. The
// zero Ticket is void.
type Ticket struct {
	hash, sequence uint64
	valid          bool
}

// Ticket returns the right to fill in key with what the state behind the log
// says. Take it before reading that state. It is void if the key is known.
func (t *Table) Ticket(key []byte) Ticket {
	s, h := t.stripe(key)
	return s.ticket(h, key)
}

// Fill caches what the state behind the log said about key after tk was taken,
// and reports whether it did. It does not if there may be something newer, if
// the row is too large to cache, or if there is no room and the key was not asked
// for lately; then it is as unknown as before.
func (t *Table) Fill(tk Ticket, key, value []byte, present bool) bool {
	return t.fill(tk, key, value, present, ifAsked)
}

// FillWanted is Fill for a row that is needed next, by a command that is about to be
// executed say: it is cached even if nobody has asked for it lately.
func (t *Table) FillWanted(tk Ticket, key, value []byte, present bool) bool {
	return t.fill(tk, key, value, present, wanted)
}

func (t *Table) fill(tk Ticket, key, value []byte, present bool, why purpose) bool {
	if !tk.valid || len(key) > maxKey || len(value) > maxValue {
		return false
	}
	s, h := t.stripe(key)
	if h != tk.hash {
		return false
	}
	var flags uint32
	if !present {
		flags, value = flagAbsent, nil
	}
	if extentOf(len(key), len(value)) > s.share/4 {
		return false
	}
	filled, _ := s.fill(tk, flags, key, value, why)
	return filled
}

// Valid tells whether the key was unknown when the ticket was taken.
func (t Ticket) Valid() bool { return t.valid }

// Unmoved tells whether nothing was published for a key since the ticket was taken, valid or
// not: then what was read since is still the newest. It may say no though nothing was.
func (t *Table) Unmoved(tk Ticket) bool {
	s := &t.stripes[tk.hash>>t.shift]
	s.mu.Lock()
	defer s.mu.Unlock()
	return tk.sequence == s.sequence[lane(tk.hash)]
}
