// Package actor answers one question: which goroutine may touch this shard's state now?
//
// An [Actor] owns a state of type S. Messages of type M come in through a
// bounded mailbox, a [Handler] turns them into replies of type R, and at any
// instant at most one goroutine is inside the handler, so the state needs no
// locks. The handler sees the messages that were waiting as one batch: what is
// paid once per batch (a lock, a cache miss, a sync to disk) is shared by all
// of its messages, and batches grow under load, up to Options.MaxBatch.
//
// # Promises
//
//   - Messages of one sender are handled in the order in which it sent them.
//   - A message that was accepted is handled exactly once, whatever becomes of
//     the sender; the exceptions are a poisoned actor and a handler that ends
//     its goroutine. A message that was refused is never handled.
//   - [ErrFull], [ErrStopped], [ErrPoisoned] and a bare context error mean that
//     the message was not handled. [ErrAbandoned] means that it was accepted
//     and that the caller left before the reply came: the promise above holds for it.
//   - When a call has returned, the package no longer touches what the caller
//     handed in, also when the call was abandoned.
//   - A panic in the handler reaches the callers as a [*PanicError] and not
//     the goroutine. By default the actor is then poisoned.
//
// # Choices
//
// In mode [Combining], the default, an actor has no goroutine. A caller that
// finds it free runs its own message on the spot, with two atomic writes and no
// switch of goroutines, and then the messages that came meanwhile. In
// mode [Owner] a goroutine of the actor's own runs every message: a call waits
// for the switch to it and back, and callers never run the handler.
//
// A [sync.Mutex] around the state is simpler and, without contention, faster:
// BenchmarkCounter shows by how much. Prefer it unless messages gain from being
// handled together, or senders need what a mutex does not offer: a bound on the number of
// waiters, a context that ends the wait, messages without a reply, a panic that is
// contained. For a map that many goroutines share see package shardmap.
//
// # Limits
//
// A handler must not Call, CallBatch or Do its own actor, nor one that waits
// for its own: it would wait for itself until the context ends. It may Post to
// its own actor; with [Block] and a full mailbox that waits for itself too, so
// use [Refuse] for actors that talk to themselves. A handler must not keep the
// slices it is given. In mode Combining a caller cannot leave while it is
// running the handler: the context is looked at between batches.
//
// Nothing outlives the process: what must, the handler writes down before it
// returns.
package actor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
	word atomic.Pointer[entry[M, R]]
	// gatherCredit is for how many lonely batches more a caller expects others, if it
	// gathers. The holder writes it.
	gatherCredit atomic.Int32

	_ cpu.CacheLinePad
	mailboxRoom
	_ cpu.CacheLinePad

	// What only the holder of the actor may touch. The atomics of tally are
	// written by the holder alone and are read by Stats.
	state         S
	head          *entry[M, R]   // taken from the mailbox, not yet handled, in order
	entries       []*entry[M, R] // the batch being handled
	ownEntry      *entry[M, R]   // while handling: the holder's own entry, if in the line
	ms            []M            // scratch: its messages
	rs            []R            // scratch: its replies
	answers       []R            // the replies of the batch being handled
	oneMessage    [1]M           // scratch for a message that never was in the mailbox
	oneReply      [1]R           // and its reply
	current       int            // the message that Each is handling
	failures      []failedRange  // of the batch being handled
	poisoned      *PoisonedError // not nil once poisoned
	batches       int64          // counts towards the next latency sample
	directSingles uint64         // single messages that never were in the mailbox
	counters
	_ cpu.CacheLinePad

	// What hardly ever changes.
	each            func(*S, M) R
	batch           func(*S, []M, []R)
	locked, closed  *entry[M, R] // the two marks of word
	gate            atomic.Pointer[refusal]
	combining       bool
	panicPolicy     PanicPolicy
	refusesWhenFull bool
	maxBatch        int
	maxTurns        int
	gathers         bool
	sampleEvery     int64 // of SampleEvery; 0 means never
	now             func() time.Duration
	onPanic         func(*PanicError)
	id              uint64
	pool            sync.Pool
	wake            chan struct{} // Owner: carries the actor to its goroutine
	stopping        atomic.Bool
	stopped         chan struct{}
	_               cpu.CacheLinePad

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
	if err = errors.Join(err, h.checkFuncs()); err != nil {
		return nil, err
	}
	a := new(Actor[S, M, R])
	a.state = state
	a.init(h, opts)
	return a, nil
}

