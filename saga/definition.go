package saga

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Definition says what a kind of saga does. S is the value that each of them carries
// from step to step.
type Definition[S any] struct {
	// Name names it in the journal, for ever.
	Name string
	// Steps are done in their order and undone in the reverse order. 1 to MaxSteps.
	Steps []Step[S]
	// Deadline is how long after its start a saga that has not done all its steps
	// turns round, also while it was not resumed. Default 0, never.
	Deadline time.Duration
	// Codec turns values into bytes and back. Default JSON.
	Codec Codec[S]
	// Retry is that of steps that have none of their own.
	Retry Retry
	// Forget, if set, is called before the record of a saga that has ended is removed,
	// at least once: it removes what the other side has noted of it. Where two runners
	// sweep one journal, it may come when the other has removed the record, and an id that
	// is used again is that of a later saga by then: use ids once there.
	Forget func(ctx context.Context, id string) error
}

// Step is a step of a saga: Do, and Undo to take it back. Both may be called several
// times with the same Call.Key, and the other side must keep the rules of Judge; or
// make the step with Transactional.
type Step[S any] struct {
	// Name names it in the journal. It is what a saga under way finds it by: a step
	// that does something else needs another name.
	Name string
	// Do does it. What it changes in s is kept if it returns nil.
	Do func(ctx context.Context, c Call, s *S) error
	// Undo takes back what Do did. Without one the step is passed over on the way back:
	// for steps that change nothing, and those that nothing can fail after. Nobody
	// knows then whether a Do that failed takes effect later.
	Undo func(ctx context.Context, c Call, s *S) error
	// Retry is how it is tried again, in the place of all of the definition's Retry. The
	// zero value is that one.
	Retry Retry
	// Timeout is how long one call may take: its context ends then. The runner waits
	// for it to return nevertheless, so that no two calls are made at once. Default 0,
	// no limit but the deadline.
	Timeout time.Duration
	// Retired keeps a step for sagas under way, and leaves it out of new ones.
	Retired bool

	doTx, undoTx func(tx any, s *S) error
	fits         func(Together) bool
}

// Call names a call of a step.
type Call struct {
	// Saga is the id, Definition its kind, Step the name of the step.
	Saga, Definition, Step string
	// Undo tells which of the two it is.
	Undo bool
	// Key is the same for each try of this call, after a crash too, and of no other:
	// what the other side knows a repetition by.
	Key string
	// DoKey is the Key of the Do that an Undo takes back, or that of this Do.
	DoKey string
	// Doubt, in an Undo, means that nobody knows whether the Do took effect.
	Doubt bool
	// Attempt is 1 for the first try, as far as the journal knows.
	Attempt int
}

// key names a call, whatever is in the names.
func key(saga, step, which string) string { return fmt.Sprintf("%q/%q/%s", saga, step, which) }

func callOf(r *Record, undo bool) Call {
	c := Call{
		Saga: r.ID, Definition: r.Definition, Step: r.step(), Undo: undo, Doubt: r.Doubt, Attempt: r.Attempts + 1,
		DoKey: key(r.ID, r.step(), "do"),
	}
	c.Key = c.DoKey
	if undo {
		c.Key = key(r.ID, r.step(), "undo")
	}
	return c
}

// Transactional makes a step that takes effect in a transaction of the journal, of type
// T: what it does there and the record that says so are one. It takes effect at most
// once, and of a crash nothing or all is left. undo may be nil.
//
// do and undo may be run several times for one effect, so they must have no others.
func Transactional[T, S any](name string, do, undo func(tx T, s *S) error) Step[S] {
	step := Step[S]{Name: name, fits: func(j Together) bool { var tx T; return j.Fits(tx) }}
	if do != nil {
		step.doTx = func(tx any, s *S) error { return do(tx.(T), s) }
	}
	if undo != nil {
		step.undoTx = func(tx any, s *S) error { return undo(tx.(T), s) }
	}
	return step
}

// Codec turns values into bytes for the journal.
type Codec[S any] interface {
	Encode(s S) ([]byte, error)
	Decode(data []byte) (S, error)
}

// jsonCodec is the default.
type jsonCodec[S any] struct{}

func (jsonCodec[S]) Encode(s S) ([]byte, error) { return json.Marshal(s) }

func (jsonCodec[S]) Decode(data []byte) (s S, err error) {
	err = json.Unmarshal(data, &s)
	return s, err
}

// planned is the step as a record has it.
func (s *Step[S]) planned() Planned {
	return Planned{Name: s.Name, Atomic: s.doTx != nil, Lasting: s.Undo == nil && s.undoTx == nil}
}

// check finds all that is wrong.
func (d *Definition[S]) check(j Journal) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if d.Name == "" || !utf8.ValidString(d.Name) {
		bad("it has no name, or one that is not UTF-8")
	}
	if d.Deadline < 0 {
		bad("Deadline is %v: use 0 for none", d.Deadline)
	}
	if len(d.Steps) > MaxSteps {
		bad("it has %d steps: at most %d", len(d.Steps), MaxSteps)
	}
	if err := d.Retry.check(); err != nil {
		errs = append(errs, err)
	}
	together, _ := j.(Together)
	names, live := map[string]bool{}, 0
	for i := range d.Steps {
		s := &d.Steps[i]
		if !s.Retired {
			live++
		}
		switch {
		case s.Name == "" || !utf8.ValidString(s.Name):
			bad("step %d has no name, or one that is not UTF-8", i)
		case names[s.Name]:
			bad("two steps are named %q", s.Name)
		case s.Do == nil && s.doTx == nil:
			bad("step %q has no Do", s.Name)
		case s.doTx != nil && (s.Do != nil || s.Undo != nil):
			bad("step %q is transactional: give do and undo to Transactional, and leave Do and Undo out", s.Name)
		case s.fits != nil && (together == nil || !s.fits(together)):
			bad("step %q needs a journal with transactions of its type, and %T has none", s.Name, j)
		case s.Timeout < 0:
			bad("step %q: Timeout is %v: use 0 for none", s.Name, s.Timeout)
		}
		if err := s.Retry.check(); err != nil {
			bad("step %q: %w", s.Name, err)
		}
		names[s.Name] = true
	}
	if live == 0 {
		bad("it has no steps for new sagas")
	}
	if len(errs) > 0 {
		return fmt.Errorf("%w: %q: %w", ErrDefinition, d.Name, errors.Join(errs...))
	}
	return nil
}
