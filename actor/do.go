package actor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Do waits for its turn and calls f on the caller's goroutine with the state,
// which nobody else touches meanwhile: no batch is in flight. An error other
// than [*PanicError] means that f was not called. Do takes no room in the
// mailbox.
func (a *Actor[S, M, R]) Do(ctx context.Context, f func(state *S)) error {
	if f == nil {
		return fmt.Errorf("%w: Do with no function", ErrOptions)
	}
	if err := a.made(); err != nil {
		return err
	}
	if err := a.acquire(ctx); err != nil {
		return err
	}
	p := guardDo([]*Actor[S, M, R]{a}, func() { f(&a.state) })
	a.exclusives.Store(a.exclusives.Load() + 1)
	a.leave(ctx)
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
	order, err := inOrder(actors)
	if err != nil {
		return err
	}
	states := make([]*S, len(actors))
	for i, a := range actors {
		states[i] = &a.state
	}
	held, err := acquireAll(ctx, actors, order)
	if err != nil {
		return err
	}
	p := guardDo(held, func() { f(states) })
	for _, a := range held {
		a.exclusives.Store(a.exclusives.Load() + 1)
		a.letGo()
	}
	if p != nil {
		return p
	}
	return nil
}

// acquireAll makes the caller the holder of all actors, or of none.
func acquireAll[S, M, R any](ctx context.Context, actors []*Actor[S, M, R], order []int) (held []*Actor[S, M, R], err error) {
	all := false
	defer func() { // also if it ran a handler that ended the goroutine
		if !all {
			for _, a := range held {
				a.letGo()
			}
		}
	}()
	held = make([]*Actor[S, M, R], 0, len(actors))
	for _, i := range order {
		if err := actors[i].acquire(ctx); err != nil {
			return held, &ShardError{Shard: i, Err: err}
		}
		held = append(held, actors[i])
	}
	all = true
	return held, nil
}

// inOrder returns the indexes of actors in the order in which they were made.
func inOrder[S, M, R any](actors []*Actor[S, M, R]) ([]int, error) {
	order := make([]int, len(actors))
	for i, a := range actors {
		if err := a.made(); err != nil {
			return nil, &ShardError{Shard: i, Err: err}
		}
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(actors[i].id, actors[j].id) })
	for k := 1; k < len(order); k++ {
		if actors[order[k]] == actors[order[k-1]] {
			return nil, &ShardError{Shard: order[k], Err: ErrDuplicate}
		}
	}
	return order, nil
}

// acquire makes the caller the holder.
func (a *Actor[S, M, R]) acquire(ctx context.Context) error {
	n := a.fetch(exclusive)
	mine, err := a.admit(ctx, n)
	if err != nil {
		return err
	}
	if !mine {
		if err := a.await(ctx, n); err != nil {
			return err
		}
	}
	a.recycle(n)
	if g := a.gate.Load(); g != nil && errors.Is(g.err, ErrPoisoned) {
		a.letGo()
		return g.err
	}
	return nil
}

// guardDo calls f for actors that are held, and contains its panic.
func guardDo[S, M, R any](held []*Actor[S, M, R], f func()) (p *PanicError) {
	ok := false
	defer func() {
		if ok {
			return
		}
		p = caught(recover())
		exits := exiting()
		for _, a := range held {
			a.panicked(p)
			if exits { // no frame below this one will let it go
				a.letGo()
			}
		}
	}()
	f()
	ok = true
	return nil
}
