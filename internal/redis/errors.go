package redis

import (
	"errors"
	"strings"

	"github.com/cleavekv/cleave/internal/command"
)

// Error is an error in the words that clients know: a word in capitals, and a text.
type Error string

// Error is the text.
func (e Error) Error() string { return string(e) }

// The errors that many commands share.
const (
	ErrSyntax     Error = "ERR syntax error"
	errNotInteger Error = "ERR value is not an integer or out of range"
	errNotFloat   Error = "ERR value is not a valid float"
	errWrongType  Error = "WRONGTYPE Operation against a key holding the wrong kind of value"
	errOverflow   Error = "ERR increment or decrement would overflow"
	errNaN        Error = "ERR increment would produce NaN or Infinity"
	errNoKey      Error = "ERR no such key"
	errTooLong    Error = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
	errOffset     Error = "ERR offset is out of range"
)

// Arity is the answer to a wrong number of arguments.
func Arity(name string) error { return errArity(name) }

// errArity is the answer to a wrong number of arguments.
func errArity(name string) error {
	return Error("ERR wrong number of arguments for '" + name + "' command")
}

// errExpire is the answer to a time that is none.
func errExpire(name string) error {
	return Error("ERR invalid expire time in '" + name + "' command")
}

// Text is an error as a client is told of it. Those of this package are in Redis' words
// already; those of the store get them here, and no other place.
func Text(err error) string {
	var mine Error
	switch {
	case errors.As(err, &mine):
		return string(mine)
	case errors.Is(err, command.ErrWrongType):
		return string(errWrongType)
	case errors.Is(err, command.ErrNotInteger):
		return string(errNotInteger)
	case errors.Is(err, command.ErrNotFloat):
		return string(errNotFloat)
	case errors.Is(err, command.ErrOverflow):
		return string(errOverflow)
	case errors.Is(err, command.ErrConflict):
		return "TXNABORT " + err.Error()
	}
	var limit *command.LimitError
	if errors.As(err, &limit) && limit.What == "value" {
		return string(errTooLong)
	}
	return "ERR " + strings.TrimPrefix(strings.TrimPrefix(err.Error(), "command: "), "cleave: ")
}
