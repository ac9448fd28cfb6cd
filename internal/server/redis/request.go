package redis

import (
	"math"
	"strings"

	"github.com/cleavekv/cleave/internal/server/resp"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/partition"
)

// KeyspaceView is what a request sees of the store: one state, which it changes as a whole or
// not at all. It is good until the request is done, and may be thrown away and another
// one used from the start.
type KeyspaceView interface {
	// PositionOf returns the position of a key of the keyspace that the client has selected.
	PositionOf(key []byte) partition.Position
	// IsSelected reports whether a client that selects this has the same keyspace.
	IsSelected(name []byte) bool
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

// ArgBytes is how many bytes its words have.
func (r *Request) ArgBytes() int { return CountBytes(r.Args) }

// CountBytes is how many bytes words have together.
func CountBytes(words [][]byte) (n int) {
	for _, w := range words {
		n += len(w)
	}
	return n
}

// WireBytes is how many bytes it has on the wire, if it is no line.
func (r *Request) WireBytes() int { return resp.RequestBytes(r.Args) }

// slab gives out values of one type and takes them back all at once, so that the
// commands of a busy connection cost no garbage.
type slab[T any] struct {
	items []T
	used  int
}

func (s *slab[T]) newItem() *T {
	if s.used == len(s.items) {
		// Those that were given out stay where they are. The first is alone: a request of a MULTI has a
		// slab of its own, which is kept until EXEC ends.
		s.items, s.used = make([]T, min(max(1, 2*len(s.items)), maxSlabItems)), 0
	}
	s.used++
	return &s.items[s.used-1]
}

// maxSlabItems is how many values are made at once, and kept: a MULTI of many does not make twice as many.
const maxSlabItems = 1 << 12

func (s *slab[T]) reset() {
	clear(s.items[:min(s.used, len(s.items))])
	s.used = 0
}

// CommandPool is memory for the commands of many requests. The zero value is ready. It belongs
// to one goroutine at a time.
type CommandPool struct {
	setSlab slab[command.Set]
	getSlab slab[command.Get]
	addSlab slab[command.Add]
}

// Reset takes back all that was built.
func (r *CommandPool) Reset() {
	r.setSlab.reset()
	r.getSlab.reset()
	r.addSlab.reset()
}

type position = partition.Position

// isKeyword reports whether a word is one in capitals, however it is written.
func isKeyword(word []byte, capitals string) bool {
	if len(word) != len(capitals) {
		return false
	}
	for i, c := range word {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != capitals[i] {
			return false
		}
	}
	return true
}

// IsKeyword reports whether a word is one in capitals, however it is written.
func IsKeyword(word []byte, capitals string) bool { return isKeyword(word, capitals) }

// Integer reads a decimal number of 64 bits as Redis does: no blanks, no plus, no zeros in front.
func Integer(word []byte) (n int64, ok bool) { return parseInteger(word) }

// CheckDatabase returns why a number names no database: it is none, or there is no such database.
func CheckDatabase(word []byte) error {
	switch n, ok := parseInteger(word); {
	case !ok:
		return ErrNotInteger
	case n < math.MinInt32 || n > math.MaxInt32:
		return errNotInt
	}
	return ErrDatabase
}

// Printed is a word as Redis prints it: up to a zero.
func Printed(word []byte) string { return cutAtZero(word) }

// cutAtZero is a word as Redis prints it: up to a zero.
func cutAtZero(word []byte) string {
	s, _, _ := strings.Cut(string(word), "\x00")
	return s
}

// ParseInteger reads a decimal number as the arguments of commands are read.
func ParseInteger(b []byte) (n int64, ok bool) { return parseInteger(b) }

// parseInteger reads a decimal number of 64 bits as Redis does: no blanks, no plus, no zeros
// in front.
func parseInteger(b []byte) (n int64, ok bool) {
	digits, negative := b, false
	if len(b) > 0 && b[0] == '-' {
		digits, negative = b[1:], true
	}
	if len(digits) == 0 || len(digits) > 19 || digits[0] == '0' && len(b) > 1 {
		return 0, false
	}
	var u uint64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		u = u*10 + uint64(c-'0')
	}
	switch {
	case negative && u <= 1<<63:
		return -int64(u), true
	case !negative && u < 1<<63:
		return int64(u), true
	}
	return 0, false
}

// timeUnit is how a time is given.
type timeUnit struct {
	ms       int64 // how many milliseconds it counts in
	absolute bool
}

// parseTimeUnit is the unit that an option names.
func parseTimeUnit(word []byte) (u timeUnit, ok bool) {
	switch {
	case isKeyword(word, "EX"):
		return timeUnit{1000, false}, true
	case isKeyword(word, "PX"):
		return timeUnit{1, false}, true
	case isKeyword(word, "EXAT"):
		return timeUnit{1000, true}, true
	case isKeyword(word, "PXAT"):
		return timeUnit{1, true}, true
	}
	return u, false
}

// parsePositive reads a time that must be positive, as that of a value which is written.
func (u timeUnit) parsePositive(word []byte, name string) (command.Expiry, error) {
	n, ok := parseInteger(word)
	if !ok {
		return command.Expiry{}, ErrNotInteger
	}
	if n <= 0 {
		return command.Expiry{}, newExpireError(name)
	}
	return u.toExpiry(n, name)
}

// toExpiry is a time in the unit.
func (u timeUnit) toExpiry(n int64, name string) (command.Expiry, error) {
	if n > math.MaxInt64/u.ms || n < math.MinInt64/u.ms {
		return command.Expiry{}, newExpireError(name)
	}
	if u.absolute {
		return command.ExpireAt(n * u.ms), nil
	}
	return command.ExpireIn(n * u.ms), nil
}
