// Package machine decides what a saga does next: the record that a journal has of it, the events
// that change it, and what the record wants. It does nothing itself, and knows no clock but the
// times that it is handed.
//
// [Next] makes the next record of an event, [Wanted] says what is to be done about a record, and
// [Judge] what the other side of a step does with a call. Package saga has the runner that
// carries sagas out by them; its DESIGN.md has the table of states and why it holds.
package machine

import "errors"

// Why an event, a record or an id is refused. Package saga has them under the same names.
var (
	// ErrEnded means that the saga has ended: nothing changes it any more.
	ErrEnded = errors.New("saga: it has ended")
	// ErrTurn means that an event does not fit the record: it comes too late, or
	// twice. Nothing has changed.
	ErrTurn = errors.New("saga: not the turn for it")
	// ErrFormat means that a record in the journal cannot be read: it is damaged, or
	// was written by a newer version.
	ErrFormat = errors.New("saga: unreadable record")
	// ErrID means that an id cannot be used: it has 1 to MaxID bytes of UTF-8.
	ErrID = errors.New("saga: bad id")
)
