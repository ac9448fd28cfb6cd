package admission

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/cleavekv/cleave/internal/throttle"
	"github.com/cleavekv/cleave/partition"
)

// ErrThrottled means that a write was refused because its turn would have come too late: see [ThrottledError].
var ErrThrottled = errors.New("admission: throttled")

// ThrottledError is why a write was refused, and when to try again. It matches [ErrThrottled].
type ThrottledError struct {
	Shard  partition.ShardID
	Reason string
	// RetryAfter is when a turn may be free. It is 1 ms at least and maxRetryAfter at most.
	RetryAfter time.Duration
}

// maxRetryAfter is short against the time in which an operator changes a cap.
const maxRetryAfter = 5 * time.Second

// Error has all of it.
func (e *ThrottledError) Error() string {
	return fmt.Sprintf("throttled: shard %d: %s: retry in %d ms", e.Shard, e.Reason, e.RetryAfter.Milliseconds())
}

// Is matches [ErrThrottled].
func (e *ThrottledError) Is(target error) bool { return target == ErrThrottled }

// Grant is for how long writers wait that are admitted. Grants of one client add up.
type Grant struct {
	// turn is the latest of their turns, and delay what they wait for besides.
	turn, delay time.Duration
	source      LimitSource
}

// Add adds that of another write of the client.
func (g *Grant) Add(o Grant) {
	if o.turn > g.turn || o.delay > 0 {
		g.source = o.source
	}
	g.turn, g.delay = max(g.turn, o.turn), g.delay+o.delay
}

// maxDelay is how long a client is delayed at most for all that it has sent at once.
const maxDelay = 200 * time.Millisecond

// Wait is how long the client waits.
func (g *Grant) Wait() time.Duration { return g.turn + min(g.delay, maxDelay) }

// Record counts the wait of a client.
func (t *WriteLimits) Record(g Grant) {
	if wait := g.Wait(); wait > 0 {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.totals[g.source].recordWait(wait)
	}
}

