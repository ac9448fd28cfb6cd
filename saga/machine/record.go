// Package machine decides what a saga does next: the record that a journal has of it, the events
// that change it, and what the record wants. It does nothing itself, and knows no clock but the
// times that it is handed.
//
// [Next] makes the next record of an event, [Wanted] says what is to be done about a record, and
// [Judge] what the other side of a step does with a call. Package saga has the runner that
// carries sagas out by them; its DESIGN.md has the table of states and why it holds.
package machine

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

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

// MaxID is the most bytes of an id, and MaxSteps the most steps of a saga.
const (
	MaxID    = 256
	MaxSteps = 1000
)

// State is how a saga stands.
type State uint8

// The states of a saga.
const (
	// Running does its steps, first to last.
	Running State = iota + 1
	// Compensating undoes them, last to first.
	Compensating
	// Completed has done all.
	Completed
	// Compensated has undone all that was done.
	Compensated
)

var stateNames = []string{"", "running", "compensating", "completed", "compensated"}

// String is the word for s.
func (s State) String() string { return formatEnum(stateNames, s) }

// Ended reports whether nothing changes any more.
func (s State) Ended() bool { return s == Completed || s == Compensated }

// MarshalText is for journals.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (s *State) UnmarshalText(text []byte) error { return parseEnum(stateNames, "state", text, s) }

// Stuck is why a saga stands still.
type Stuck uint8

// The reasons.
const (
	NotStuck Stuck = iota
	// StuckUndo means that an Undo failed too often, or for good: remove the cause, and
	// call Runner.Retry.
	StuckUndo
	// StuckCode means that the program does not have what the saga needs: a
	// definition, a step, or the type of its value. Run one that has it: Resume and
	// Retry look again.
	StuckCode
)

var stuckNames = []string{"", "undo fails", "code is missing"}

// String is the word for s.
func (s Stuck) String() string { return formatEnum(stuckNames, s) }

// MarshalText is for journals.
func (s Stuck) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (s *Stuck) UnmarshalText(text []byte) error { return parseEnum(stuckNames, "reason", text, s) }

func formatEnum[T ~uint8](words []string, v T) string {
	if int(v) < len(words) {
		return words[v]
	}
	return fmt.Sprintf("%d", v)
}

func parseEnum[T ~uint8](words []string, what string, text []byte, to *T) error {
	i := slices.Index(words, string(text))
	if i < 0 {
		return fmt.Errorf("%w: %s %q", ErrFormat, what, text)
	}
	*to = T(i)
	return nil
}

// Planned is a step as it was when the saga began.
type Planned struct {
	Name string `json:"name"`
	// Atomic steps take effect together with the record that says so. Of another one
	// this is unknown until its Do has returned.
	Atomic bool `json:"atomic,omitempty"`
	// Lasting steps have no Undo.
	Lasting bool `json:"lasting,omitempty"`
}

// Record is all that a journal has of a saga. Next makes the next one.
type Record struct {
	ID         string    `json:"id"`
	Definition string    `json:"definition"`
	Steps      []Planned `json:"steps"`
	State      State     `json:"state"`
	// At is the step that is done or undone next. Running: those before it are done,
	// none behind it was begun. Compensating: those behind it are not in effect.
	// Completed: len(Steps). Compensated: -1.
	At int `json:"at"`
	// Doubt means that it is unknown whether the step to be undone was done.
	Doubt bool `json:"doubt,omitempty"`
	// Attempts is how often the step failed in a row, Failure its last error, and
	// NotBeforeMS when to try again.
	Attempts    int    `json:"attempts,omitempty"`
	Failure     string `json:"failure,omitempty"`
	NotBeforeMS int64  `json:"not_before_ms,omitempty"`
	// DeadlineMS is when a saga that is running turns round; 0 for never.
	DeadlineMS int64 `json:"deadline_ms,omitempty"`
	// Cancel is why it was cancelled, while that has not turned it round.
	Cancel string `json:"cancel,omitempty"`
	// Cause is why it turned round, and Turned the step at which it was.
	Cause  string `json:"cause,omitempty"`
	Turned string `json:"turned,omitempty"`
	Stuck  Stuck  `json:"stuck,omitempty"`
	// Data is the saga's value, as its codec made it.
	Data []byte `json:"data,omitempty"`
	// Forget means that the definition has something to remove with the record.
	Forget bool `json:"forget,omitempty"`
	// Owner is the runner that works on it.
	Owner     string `json:"owner,omitempty"`
	CreatedMS int64  `json:"created_ms"`
	ChangedMS int64  `json:"changed_ms"`
	EndedMS   int64  `json:"ended_ms,omitempty"`
	// Revision is 1 at first, and one more each time.
	Revision uint64 `json:"revision"`
}

// Begin returns the first record of a saga.
func Begin(id, definition string, steps []Planned, data []byte, owner string, nowMS, deadlineMS int64) Record {
	return Record{
		ID: id, Definition: definition, Steps: steps, State: Running, Data: data, Owner: owner,
		DeadlineMS: deadlineMS, CreatedMS: nowMS, ChangedMS: nowMS, Revision: 1,
	}
}

// StepName is the one that is next, or "".
func (r *Record) StepName() string {
	if r.At >= 0 && r.At < len(r.Steps) {
		return r.Steps[r.At].Name
	}
	return ""
}

// CheckID refuses ids that a journal may not be able to write as they are.
func CheckID(id string) error {
	if id == "" || len(id) > MaxID || !utf8.ValidString(id) {
		return fmt.Errorf("%w: %q: use 1 to %d bytes of UTF-8", ErrID, id, MaxID)
	}
	return nil
}

// AtRest reports whether nothing comes by itself.
func (r *Record) AtRest() bool { return r.State.Ended() || r.Stuck != NotStuck }

// Validate returns an error unless a record can be one: journals that read records from outside call it.
func (r *Record) Validate() error {
	bad := func(what string) error { return fmt.Errorf("%w: %q: %s", ErrFormat, r.ID, what) }
	switch {
	case CheckID(r.ID) != nil:
		return bad("id")
	case len(r.Steps) == 0 || len(r.Steps) > MaxSteps:
		return bad("steps")
	case r.Revision == 0:
		return bad("revision")
	case r.State == Running && (r.At < 0 || r.At >= len(r.Steps)),
		r.State == Compensating && (r.At < 0 || r.At >= len(r.Steps) || r.Steps[r.At].Lasting),
		r.State == Completed && r.At != len(r.Steps),
		r.State == Compensated && r.At != -1:
		return bad("step")
	case r.State < Running || r.State > Compensated, r.State.Ended() != (r.EndedMS != 0):
		return bad("state")
	case r.Stuck > StuckCode, r.Stuck == StuckUndo && r.State != Compensating, r.Stuck != NotStuck && r.State.Ended():
		return bad("reason")
	case r.Attempts < 0, r.Doubt && r.State != Compensating, r.Cancel != "" && r.State != Running:
		return bad("marks")
	}
	return nil
}