// init makes a, which has its state, ready to run.
func (a *Actor[S, M, R]) init(h Handler[S, M, R], opts Options) {
	marks := new([2]entry[M, R])
	a.locked, a.closed = &marks[0], &marks[1]
	a.each, a.batch = h.each, h.batch
	a.mailboxRoom.capacity = int64(opts.Capacity)
	a.combining = opts.Mode == Combining
	a.refusesWhenFull = opts.Full == Refuse
	a.panicPolicy, a.onPanic = opts.AfterPanic, opts.OnPanic
	a.maxBatch, a.maxTurns, a.gathers = opts.MaxBatch, opts.Turns, opts.Gather
	a.sampleEvery, a.now = int64(opts.SampleEvery), opts.Now
	a.id = ids.Add(1)
	a.stopped = make(chan struct{})
	if !a.combining {
		a.wake = make(chan struct{}, 1)
		go a.runOwner()
	}
}

// checkMade reports an actor that New did not make. One that is not nil is not of
// mode Combining then, so calls that find an actor free need not ask.
func (a *Actor[S, M, R]) checkMade() error {
	if a == nil || a.locked == nil {
		return ErrNotMade
	}
	return nil
}

// Call sends m and waits for its reply. An error other than [ErrAbandoned] and
// [*PanicError] means that m was not handled.
func (a *Actor[S, M, R]) Call(ctx context.Context, m M) (R, error) {
	if a != nil && !hasEnded(ctx) && a.combining && a.gatherCredit.Load() == 0 && a.word.CompareAndSwap(nil, a.locked) {
		return a.callHere(ctx, m)
	}
	return a.callQueued(ctx, m)
}

// Post sends m and does not wait for it to be handled; the reply is discarded.
// A nil error means that m was accepted. In mode [Combining] a Post that finds
// the actor free handles m before it returns.
func (a *Actor[S, M, R]) Post(ctx context.Context, m M) error {
	if a != nil && !hasEnded(ctx) && a.combining && a.word.CompareAndSwap(nil, a.locked) {
		_, err := a.callHere(ctx, m)
		return toPostError(err)
	}
	if err := a.checkMade(); err != nil {
		return err
	}
	n := a.getEntry(kindPost)
	n.message = m
	return a.sendEntry(ctx, n)
}

// sendEntry enters n without waiting for it.
func (a *Actor[S, M, R]) sendEntry(ctx context.Context, n *entry[M, R]) error {
	mine, err := a.admitEntry(ctx, n)
	if mine {
		a.handleBatch()
		a.endTurn(ctx)
	}
	return err
}

// toPostError is the error of a Post that ran its own message: the message was
// accepted, so a panic of its handler is none of the sender's business.
func toPostError(err error) error {
	if _, hit := err.(*PanicError); hit {
		return nil
	}
	return err
}

// callHere handles m on the caller's goroutine, which has just taken hold of
// the free actor, and lets the actor go.
func (a *Actor[S, M, R]) callHere(ctx context.Context, m M) (r R, err error) {
	if g := a.gate.Load(); g != nil {
		a.releaseActor()
		a.refused.Add(1)
		return r, g.err
	}
	if a.directSingles++; a.directSingles%maxSinglesLag == 0 {
		a.publishedSingles.Store(a.directSingles)
	}
	r, err = a.runOne(m)
	if a.head == nil && a.tryFree() {
		return r, err
	}
	a.endTurn(ctx)
	return r, err
}

// callQueued sends m through the mailbox.
func (a *Actor[S, M, R]) callQueued(ctx context.Context, m M) (r R, err error) {
	if err := a.checkMade(); err != nil {
		return r, err
	}
	n := a.getEntry(kindCall)
	n.message = m
	if _, err := a.admitEntry(ctx, n); err != nil {
		return r, err
	}
	if err := a.waitForReply(ctx, n); err != nil {
		return r, err
	}
	r, err = n.reply, n.err
	a.recycleEntry(n)
	return r, err
}

// runOne handles a message that has no entry. The caller holds the actor.
func (a *Actor[S, M, R]) runOne(m M) (r R, err error) {
	a.oneMessage[0] = m
	if a.shouldSample() {
		a.runTimed(a.oneMessage[:], a.oneReply[:])
		a.wait.record(0)
	} else if p := a.guardHandler(a.oneMessage[:], a.oneReply[:], 0); p != nil {
		a.recordPanic(p, 1)
	}
	r = a.oneReply[0]
	var noM M
	var noR R
	a.oneMessage[0], a.oneReply[0] = noM, noR
	if a.failures != nil {
		err = a.errorForRange(0, 1)
		a.failures = nil
	}
	return r, err
}

// hasEnded reports whether ctx is over. Most contexts on hot paths have no Done.
func hasEnded(ctx context.Context) bool {
	return ctx.Done() != nil && ctx.Err() != nil
}

