package actor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/cpu"
)

// Actor owns a state S and handles messages M with replies R, one batch at a
// time. Its methods are safe for concurrent use. Make one with [New]: any other
// answers [ErrNotMade].
type Actor[S, M, R any] struct {
	_ cpu.CacheLinePad

	// word is the actor's lock and its mailbox in one: see token.go.
	word atomic.Pointer[node[M, R]]
	// crowd is for how many lonely batches more a caller expects others, if it
	// gathers. The holder writes it.
	crowd atomic.Int32

	_ cpu.CacheLinePad
	room
	_ cpu.CacheLinePad

	// What only the holder of the actor may touch. The atomics of tally are
	// written by the holder alone and are read by Stats.
	state    S
	head     *node[M, R]    // taken from the mailbox, not yet handled, in order
	entries  []*node[M, R]  // the batch being handled
	self     *node[M, R]    // while handling: the holder's own entry, if in the line
	ms       []M            // scratch: its messages
	rs       []R            // scratch: its replies
	answers  []R            // the replies of the batch being handled
	one      [1]M           // scratch for a message that never was in the mailbox
	back     [1]R           // and its reply
	at       int            // the message that Each is handling
	failures []failure      // of the batch being handled
	poisoned *PoisonedError // not nil once poisoned
	batches  int64          // counts towards the next latency sample
	solo     uint64         // single messages that never were in the mailbox
	tally
	_ cpu.CacheLinePad

	// What hardly ever changes.
	each           func(*S, M) R
	batch          func(*S, []M, []R)
	locked, closed *node[M, R] // the two marks of word
	gate           atomic.Pointer[refusal]
	combining      bool
	policy         PanicPolicy
	refuse         bool
	maxBatch       int
	turns          int
	yields         bool
	every          int64 // of SampleEvery; 0 means never
	now            func() time.Duration
	onPanic        func(*PanicError)
	id             uint64
	pool           sync.Pool
	wake           chan struct{} // Owner: carries the actor to its goroutine
	stopping       atomic.Bool
	stopped        chan struct{}
	_              cpu.CacheLinePad

	timing
	_ cpu.CacheLinePad
}

// refusal is why an actor takes no messages.
type refusal struct{ err error }

// ids orders actors for DoAll.
var ids atomic.Uint64

// New makes an actor that owns state. An actor of mode [Owner] has a goroutine
// that lives until [Actor.Stop].
func New[S, M, R any](state S, h Handler[S, M, R], opts Options) (*Actor[S, M, R], error) {
	opts, err := opts.withDefaults()
	if err = errors.Join(err, h.check()); err != nil {
		return nil, err
	}
	a := new(Actor[S, M, R])
	a.state = state
	a.init(h, opts)
	return a, nil
}

// init makes a, which has its state, ready to run.
func (a *Actor[S, M, R]) init(h Handler[S, M, R], opts Options) {
	marks := new([2]node[M, R])
	a.locked, a.closed = &marks[0], &marks[1]
	a.each, a.batch = h.each, h.batch
	a.room.capacity = int64(opts.Capacity)
	a.combining = opts.Mode == Combining
	a.refuse = opts.Full == Refuse
	a.policy, a.onPanic = opts.AfterPanic, opts.OnPanic
	a.maxBatch, a.turns, a.yields = opts.MaxBatch, opts.Turns, opts.Gather
	a.every, a.now = int64(opts.SampleEvery), opts.Now
	a.id = ids.Add(1)
	a.stopped = make(chan struct{})
	if !a.combining {
		a.wake = make(chan struct{}, 1)
		go a.ownerLoop()
	}
}

// made reports an actor that New did not make. One that is not nil is not of
// mode Combining then, so calls that find an actor free need not ask.
func (a *Actor[S, M, R]) made() error {
	if a == nil || a.locked == nil {
		return ErrNotMade
	}
	return nil
}

// Call sends m and waits for its reply. An error other than [ErrAbandoned] and
// [*PanicError] means that m was not handled.
func (a *Actor[S, M, R]) Call(ctx context.Context, m M) (R, error) {
	if a != nil && !ended(ctx) && a.combining && a.crowd.Load() == 0 && a.word.CompareAndSwap(nil, a.locked) {
		return a.callHere(ctx, m)
	}
	return a.callQueued(ctx, m)
}

// Post sends m and does not wait for it to be handled; nobody sees the reply.
// A nil error means that m was accepted. In mode [Combining] a Post that finds
// the actor free handles m before it returns.
func (a *Actor[S, M, R]) Post(ctx context.Context, m M) error {
	if a != nil && !ended(ctx) && a.combining && a.word.CompareAndSwap(nil, a.locked) {
		_, err := a.callHere(ctx, m)
		return posted(err)
	}
	if err := a.made(); err != nil {
		return err
	}
	n := a.fetch(post)
	n.one = m
	return a.send(ctx, n)
}

// send enters n, which nobody will wait for.
func (a *Actor[S, M, R]) send(ctx context.Context, n *node[M, R]) error {
	mine, err := a.admit(ctx, n)
	if mine {
		a.handle()
		a.leave(ctx)
	}
	return err
}

// posted is the error of a Post that ran its own message: the message was
// accepted, so a panic of its handler is none of the sender's business.
func posted(err error) error {
	if _, hit := err.(*PanicError); hit {
		return nil
	}
	return err
}

// callHere handles m on the caller's goroutine, which has just taken hold of
// the free actor, and lets the actor go.
func (a *Actor[S, M, R]) callHere(ctx context.Context, m M) (r R, err error) {
	if g := a.gate.Load(); g != nil {
		a.letGo()
		a.refused.Add(1)
		return r, g.err
	}
	if a.solo++; a.solo%soloLag == 0 {
		a.singles.Store(a.solo)
	}
	r, err = a.runOne(m)
	if a.head == nil && a.free() {
		return r, err
	}
	a.leave(ctx)
	return r, err
}

// callQueued sends m through the mailbox.
func (a *Actor[S, M, R]) callQueued(ctx context.Context, m M) (r R, err error) {
	if err := a.made(); err != nil {
		return r, err
	}
	n := a.fetch(call)
	n.one = m
	if _, err := a.admit(ctx, n); err != nil {
		return r, err
	}
	if err := a.await(ctx, n); err != nil {
		return r, err
	}
	r, err = n.back, n.err
	a.recycle(n)
	return r, err
}

// runOne handles a message that has no entry. The caller holds the actor.
func (a *Actor[S, M, R]) runOne(m M) (r R, err error) {
	a.one[0] = m
	if a.sample() {
		a.runTimed(a.one[:], a.back[:])
		a.wait.observe(0)
	} else if p := a.guard(a.one[:], a.back[:], 0); p != nil {
		a.blame(p, 1)
	}
	r = a.back[0]
	var noM M
	var noR R
	a.one[0], a.back[0] = noM, noR
	if a.failures != nil {
		err = a.verdict(0, 1)
		a.failures = nil
	}
	return r, err
}

// ended reports whether ctx is over. Most contexts on hot paths have no Done.
func ended(ctx context.Context) bool {
	return ctx.Done() != nil && ctx.Err() != nil
}
