package actor

import (
	"errors"
	"fmt"
	"strings"
)

// ErrFull means the mailbox has no room and the actor refuses rather than
// blocks: the message was not handled; slow down or shed load.
var ErrFull = errors.New("actor: mailbox full")

// ErrStopped means the actor takes no more messages: this one was not handled.
// It is for good, so do not retry here.
var ErrStopped = errors.New("actor: stopped")

// ErrPoisoned means an earlier panic left the state in doubt and the actor no
// longer runs: the message was not handled. Do not retry: make a new actor of a
// state that you trust. See [PoisonedError].
var ErrPoisoned = errors.New("actor: poisoned")

// ErrAbandoned means the context ended after the message had been accepted: its
// reply is lost, but it is handled once all the same, unless the actor is
// poisoned or the handler ends its goroutine before. So do not send it again
// without a look at what it changed. The error also matches the context's own.
var ErrAbandoned = errors.New("actor: left before the reply; the message stays accepted")

// ErrBatchSize means a batch can never fit, or its slices do not match: split
// it, raise Options.Capacity, or give the replies the length of the messages.
var ErrBatchSize = errors.New("actor: bad batch size")

// ErrInHandler means Stop was called by a handler, by a function given to Do or
// by OnPanic, and would wait for its caller: call it on a goroutine of its own.
var ErrInHandler = errors.New("actor: stop called inside a handler")

// ErrShard means a fleet has no shard of that index: use 0 to Len-1.
var ErrShard = errors.New("actor: no such shard")

// ErrOptions means that an option is out of its range or that a function is
// missing: the text says which and what is wanted.
var ErrOptions = errors.New("actor: bad options")

// ErrNotMade means the actor is nil or a zero value: make it with [New].
var ErrNotMade = errors.New("actor: not made with New")

// ErrDuplicate means DoAll was given the same actor twice: name it once.
var ErrDuplicate = errors.New("actor: actor named twice")

// ErrGoexit is the Value of a [PanicError] when the handler did not panic but
// ended its goroutine with runtime.Goexit, as t.FailNow does.
var ErrGoexit = errors.New("actor: handler called runtime.Goexit")

// PanicError reports a panic of the handler to those whose messages it hit, or
// one of a function given to Do to its caller. How far it got is unknown.
type PanicError struct {
	// Value is what was panicked with, or ErrGoexit.
	Value any
	// Stack is the stack of the panicking goroutine.
	Stack []byte
	// Index is the message that panicked, as an index into what this caller
	// sent, or in a fleet's batch into what went to that shard; 0 for Call and
	// Do. The messages before it were handled and have their
	// replies; those after it were handled if the actor keeps going. Index is
	// -1 if the handler takes whole batches: then every message of the batch
	// is in doubt.
	Index int
}

// Error names the panic; the stack is left to the reader of Stack.
func (e *PanicError) Error() string { return "actor: handler panicked: " + trimPackageName(e.Value) }

// Unwrap returns the value that was panicked with, if it was an error, but not if
// it is one by which this package reports the outcome of a message: a handler that
// panics with an error of another actor says nothing about its own message.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	for _, fate := range []error{ErrFull, ErrStopped, ErrPoisoned, ErrAbandoned} {
		if errors.Is(err, fate) {
			return nil
		}
	}
	return err
}

// PoisonedError is an [ErrPoisoned] that names the panic. It does not unwrap
// to it: a *PanicError means "yours panicked", this means "yours never ran".
type PoisonedError struct{ Panic *PanicError }

// Error names the panic that poisoned the actor.
func (e *PoisonedError) Error() string { return ErrPoisoned.Error() + ": " + trimPackageName(e.Panic) }

// Is makes the error match [ErrPoisoned].
func (e *PoisonedError) Is(target error) bool { return target == ErrPoisoned }

// ShardError reports which shard of a fleet, or which actor of a joint call, an
// error comes from.
type ShardError struct {
	Shard int
	Err   error
}

// Error names the shard.
func (e *ShardError) Error() string {
	return fmt.Sprintf("actor: shard %d: %s", e.Shard, trimPackageName(e.Err))
}

// Unwrap gives the shard's own error.
func (e *ShardError) Unwrap() error { return e.Err }

// trimPackageName is the text of v without the name of this package, which stands before
// it already.
func trimPackageName(v any) string { return strings.TrimPrefix(fmt.Sprint(v), "actor: ") }
