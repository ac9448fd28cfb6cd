package actor

import (
	"fmt"
	"runtime/debug"
)

// Handler is what an actor does with its messages. Make one with [Each] or
// [Batch].
type Handler[S, M, R any] struct {
	each  func(*S, M) R
	batch func(*S, []M, []R)
}

// Each makes a handler from a function that handles one message and returns
// its reply. If it panics, only that message is in doubt.
func Each[S, M, R any](handle func(state *S, m M) R) Handler[S, M, R] {
	return Handler[S, M, R]{each: handle}
}

// Batch makes a handler from a function that sees all messages of a batch, in
// order, and sets the reply of message i in rs[i]. The replies are zero before
// it and are given out after it: so it may evaluate the batch, sync it to
// disk once, and return. It must not keep the slices, nor change ms, which may
// be a caller's own. If it panics, every message of the batch fails.
func Batch[S, M, R any](handle func(state *S, ms []M, rs []R)) Handler[S, M, R] {
	return Handler[S, M, R]{batch: handle}
}

// check reports a handler that was made of nothing.
func (h Handler[S, M, R]) check() error {
	if h.each == nil && h.batch == nil {
		return fmt.Errorf("%w: no handler, want one made by Each or Batch from a function", ErrOptions)
	}
	return nil
}

// A failure says what became of the messages lo to hi of a batch that were
// not handled to the end.
type failure struct {
	lo, hi int
	panic  *PanicError    // what they were hit by, or
	poison *PoisonedError // why they did not run
}

// run handles ms, whose replies go to rs, and records failures in a.failures.
// The caller holds the actor.
func (a *Actor[S, M, R]) run(ms []M, rs []R) {
	if a.poisoned != nil {
		a.fail(failure{hi: len(ms), poison: a.poisoned})
		return
	}
	for from := 0; from < len(ms); {
		p := a.guard(ms, rs, from)
		if p == nil {
			return
		}
		from = a.blame(p, len(ms))
	}
}

// guard calls the handler for the messages from index from on and contains its
// panic. It keeps in a.at how far it got.
func (a *Actor[S, M, R]) guard(ms []M, rs []R, from int) (p *PanicError) {
	ok := false
	defer func() {
		if ok {
			return
		}
		p = caught(recover())
		if exiting() { // no frame below this one will see the result
			a.exit(p, len(ms))
		}
	}()
	if a.each == nil {
		a.batch(&a.state, ms, rs)
	} else {
		for i := from; i < len(ms); i++ {
			a.at = i
			rs[i] = a.each(&a.state, ms[i])
		}
	}
	ok = true
	return nil
}

// caught is the error for v, which was recovered.
func caught(v any) *PanicError {
	if v == nil {
		v = ErrGoexit
	}
	return &PanicError{Value: v, Stack: debug.Stack()}
}

// blame records whom a panic hit in a batch of n messages and returns where
// to go on.
func (a *Actor[S, M, R]) blame(p *PanicError, n int) (next int) {
	if a.each == nil {
		p.Index = -1
		a.panicked(p)
		a.fail(failure{hi: n, panic: p})
		return n
	}
	a.panicked(p)
	a.fail(failure{lo: a.at, hi: a.at + 1, panic: p})
	if a.poisoned != nil {
		a.fail(failure{lo: a.at + 1, hi: n, poison: a.poisoned})
		return n
	}
	return a.at + 1
}

// exit settles everything when the handler ends its goroutine in the middle of
// a batch of n messages: those not reached fail too, the others are answered,
// and the actor is let go. It runs deferred, as the last thing here.
func (a *Actor[S, M, R]) exit(p *PanicError, n int) {
	lo := a.at
	if a.each == nil {
		lo, p.Index = 0, -1
	}
	a.panicked(p)
	a.fail(failure{lo: lo, hi: n, panic: p})
	a.answer()
	if n := a.self; n != nil && n.state.Load() != done {
		n.own(n.ms) // nobody waits any more, and the slices may be the caller's
		n.state.Store(abandoned)
	}
	a.self = nil
	a.letGo()
}

// panicked counts and reports p and poisons the actor if it is so configured.
func (a *Actor[S, M, R]) panicked(p *PanicError) {
	a.panics.Store(a.panics.Load() + 1)
	if a.policy == Poison {
		a.poisoned = &PoisonedError{Panic: p}
		a.gate.Store(&refusal{err: a.poisoned})
	}
	if a.onPanic != nil {
		guardListener(func() { a.onPanic(p) })
	}
}

// guardListener calls listen and outlives its panic. It does so on a goroutine
// of its own, because a listener that ends its goroutine, as one that fails a
// test does, would otherwise leave the actor held for ever.
func guardListener(listen func()) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer func() { _ = recover() }()
		listen()
	}()
	<-over
}

// fail records f, unless it is about no message.
func (a *Actor[S, M, R]) fail(f failure) {
	if f.lo >= f.hi {
		return
	}
	a.failures = append(a.failures, f)
	if f.poison != nil {
		a.dropped.Store(a.dropped.Load() + uint64(f.hi-f.lo))
	}
}
