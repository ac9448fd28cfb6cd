package redis

import (
	"math"
	"strings"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/partition"
)

type position = partition.Position

// is tells whether a word is one in capitals, however it is written.
func is(word []byte, capitals string) bool {
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

// Is tells whether a word is one in capitals, however it is written.
func Is(word []byte, capitals string) bool { return is(word, capitals) }

// printed is a word as Redis prints it: up to a zero.
func printed(word []byte) string {
	s, _, _ := strings.Cut(string(word), "\x00")
	return s
}

// integer reads a decimal number of 64 bits as Redis does: no blanks, no plus, no zeros
// in front.
func integer(b []byte) (n int64, ok bool) {
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

// unitOf is the unit that an option names.
func unitOf(word []byte) (u timeUnit, ok bool) {
	switch {
	case is(word, "EX"):
		return timeUnit{1000, false}, true
	case is(word, "PX"):
		return timeUnit{1, false}, true
	case is(word, "EXAT"):
		return timeUnit{1000, true}, true
	case is(word, "PXAT"):
		return timeUnit{1, true}, true
	}
	return u, false
}

// positive reads a time that must be positive, as that of a value which is written.
func (u timeUnit) positive(word []byte, name string) (command.Expiry, error) {
	n, ok := integer(word)
	if !ok {
		return command.Expiry{}, errNotInteger
	}
	if n <= 0 {
		return command.Expiry{}, errExpire(name)
	}
	return u.of(n, name)
}

// of is a time in the unit.
func (u timeUnit) of(n int64, name string) (command.Expiry, error) {
	if n > math.MaxInt64/u.ms || n < math.MinInt64/u.ms {
		return command.Expiry{}, errExpire(name)
	}
	if u.absolute {
		return command.At(n * u.ms), nil
	}
	return command.In(n * u.ms), nil
}
