// Package caller answers one question for tests: what does a call do when its caller
// leaves, or has to wait, at just this moment?
//
// It makes contexts that leave, or notice, by what a test says and not by time.
package caller

import "context"

// LeavesWhen returns a context that has ended when something is so. Nobody is told of it by
// Done: who looks sees it.
func LeavesWhen(ctx context.Context, so func() bool) context.Context { return leaves{ctx, so} }

type leaves struct {
	context.Context
	so func() bool
}

// Err implements [context.Context].
func (c leaves) Err() error {
	if c.so() {
		return context.Canceled
	}
	return nil
}

// Done implements [context.Context].
func (leaves) Done() <-chan struct{} { return make(chan struct{}) }

// Notices returns a context that calls begun whenever somebody begins to wait for its end,
// or for something else first.
func Notices(ctx context.Context, begun func()) context.Context { return notices{ctx, begun} }

type notices struct {
	context.Context
	begun func()
}

// Done implements [context.Context].
func (c notices) Done() <-chan struct{} {
	c.begun()
	return c.Context.Done()
}
