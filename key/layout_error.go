package key

import (
	"errors"
	"fmt"
)

// ErrLayout means a text is not a layout, or a method was called on a nil
// *Layout. Every [*LayoutError] matches it.
var ErrLayout = errors.New("key: bad layout")

// errNilLayout is what a nil *Layout answers: it usually comes from a
// ParseLayout whose error was passed over.
var errNilLayout = fmt.Errorf("%w: it is nil; get one from ParseLayout and look at its error", ErrLayout)

// LayoutError says where a layout's text is wrong and what belongs there.
type LayoutError struct {
	// Layout is the text as it was given.
	Layout string
	// Offset is the byte of Layout at which the trouble starts.
	Offset int
	// Problem says what is wrong or what was expected.
	Problem string
}

// Error quotes the text and names the byte and the problem.
func (e *LayoutError) Error() string {
	return fmt.Sprintf("%v %q: byte %d: %s", ErrLayout, e.Layout, e.Offset, e.Problem)
}

// Is reports whether target is [ErrLayout].
func (e *LayoutError) Is(target error) bool { return target == ErrLayout }

// ErrColumn means the columns given do not make a key of the layout: one is
// missing, of the wrong type, out of range, or not in the layout at all. The
// message names it and what was wanted.
var ErrColumn = errors.New("key: column does not fit the layout")

// ErrForeignKey means bytes are not a key of the layout: they belong to another
// keyspace or layout. Every [*FitError] matches it.
var ErrForeignKey = errors.New("key: not a key of this layout")

// FitError says where a key stopped fitting a layout.
type FitError struct {
	// Offset is the byte of the key at which the field starts that does not
	// fit, or the exact byte if the key is not a tuple there.
	Offset int
	// Field is the name of that field; empty if the key goes on after the
	// last one.
	Field string
	// Cause says what is wrong. It is a [*DecodeError] if the key is not
	// even a tuple.
	Cause error
}

// Error names the byte, the field and the cause.
func (e *FitError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("%v: byte %d: %s", ErrForeignKey, e.Offset, detail(e.Cause))
	}
	return fmt.Sprintf("%v: byte %d: %s: %s", ErrForeignKey, e.Offset, e.Field, detail(e.Cause))
}

// Is reports whether target is [ErrForeignKey].
func (e *FitError) Is(target error) bool { return target == ErrForeignKey }

// Unwrap returns the cause.
func (e *FitError) Unwrap() error { return e.Cause }