// Do waits for its turn and calls f on the caller's goroutine with the state,
// which no other goroutine touches meanwhile: no batch is in flight. An error other
// than [*PanicError] means that f was not called. Do takes no room in the
// mailbox.
func (a *Actor[S, M, R]) Do(ctx context.Context, f func(state *S)) error {
	if f == nil {
		return fmt.Errorf("%w: Do with no function", ErrOptions)
	}
	if err := a.checkMade(); err != nil {
		return err
	}
	if err := a.acquire(ctx); err != nil {
		return err
	}
	p := guardDo([]*Actor[S, M, R]{a}, func() { f(&a.state) })
	a.exclusives.Store(a.exclusives.Load() + 1)
	a.endTurn(ctx)
	if p != nil {
		return p
	}
	return nil
}

// DoAll is Do for several actors at once: f sees states[i] of actors[i], with
// no batch in flight in any of them. They are taken in the order in which they
// were made, whatever the order here, so that concurrent DoAlls cannot wait
// for each other in a circle. An error names the actor by its index as
// [*ShardError]. A panic of f counts as a panic in each.
//
// While it waits for one actor it holds those before it, and it may be made to
// run the handler of the one it waits for. So handlers of actors that are taken
// together must not call each other.
func DoAll[S, M, R any](ctx context.Context, actors []*Actor[S, M, R], f func(states []*S)) error {
	if f == nil {
		return fmt.Errorf("%w: DoAll with no function", ErrOptions)
	}
	held, err := orderByAge(actors)
	if err != nil {
		return err
	}
	if n, err := acquireAll(ctx, held); err != nil {
		return &ShardError{Shard: slices.Index(actors, held[n]), Err: err}
	}
	states := make([]*S, len(actors))
	for i, a := range actors {
		states[i] = &a.state
	}
	p := guardDo(held, func() { f(states) })
	for _, a := range held {
		a.exclusives.Store(a.exclusives.Load() + 1)
		a.releaseActor()
	}
	if p != nil {
		return p
	}
	return nil
}

// acquireAll makes the caller the holder of all actors, or of none: then n is which one it did not get.
func acquireAll[S, M, R any](ctx context.Context, actors []*Actor[S, M, R]) (n int, err error) {
	defer func() { // also if it ran a handler that ended the goroutine
		if n < len(actors) {
			for _, a := range actors[:n] {
				a.releaseActor()
			}
		}
	}()
	for n < len(actors) {
		if err = actors[n].acquire(ctx); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// orderByAge returns actors in the order in which they were made.
func orderByAge[S, M, R any](actors []*Actor[S, M, R]) ([]*Actor[S, M, R], error) {
	for i, a := range actors {
		if err := a.checkMade(); err != nil {
			return nil, &ShardError{Shard: i, Err: err}
		}
	}
	ordered := slices.Clone(actors)
	slices.SortFunc(ordered, func(a, b *Actor[S, M, R]) int { return cmp.Compare(a.id, b.id) })
	for k := 1; k < len(ordered); k++ {
		if a := ordered[k]; a == ordered[k-1] {
			first := slices.Index(actors, a)
			return nil, &ShardError{Shard: first + 1 + slices.Index(actors[first+1:], a), Err: ErrDuplicate}
		}
	}
	return ordered, nil
}

// acquire makes the caller the holder.
func (a *Actor[S, M, R]) acquire(ctx context.Context) error {
	if hasEnded(ctx) || a.gate.Load() != nil || !a.word.CompareAndSwap(nil, a.locked) {
		if err := a.acquireQueued(ctx); err != nil {
			return err
		}
	}
	if g := a.gate.Load(); g != nil && errors.Is(g.err, ErrPoisoned) {
		a.releaseActor()
		return g.err
	}
	return nil
}

// acquireQueued waits for its turn to make the caller the holder.
func (a *Actor[S, M, R]) acquireQueued(ctx context.Context) error {
	n := a.getEntry(kindExclusive)
	mine, err := a.admitEntry(ctx, n)
	if err != nil {
		return err
	}
	if !mine {
		if err := a.waitForReply(ctx, n); err != nil {
			return err
		}
	}
	a.recycleEntry(n)
	return nil
}

// guardDo calls f for actors that are held, and contains its panic.
func guardDo[S, M, R any](held []*Actor[S, M, R], f func()) (p *PanicError) {
	ok := false
	defer func() {
		if ok {
			return
		}
		p = newPanicError(recover())
		exits := isGoroutineExiting()
		for _, a := range held {
			a.handlePanic(p)
			if exits { // no frame below this one will let it go
				a.releaseActor()
			}
		}
	}()
	f()
	ok = true
	return nil
}
