package saga

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/cleavekv/cleave/saga/machine"
)

// Definition specifies what a kind of saga does. S is the value that each of them carries
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
	// for steps that change nothing, and those that nothing can fail after. It is
	// unknown then whether a Do that failed takes effect later.
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
	fitsJournal  func(Together) bool
}

// Call names a call of a step.
type Call struct {
	// Saga is the id, Definition its kind, Step the name of the step.
	Saga, Definition, Step string
	// Undo reports which of the two it is.
	Undo bool
	// Key is the same for each try of this call, after a crash too, and of no other:
	// what the other side knows a repetition by.
	Key string
	// DoKey is the Key of the Do that an Undo takes back, or that of this Do.
	DoKey string
	// Doubt, in an Undo, means that it is unknown whether the Do took effect.
	Doubt bool
	// Attempt is 1 for the first try, as far as the journal knows.
	Attempt int
}

// callKey names a call, whatever is in the names.
func callKey(saga, step, which string) string { return fmt.Sprintf("%q/%q/%s", saga, step, which) }

func newCall(r *Record, undo bool) Call {
	c := Call{
		Saga: r.ID, Definition: r.Definition, Step: r.StepName(), Undo: undo, Doubt: r.Doubt, Attempt: r.Attempts + 1,
		DoKey: callKey(r.ID, r.StepName(), "do"),
	}
	c.Key = c.DoKey
	if undo {
		c.Key = callKey(r.ID, r.StepName(), "undo")
	}
	return c
}

