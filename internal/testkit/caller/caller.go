// Package caller answers one question for tests: what does a call do when its caller
// leaves, or has to wait, at just this moment?
//
// It makes contexts that leave, or notice, by what a test says and not by time.
package caller

import "context"

// WithCancelWhen returns a context that has ended when something is so. Its Done channel does not
// report it: a call of Err does.
func WithCancelWhen(ctx context.Context, so func() bool) context.Context {
	return cancelWhenCtx{ctx, so}
}

type cancelWhenCtx struct {
	context.Context
	isCanceled func() bool
}

// Err implements [context.Context].
func (c cancelWhenCtx) Err() error {
	if c.isCanceled() {
		return context.Canceled
	}
	return nil
}

// Done implements [context.Context].
func (cancelWhenCtx) Done() <-chan struct{} { return make(chan struct{}) }

// WithOnWait returns a context that calls begun whenever a goroutine begins to wait for its end,
// or for something else first.
func WithOnWait(ctx context.Context, begun func()) context.Context { return onWaitCtx{ctx, begun} }

type onWaitCtx struct {
	context.Context
	onWait func()
}

// Done implements [context.Context].
func (c onWaitCtx) Done() <-chan struct{} {
	c.onWait()
	return c.Context.Done()
}
