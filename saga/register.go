package saga

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// kind is a definition whose type is forgotten: the runner knows values as bytes.
type kind struct {
	name     string
	plan     []Planned
	steps    map[string]*bound
	deadline time.Duration
	forget   func(ctx context.Context, id string) error
	readable func(data []byte) error
}

// bound is a step that takes bytes and returns them.
type bound struct {
	planned      Planned
	retry        Retry
	timeout      time.Duration
	do, undo     func(ctx context.Context, c Call, data []byte) ([]byte, error)
	doTx, undoTx func(tx any, data []byte) ([]byte, error)
}

// Sagas are all sagas of a definition.
type Sagas[S any] struct {
	r     *Runner
	k     *kind
	codec Codec[S]
}

// Register makes a definition known to a runner, before Resume.
func Register[S any](r *Runner, d Definition[S]) (*Sagas[S], error) {
	if err := d.check(r.journal); err != nil {
		return nil, err
	}
	codec := d.Codec
	if codec == nil {
		codec = jsonCodec[S]{}
	}
	k := &kind{name: d.Name, steps: map[string]*bound{}, deadline: d.Deadline, forget: d.Forget}
	k.readable = func(data []byte) error { _, err := decode(codec, data); return err }
	for i := range d.Steps {
		s := &d.Steps[i]
		if !s.Retired {
			k.plan = append(k.plan, s.planned())
		}
		retry := s.Retry
		if retry == (Retry{}) {
			retry = d.Retry
		}
		k.steps[s.Name] = &bound{
			planned: s.planned(), retry: retry, timeout: s.Timeout,
			do: bind(codec, s.Do), undo: bind(codec, s.Undo), doTx: bindTx(codec, s.doTx), undoTx: bindTx(codec, s.undoTx),
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kinds[d.Name] != nil {
		return nil, fmt.Errorf("%w: %q is registered already", ErrDefinition, d.Name)
	}
	r.kinds[d.Name] = k
	return &Sagas[S]{r, k, codec}, nil
}

func bind[S any](codec Codec[S], f func(context.Context, Call, *S) error) func(context.Context, Call, []byte) ([]byte, error) {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, c Call, data []byte) ([]byte, error) {
		return over(codec, data, func(s *S) error { return f(ctx, c, s) })
	}
}

func bindTx[S any](codec Codec[S], f func(any, *S) error) func(any, []byte) ([]byte, error) {
	if f == nil {
		return nil
	}
	return func(tx any, data []byte) ([]byte, error) {
		return over(codec, data, func(s *S) error { return f(tx, s) })
	}
}

// over runs f on a value that is given as bytes, and returns it as bytes. A panic of f
// is an error like others: it must not take the sagas of others down, now and after
// each restart.
func over[S any](codec Codec[S], data []byte, f func(*S) error) (after []byte, err error) {
	s, err := decode(codec, data)
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
	return encode(codec, s)
}

// decode reads a value. A codec that panics has failed, as a step has.
func decode[S any](codec Codec[S], data []byte) (s S, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return codec.Decode(data)
}

func encode[S any](codec Codec[S], s S) ([]byte, error) {
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
	_, err := g.start(ctx, id, s)
	return err
}

func (g *Sagas[S]) start(ctx context.Context, id string, s S) (*active, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	data, err := encode(g.codec, s)
	if err != nil {
		return nil, fmt.Errorf("saga %s %q: %w", g.k.name, id, err)
	}
	return g.r.start(ctx, g.k, id, data)
}

// Wait returns the value of a saga when it has completed. If it was taken back, the
// error matches ErrCompensated and says why; if it is stuck, ErrStuck: it may be
// waited for again. The value is then that of the last step that was done or undone.
func (g *Sagas[S]) Wait(ctx context.Context, id string) (S, error) {
	return g.outcome(g.r.wait(ctx, id))
}

// Run is Start and Wait: whoever runs a saga of an id gets its outcome, the first time
// and each time after, as long as it is kept.
func (g *Sagas[S]) Run(ctx context.Context, id string, s S) (S, error) {
	a, err := g.start(ctx, id, s)
	if err != nil {
		var none S
		return none, err
	}
	if a != nil {
		select {
		case <-a.done:
			if a.last.rests() {
				return g.outcome(a.last, nil)
			}
		case <-ctx.Done():
			var none S
			return none, ctx.Err()
		}
	}
	return g.Wait(ctx, id)
}

// outcome turns the last record into what a caller wants to know.
func (g *Sagas[S]) outcome(r Record, err error) (s S, _ error) {
	if err != nil {
		return s, err
	}
	if r.Definition != g.k.name {
		return s, fmt.Errorf("%w: %q is one of %q", ErrTaken, r.ID, r.Definition)
	}
	s, err = g.codec.Decode(r.Data)
	if err != nil {
		err = fmt.Errorf("saga %s %q: decode the value: %w", r.Definition, r.ID, err)
	}
	return s, errors.Join(infoOf(r).Err(), err)
}

// lacks says what the program does not have of what a saga needs, and what to do; "" if
// it has all.
func (k *kind) lacks(r *Record) string {
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
	if err := k.readable(r.Data); err != nil {
		return fmt.Sprintf("the value of definition %q cannot be decoded: %v: use a type and codec that read what older ones wrote", r.Definition, err)
	}
	return ""
}
