package actor

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
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

// checkFuncs reports a handler that was made of nothing.
func (h Handler[S, M, R]) checkFuncs() error {
	if h.each == nil && h.batch == nil {
		return fmt.Errorf("%w: no handler, want one made by Each or Batch from a function", ErrOptions)
	}
	return nil
}

// A failure says what became of the messages lo to hi of a batch that were
// not handled to the end.
type failedRange struct {
	lo, hi int
	panic  *PanicError    // what they were hit by, or
	poison *PoisonedError // why they did not run
}

// runHandler handles ms, whose replies go to rs, and records failures in a.failures.
// The caller holds the actor.
func (a *Actor[S, M, R]) runHandler(ms []M, rs []R) {
	if a.poisoned != nil {
		a.recordFailure(failedRange{hi: len(ms), poison: a.poisoned})
		return
	}
	for from := 0; from < len(ms); {
		p := a.guardHandler(ms, rs, from)
		if p == nil {
			return
		}
		from = a.recordPanic(p, len(ms))
	}
}

// guardHandler calls the handler for the messages from index from on and contains its
// panic. It keeps in a.at how far it got.
func (a *Actor[S, M, R]) guardHandler(ms []M, rs []R, from int) (p *PanicError) {
	ok := false
	defer func() {
		if ok {
			return
		}
		p = newPanicError(recover())
		if isGoroutineExiting() { // no frame below this one will see the result
			a.finishGoexit(p, len(ms))
		}
	}()
	if a.each == nil {
		a.batch(&a.state, ms, rs)
	} else {
		for i := from; i < len(ms); i++ {
			a.current = i
			rs[i] = a.each(&a.state, ms[i])
		}
	}
	ok = true
	return nil
}

// newPanicError is the error for v, which was recovered.
func newPanicError(v any) *PanicError {
	if v == nil {
		v = ErrGoexit
	}
	return &PanicError{Value: v, Stack: debug.Stack()}
}

// recordPanic records whom a panic hit in a batch of n messages and returns where
// to go on.
func (a *Actor[S, M, R]) recordPanic(p *PanicError, n int) (next int) {
	if a.each == nil {
		p.Index = -1
		a.handlePanic(p)
		a.recordFailure(failedRange{hi: n, panic: p})
		return n
	}
	a.handlePanic(p)
	a.recordFailure(failedRange{lo: a.current, hi: a.current + 1, panic: p})
	if a.poisoned != nil {
		a.recordFailure(failedRange{lo: a.current + 1, hi: n, poison: a.poisoned})
		return n
	}
	return a.current + 1
}

// finishGoexit settles everything when the handler ends its goroutine in the middle of
// a batch of n messages: those not reached fail too, the others are answered,
// and the actor is released. It runs deferred, as the last step.
func (a *Actor[S, M, R]) finishGoexit(p *PanicError, n int) {
	lo := a.current
	if a.each == nil {
		lo, p.Index = 0, -1
	}
	a.handlePanic(p)
	a.recordFailure(failedRange{lo: lo, hi: n, panic: p})
	a.replyToSenders()
	if n := a.ownEntry; n != nil && n.state.Load() != stateDone {
		n.copyMessages(n.ms) // no caller waits any more, and the slices may be the caller's
		n.state.Store(stateAbandoned)
	}
	a.ownEntry = nil
	a.releaseActor()
}

// handlePanic counts and reports p and poisons the actor if it is so configured.
func (a *Actor[S, M, R]) handlePanic(p *PanicError) {
	a.panics.Store(a.panics.Load() + 1)
	if a.panicPolicy == Poison {
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

// recordFailure records f, unless it is about no message.
func (a *Actor[S, M, R]) recordFailure(f failedRange) {
	if f.lo >= f.hi {
		return
	}
	a.failures = append(a.failures, f)
	if f.poison != nil {
		a.dropped.Store(a.dropped.Load() + uint64(f.hi-f.lo))
	}
}

const thisPackage = "github.com/cleavekv/cleave/actor."

// callerNames returns the names of the functions on the stack, newest first, from
// the caller of its caller on.
func callerNames() (names []string) {
	pcs := make([]uintptr, 64)
	n := runtime.Callers(3, pcs)
	for n == len(pcs) { // there may be more
		pcs = make([]uintptr, 2*len(pcs))
		n = runtime.Callers(3, pcs)
	}
	frames := runtime.CallersFrames(pcs[:n])
	for more := n > 0; more; {
		var f runtime.Frame
		f, more = frames.Next()
		names = append(names, f.Function)
	}
	return names
}

// isGuardFunc reports whether name is one of the functions of this package that call
// what a user handed in: guard, guardDo, guardListener.
func isGuardFunc(name string) bool {
	return strings.HasPrefix(name, thisPackage) && strings.Contains(name, ".guard")
}

// isInsideHandler reports whether a handler, of some actor, is among the callers.
// Which actor it is cannot be determined, so Stop refuses them all.
func isInsideHandler() bool {
	for _, name := range callerNames() {
		if isGuardFunc(name) {
			return true
		}
	}
	return false
}

// isGoroutineExiting reports whether the deferred function of a guard, which calls it,
// runs because the guarded function ends its goroutine. That there is nothing
// to recover is not enough of a sign: a function that panics while it ends its
// goroutine has a panic to recover, and ends its goroutine all the same.
func isGoroutineExiting() bool {
	for _, name := range callerNames()[1:] { // without the deferred function
		if name == "runtime.Goexit" {
			return true
		}
		if isGuardFunc(name) {
			return false // what is older does not concern this guard
		}
	}
	return false
}
