package redis

import (
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/partition"
)

// Unit is what a request sees of the store: one state, which it changes as a whole or
// not at all. It is good until the request is done, and may be thrown away and another
// one used from the start.
type Unit interface {
	// At returns the position of a key of the keyspace that the client has selected.
	At(key []byte) partition.Position
	// Selects tells whether a client that selects this has the same keyspace.
	Selects(name []byte) bool
	// Read and Write evaluate a command about the key at a position, after those
	// before it. The reply is good until the unit ends.
	Read(at partition.Position, c command.Command) command.Reply
	Write(at partition.Position, c command.Command) command.Reply
	// NowMS is its clock, in Unix milliseconds.
	NowMS() int64
}

// Request is what a client has sent.
type Request struct {
	Spec *Spec
	// Args are the words of the request, its name first.
	Args [][]byte
}

// Bytes is how many bytes its words have.
func (r *Request) Bytes() int {
	n := 0
	for _, a := range r.Args {
		n += len(a)
	}
	return n
}

// slab gives out values of one type and takes them back all at once, so that the
// commands of a busy connection cost no garbage.
type slab[T any] struct {
	items []T
	used  int
}

func (s *slab[T]) take() *T {
	if s.used == len(s.items) {
		// Those that were given out stay where they are.
		s.items, s.used = make([]T, max(64, 2*len(s.items))), 0
	}
	s.used++
	return &s.items[s.used-1]
}

// most is how many values are kept.
const most = 1 << 13

func (s *slab[T]) reset() {
	if len(s.items) > most {
		s.items = nil
	}
	clear(s.items[:min(s.used, len(s.items))])
	s.used = 0
}

// Room is memory for the commands of many requests. The zero value is ready. It belongs
// to one goroutine at a time.
type Room struct {
	sets slab[command.Set]
	gets slab[command.Get]
	adds slab[command.Add]
}

// Reset takes back all that was built.
func (r *Room) Reset() {
	r.sets.reset()
	r.gets.reset()
	r.adds.reset()
}