// Transactional makes a step that takes effect in a transaction of the journal, of type
// T: what it does there and the record that says so are one. It takes effect at most
// once, and of a crash nothing or all is left. undo may be nil.
//
// do and undo may be run several times for one effect, so they must have no others.
func Transactional[T, S any](name string, do, undo func(tx T, s *S) error) Step[S] {
	step := Step[S]{Name: name, fitsJournal: func(j Together) bool { var tx T; return j.Fits(tx) }}
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

// toPlanned is the step as a record has it.
func (s *Step[S]) toPlanned() Planned {
	return Planned{Name: s.Name, Atomic: s.doTx != nil, Lasting: s.Undo == nil && s.undoTx == nil}
}

// checkFor finds all that is wrong.
func (d *Definition[S]) checkFor(j Journal) error {
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
	if err := d.Retry.Check(); err != nil {
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
		case s.fitsJournal != nil && (together == nil || !s.fitsJournal(together)):
			bad("step %q needs a journal with transactions of its type, and %T has none", s.Name, j)
		case s.Timeout < 0:
			bad("step %q: Timeout is %v: use 0 for none", s.Name, s.Timeout)
		}
		if err := s.Retry.Check(); err != nil {
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

// untypedDefinition is a definition whose type is forgotten: the runner knows values as bytes.
type untypedDefinition struct {
	name          string
	newSteps      []Planned
	steps         map[string]*untypedStep
	deadline      time.Duration
	forget        func(ctx context.Context, id string) error
	checkReadable func(data []byte) error
}

// untypedStep is a step that takes bytes and returns them.
type untypedStep struct {
	planned      Planned
	retry        Retry
	timeout      time.Duration
	do, undo     func(ctx context.Context, c Call, data []byte) ([]byte, error)
	doTx, undoTx func(tx any, data []byte) ([]byte, error)
}

// Sagas are all sagas of a definition.
type Sagas[S any] struct {
	runner     *Runner
	definition *untypedDefinition
	codec      Codec[S]
}

// Register makes a definition known to a runner, before Resume.
func Register[S any](r *Runner, d Definition[S]) (*Sagas[S], error) {
	if err := d.checkFor(r.journal); err != nil {
		return nil, err
	}
	codec := d.Codec
	if codec == nil {
		codec = jsonCodec[S]{}
	}
	k := &untypedDefinition{name: d.Name, steps: map[string]*untypedStep{}, deadline: d.Deadline, forget: d.Forget}
	k.checkReadable = func(data []byte) error { _, err := decodeValue(codec, data); return err }
	for i := range d.Steps {
		s := &d.Steps[i]
		if !s.Retired {
			k.newSteps = append(k.newSteps, s.toPlanned())
		}
		retry := s.Retry
		if retry == (Retry{}) {
			retry = d.Retry
		}
		k.steps[s.Name] = &untypedStep{
			planned: s.toPlanned(), retry: retry, timeout: s.Timeout,
			do: bindStep(codec, s.Do), undo: bindStep(codec, s.Undo), doTx: bindTx(codec, s.doTx), undoTx: bindTx(codec, s.undoTx),
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.definitions[d.Name] != nil {
		return nil, fmt.Errorf("%w: %q is registered already", ErrDefinition, d.Name)
	}
	r.definitions[d.Name] = k
	return &Sagas[S]{r, k, codec}, nil
}

func bindStep[S any](codec Codec[S], f func(context.Context, Call, *S) error) func(context.Context, Call, []byte) ([]byte, error) {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, c Call, data []byte) ([]byte, error) {
		return callWithValue(codec, data, func(s *S) error { return f(ctx, c, s) })
	}
}

func bindTx[S any](codec Codec[S], f func(any, *S) error) func(any, []byte) ([]byte, error) {
	if f == nil {
		return nil
	}
	return func(tx any, data []byte) ([]byte, error) {
		return callWithValue(codec, data, func(s *S) error { return f(tx, s) })
	}
}

// callWithValue runs f on a value that is given as bytes, and returns it as bytes. A panic of f
// is an error like others: it must not take the sagas of others down, now and after
// each restart.
func callWithValue[S any](codec Codec[S], data []byte, f func(*S) error) (after []byte, err error) {
	s, err := decodeValue(codec, data)
	if err != nil {
		return nil, fmt.Errorf("decode the value: %w", err)
	}
	defer func() {
		if p := recover(); p != nil {
			after, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	if err := f(&s); err != nil {
		return nil, err
	}
	return encodeValue(codec, s)
}

// decodeValue reads a value. A codec that panics has failed, as a step has.
func decodeValue[S any](codec Codec[S], data []byte) (s S, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return codec.Decode(data)
}

func encodeValue[S any](codec Codec[S], s S) ([]byte, error) {
	data, err := codec.Encode(s)
	if err != nil {
		return nil, fmt.Errorf("encode the value: %w", err)
	}
	if len(data) > MaxValue {
		return nil, fmt.Errorf("%w: %d bytes: at most %d, keep the rest elsewhere", ErrValue, len(data), MaxValue)
	}
	return data, nil
}

// Start begins the saga of an id with a value, and returns when that is durable: from
// then on it ends, whatever happens. A first step that is transactional is done by then,
// if it can be. If there is one of that id already, under way or ended, that is no error:
// it goes on, and s is not looked at.
//
// After an error that is none of this package, it may have begun: start it again with
// the same id.
func (g *Sagas[S]) Start(ctx context.Context, id string, s S) error {
	_, err := g.startSaga(ctx, id, s)
	return err
}

func (g *Sagas[S]) startSaga(ctx context.Context, id string, s S) (*activeSaga, error) {
	if err := machine.CheckID(id); err != nil {
		return nil, err
	}
	data, err := encodeValue(g.codec, s)
	if err != nil {
		return nil, fmt.Errorf("saga %s %q: %w", g.definition.name, id, err)
	}
	return g.runner.startSaga(ctx, g.definition, id, data)
}

// Wait returns the value of a saga when it has completed. If it was taken back, the
// error matches ErrCompensated and says why; if it is stuck, ErrStuck: it may be
// waited for again. The value is then that of the last step that was done or undone.
func (g *Sagas[S]) Wait(ctx context.Context, id string) (S, error) {
	return g.toOutcome(g.runner.waitAtRest(ctx, id))
}

// Run is Start and Wait: every run of a saga of an id gets its outcome, the first time
// and each time after, as long as it is kept.
func (g *Sagas[S]) Run(ctx context.Context, id string, s S) (S, error) {
	a, err := g.startSaga(ctx, id, s)
	if err != nil {
		var none S
		return none, err
	}
	if a != nil {
		select {
		case <-a.done:
			if a.lastRecord.AtRest() {
				return g.toOutcome(a.lastRecord, nil)
			}
		case <-ctx.Done():
			var none S
			return none, ctx.Err()
		}
	}
	return g.Wait(ctx, id)
}

// toOutcome turns the last record into what a caller wants to know.
func (g *Sagas[S]) toOutcome(r Record, err error) (s S, _ error) {
	if err != nil {
		return s, err
	}
	if r.Definition != g.definition.name {
		return s, fmt.Errorf("%w: %q is one of %q", ErrTaken, r.ID, r.Definition)
	}
	s, err = g.codec.Decode(r.Data)
	if err != nil {
		err = fmt.Errorf("saga %s %q: decode the value: %w", r.Definition, r.ID, err)
	}
	return s, errors.Join(toInfo(r).Err(), err)
}

// missingCode returns what the program does not have of what a saga needs, and what to do; "" if
// it has all.
func (k *untypedDefinition) missingCode(r *Record) string {
	if k == nil {
		return fmt.Sprintf("no definition %q is registered: register it before Resume, or run a program that has it", r.Definition)
	}
	for _, need := range Needs(*r) {
		s := k.steps[need.Name]
		what := "Do"
		if need.Undo {
			what = "Undo"
		}
		switch {
		case s == nil:
			return fmt.Sprintf("definition %q has no step %q, and the saga may need its %s: put the step back, with Retired set if new sagas do without it", r.Definition, need.Name, what)
		case need.Undo && s.planned.Lasting:
			return fmt.Sprintf("step %q of %q has no Undo, and had one when the saga began: put it back, or give the new step another name", need.Name, r.Definition)
		case s.planned.Atomic != need.Atomic:
			return fmt.Sprintf("step %q of %q is transactional: %t, and was %t when the saga began: put it back, and give the new step another name", need.Name, r.Definition, s.planned.Atomic, need.Atomic)
		}
	}
	if err := k.checkReadable(r.Data); err != nil {
		return fmt.Sprintf("the value of definition %q cannot be decoded: %v: use a type and codec that read what older ones wrote", r.Definition, err)
	}
	return ""
}
