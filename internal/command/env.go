package command

import (
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/plant"
)

// Reader is the committed state: the store, a snapshot, or a test's map. Keys
// are store keys: a table and a position.
type Reader interface {
	// Get appends the value of key to dst, which has length 0, and returns it.
	// It must not keep dst.
	Get(key, dst []byte) (value []byte, ok bool, err error)
	// Scan visits the rows with start <= key < end in the order of their keys,
	// or in the reverse of it, until visit returns false. The slices are good
	// during the visit.
	Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error
}

// PlainReader is a Reader that sometimes knows without reading that a key needs
// no care when it is overwritten, so that a plain Set is a blind write.
type PlainReader interface {
	Reader
	// Plain is true only if it is certain that key has no row, or that of a
	// String without expiry. False is always right.
	Plain(key []byte) bool
}

// Command is one command with its arguments. Evaluate it with [Env.Do].
type Command interface {
	// Eval reads and writes through the Env. If the reply is an error, the
	// caller takes back what was written.
	Eval(*Env) Reply
}

// How much memory for replies is kept for the next batch.
const (
	keepBytes = 4 << 20
	keepItems = 1 << 14
)

// Env is what the commands of one batch see: the committed state, under what
// the batch has written so far. It keeps its memory from batch to batch. It is
// not safe for concurrent use.
type Env struct {
	reader Reader
	plain  PlainReader // reader, if it can tell
	guard  Guard       // nil if there is nobody to ask
	// refused is why the guard has refused a change of the command at hand.
	refused error
	out     effect.Builder
	over    overlay
	now     int64
	asOf    int64 // if not 0, see AsOf
	next    uint64
	rows    int // written to the table of rows since Begin

	key    []byte // scratch: the store key at hand
	join   []byte // scratch: a value being put together
	arena  []byte // what replies point to
	items  []Item // and their items
	loaded int    // bytes of the last lookup that lie behind arena, unless kept
	order  []int  // scratch: entries of the overlay in the order of their keys
}

// NewEnv returns an Env that reads from r. Call Begin before the first command.
func NewEnv(r Reader) *Env {
	e := &Env{reader: r}
	e.plain, _ = r.(PlainReader)
	e.Begin(effect.Header{}, 1)
	return e
}

// Begin starts a batch. The clock is that of the header. nextVersion is the
// first version to give out, at least 1: 0 stands for an absent key. Replies
// and effects of the batch before are overwritten.
func (e *Env) Begin(h effect.Header, nextVersion uint64) {
	if c := cap(e.arena); c == 0 || c > keepBytes {
		e.arena = make([]byte, 0, 1<<10) // never nil, so that empty is not absent
	}
	if cap(e.join) > keepBytes {
		e.join = nil
	}
	if cap(e.items) > keepItems {
		e.items = nil
	}
	clear(e.items) // they may hold on to arenas that were outgrown
	e.arena, e.items, e.loaded, e.rows = e.arena[:0], e.items[:0], 0, 0
	e.out.Reset(h)
	e.over.reset()
	e.now, e.next = max(h.ClockMS, 0), max(nextVersion, 1) // expiries are positive
}

// Do evaluates c after the commands before it. If it fails, it leaves nothing.
func (e *Env) Do(c Command) Reply {
	m, outer := e.Mark(), e.refused
	e.refused = nil
	reply := c.Eval(e)
	if e.refused != nil {
		reply = failed(e.refused)
	}
	e.refused = outer // commands are made of commands
	if reply.Err != nil {
		e.Rewind(m)
	}
	return reply
}

// Effects returns what the batch has written so far. Its bytes are good until
// the next command or Begin. A group may add rows of tables that no command
// reads; a command would not see them.
func (e *Env) Effects() *effect.Builder { return &e.out }

// Held is how many bytes replies of the batch point to.
func (e *Env) Held() int { return len(e.arena) }

// NextVersion is the first version that the batch has not given out.
func (e *Env) NextVersion() uint64 { return e.next }

// NowMS is the clock of the batch, in Unix milliseconds.
func (e *Env) NowMS() int64 { return e.now }

// Point is a state to which an Env can go back.
type Point struct {
	out     effect.Mark
	entries int
	next    uint64
	rows    int
	size    int
}

// Mark returns the present state of the batch for Rewind.
func (e *Env) Mark() Point {
	return Point{e.out.Mark(), len(e.over.entries), e.next, e.rows, e.out.Size()}
}

// Rewind takes back what commands have written since Mark in the same batch. Their
// replies stay good.
func (e *Env) Rewind(p Point) {
	e.over.rewind(p.entries)
	e.out.Rewind(p.out)
	e.next, e.rows = p.next, p.rows
}

// version gives out the next version. Each write of a key takes one.
func (e *Env) version() uint64 {
	v := e.next
	e.next++
	return v
}

// lookup returns the newest value of a store key. It is good until the next
// lookup or write, unless kept.
func (e *Env) lookup(key []byte) ([]byte, bool, error) {
	if value, present, known := e.written(key); known {
		return value, present, nil
	}
	tail := e.arena[len(e.arena):]
	value, ok, err := e.reader.Get(key, tail)
	if err != nil || !ok {
		return nil, false, err
	}
	if len(value) > 0 && cap(tail) > 0 && &value[0] == &tail[:1][0] {
		e.loaded = len(value)
	}
	return value, true, nil
}

// written returns what the batch itself did to a store key, if it did.
func (e *Env) written(key []byte) (value []byte, present, known bool) {
	e.loaded = 0
	if plant.Bug("command-overlay-skipped") {
		return nil, false, false
	}
	op, known := e.over.find(&e.out, key)
	return op.Value, known && !op.Delete, known
}

// keep makes part of what the last lookup returned good until the next Begin.
func (e *Env) keep(part []byte) []byte {
	if e.loaded > 0 { // it lies behind the arena already
		e.arena = e.arena[:len(e.arena)+e.loaded]
		e.loaded = 0
		return part
	}
	return e.save(part)
}

// save copies b into the arena.
func (e *Env) save(b []byte) []byte {
	start := len(e.arena)
	e.arena = append(e.arena, b...)
	return e.arena[start:len(e.arena):len(e.arena)]
}

func (e *Env) put(key, head, body []byte) {
	ref := e.out.PutParts(key, head, body)
	e.over.record(&e.out, key, ref)
}

func (e *Env) delete(key []byte) {
	ref := e.out.Delete(key)
	e.over.record(&e.out, key, ref)
}
