package key

import (
	"errors"
	"fmt"
	"strings"
)

// ErrUnencodable means a value has no encoding: the message names its type, and
// [Tuple] lists those that have one.
var ErrUnencodable = errors.New("key: value cannot be encoded")

// ErrDepth means a tuple nests deeper than [MaxDepth]: flatten it.
var ErrDepth = errors.New("key: tuple nested too deep")

// ErrMalformed means bytes are not an encoded tuple: they were written by
// something else or damaged. Every [*DecodeError] matches it.
var ErrMalformed = errors.New("key: malformed tuple")

// The causes that a [*DecodeError] unwraps to, besides [ErrDepth].
var (
	// ErrTruncated means the input ends inside an element.
	ErrTruncated = errors.New("key: input ends inside an element")
	// ErrTypeCode means an element starts with a byte that is no type code.
	ErrTypeCode = errors.New("key: unknown type code")
	// ErrNotCanonical means a number is written longer than it needs to be.
	ErrNotCanonical = errors.New("key: integer is not in its shortest form")
)

// DecodeError says where in the input, and why, decoding stopped.
type DecodeError struct {
	// Offset is the index of the first byte that does not fit. If the input
	// ends too early it is where the unfinished element starts, or the end
	// of the input if all that is missing is the end of a nested tuple.
	Offset int
	// Cause wraps ErrTruncated, ErrTypeCode, ErrNotCanonical or ErrDepth.
	Cause error
}

// Error names the offset and the cause.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("%v: byte %d: %s", ErrMalformed, e.Offset, detail(e.Cause))
}

// detail returns the text of an error that stands inside a longer one of this
// package, which has named the package already.
func detail(err error) string { return strings.TrimPrefix(err.Error(), "key: ") }

// Is reports whether target is [ErrMalformed].
func (e *DecodeError) Is(target error) bool { return target == ErrMalformed }

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Cause }