// TryAdmit reports whether a write may go on at once. If not, it has taken no turn.
func (t *WriteLimits) TryAdmit(at partition.Position) bool {
	if !t.Covers(at) {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.removeEnded(now)
	charges := t.listCharges(yieldOne(at))
	g, refused := t.judge(charges, now, 0)
	if refused != nil || g.delay > 0 {
		return false
	}
	takeTurns(charges, now)
	return true
}

func yieldOne(at partition.Position) iter.Seq[partition.Position] {
	return func(yield func(partition.Position) bool) { yield(at) }
}

// Covers reports whether there is a limit for a position.
func (t *WriteLimits) Covers(at partition.Position) bool {
	list := t.current.Load()
	if list == nil {
		return false
	}
	for _, l := range *list {
		if l.covers(at) {
			return true
		}
	}
	return false
}

func (t *WriteLimits) coversAny(writes iter.Seq[partition.Position]) bool {
	if t.current.Load() == nil {
		return false
	}
	for at := range writes {
		if t.Covers(at) {
			return true
		}
	}
	return false
}

// Reserve takes the turn of a write of a client of the server, or refuses it with a [ThrottledError] if it would
// come later than after MaxWait.
func (t *WriteLimits) Reserve(at partition.Position) (Grant, error) {
	if !t.Covers(at) {
		return Grant{}, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.removeEnded(now)
	charges := t.listCharges(yieldOne(at))
	g, refused := t.judge(charges, now, t.MaxWait())
	if refused != nil {
		return Grant{}, t.refuse(refused, now)
	}
	takeTurns(charges, now)
	return g, nil
}

// judge returns for how long writers would wait, or what refuses them, with mu held. If there are several, it is the one
// of which the turn is the latest.
func (t *WriteLimits) judge(charges []charge, now time.Time, most time.Duration) (g Grant, refused *charge) {
	var longest time.Duration
	for i := range charges {
		c := &charges[i]
		if c.limit.Delay > 0 {
			g.Add(Grant{delay: c.limit.Delay, source: c.limit.key.Source})
			continue
		}
		wait := c.limit.wait(now)
		if wait > most || wait == throttle.Forever {
			if refused == nil || wait > longest {
				refused, longest = c, wait
			}
			continue
		}
		g.Add(Grant{turn: wait, source: c.limit.key.Source})
	}
	return g, refused
}

func takeTurns(charges []charge, now time.Time) {
	for _, c := range charges {
		if c.limit.wait(now) > 0 {
			c.limit.waited++
		}
		c.limit.turns.Take(now, c.count)
	}
}

// refuse counts a refusal and returns its error, with mu held.
func (t *WriteLimits) refuse(c *charge, now time.Time) error {
	c.limit.refused++
	t.totals[c.limit.key.Source].Refused++
	e := &ThrottledError{Shard: c.limit.Shard, Reason: c.limit.Reason, RetryAfter: c.limit.wait(now)}
	if e.Shard == 0 && t.ShardAt != nil {
		e.Shard = t.ShardAt(c.at)
	}
	if !c.limit.Until.IsZero() {
		e.RetryAfter = min(e.RetryAfter, c.limit.Until.Sub(now))
	}
	e.RetryAfter = min(max(e.RetryAfter, time.Millisecond), maxRetryAfter)
	return e
}

// UntilContextEnds is the longest wait: as long as the context of the caller lasts.
const UntilContextEnds time.Duration = -1

// Wait waits for the turn of a request with these writes. It is refused with a [ThrottledError] if its turn would
// come later than after most, or, with [UntilContextEnds], when the deadline of ctx has come. If ctx is cancelled
// the error is that of ctx. A request that is refused has taken no turn.
func (t *WriteLimits) Wait(ctx context.Context, most time.Duration, writes iter.Seq[partition.Position]) error {
	if !t.coversAny(writes) {
		return nil
	}
	began := time.Now()
	for {
		a := t.ask(ctx, began, most, writes)
		switch {
		case a.err != nil && most != UntilContextEnds:
			return a.err
		case a.err == nil && a.wait <= 0:
			t.recordWaited(&a, began)
			return nil
		}
		if done, err := t.sleep(ctx, &a); err != nil {
			return err
		} else if done {
			t.recordWaited(&a, began)
			return nil
		}
	}
}

// answer is what a request was told.
type answer struct {
	// err is why it has no turn.
	err error
	// wait is how long its turn is away, and source whose it is.
	wait    time.Duration
	source  LimitSource
	charges []charge
	asked   time.Time
	// changed is closed, and the end of a limit comes after ends, when it has to ask anew.
	changed <-chan struct{}
	ends    time.Duration
	// refused is what has no turn for it.
	refused *charge
}

// ask takes the turn of a request.
func (t *WriteLimits) ask(ctx context.Context, began time.Time, most time.Duration, writes iter.Seq[partition.Position]) (a answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.removeEnded(now)
	a = answer{asked: now, changed: t.changed, ends: throttle.Forever, charges: t.listCharges(writes)}
	waited := now.Sub(began)
	limit := most - waited
	if deadline, ok := ctx.Deadline(); most == UntilContextEnds {
		if limit = throttle.Forever; ok {
			limit = deadline.Sub(now)
		}
	}
	limit = max(limit, 0)
	for _, c := range a.charges {
		if until := c.limit.Until; !until.IsZero() {
			a.ends = min(a.ends, until.Sub(now))
		}
	}
	g, refused := t.judge(a.charges, now, limit)
	if refused != nil {
		a.refused = refused
		if most != UntilContextEnds {
			a.err = t.refuse(refused, now)
		} else {
			a.err = ErrThrottled // the details are those of the time when the caller gives up
		}
		a.charges = nil
		return a
	}
	takeTurns(a.charges, now)
	g.delay = max(0, g.delay-waited)
	a.wait, a.source = g.Wait(), g.source
	return a
}

// sleep waits for the turn of a request. It is not done if the request has to ask anew.
func (t *WriteLimits) sleep(ctx context.Context, a *answer) (done bool, err error) {
	until := a.ends
	if a.err == nil {
		until = min(until, a.wait)
	}
	var fired <-chan time.Time
	if until != throttle.Forever {
		timer := time.NewTimer(until)
		defer timer.Stop()
		fired = timer.C
	}
	select {
	case <-fired:
		if a.err == nil && until == a.wait {
			return true, nil
		}
	case <-a.changed:
	case <-ctx.Done():
		err = ctx.Err()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range a.charges {
		c.limit.turns.Return(c.count)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		return false, err
	}
	refused := a.refused
	if refused == nil {
		refused = &a.charges[0] // there is one, or there was no wait
	}
	if refused.limit.Delay > 0 {
		return false, err
	}
	return false, t.refuse(refused, time.Now())
}

// recordWaited counts the wait of a request.
func (t *WriteLimits) recordWaited(a *answer, began time.Time) {
	if waited := time.Since(began); waited >= time.Microsecond && (a.wait > 0 || waited > time.Millisecond) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.totals[a.source].recordWait(waited)
	}
}
