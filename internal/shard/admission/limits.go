package admission

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/internal/throttle"
	"github.com/cleavekv/cleave/partition"
)

// LimitSource is who has set a limit.
type LimitSource uint8

const (
	// Move is a job that copies the span.
	Move LimitSource = iota
	// HotShard is the relief of the neighbours of a hot shard.
	HotShard
	// Cap is an operator.
	Cap
	limitSources
)

// String is its name in metrics.
func (s LimitSource) String() string {
	return [limitSources]string{"move", "hot_shard", "cap"}[s]
}

// LimitSources returns all of them.
func LimitSources() []LimitSource { return []LimitSource{Move, HotShard, Cap} }

// LimitKey names a limit.
type LimitKey struct {
	Source LimitSource
	// ID is the number of the shard, cap or job.
	ID uint64
}

// WriteLimit is what writers of a span are held up by.
type WriteLimit struct {
	Span partition.Span
	// Prefix is what the rest of a position behind its first Skip bytes begins with. So it is a prefix of keys in
	// all slots of a hash keyspace, as [partition.Keyspace.AppendPosition] has them. Empty means all.
	Prefix []byte
	Skip   int
	// PerSecond is how many writes are admitted a second, 0 for none.
	PerSecond float64
	// Delay, if set, is how long each request waits, however many there are. Then PerSecond is ignored.
	Delay time.Duration
	// Shard is named to those that are refused; 0 for the shard that they write to.
	Shard partition.ShardID
	// Reason is told to those that are refused.
	Reason string
	// Until is the end of it, zero for never.
	Until time.Time
}

// covers reports whether it is about a position.
func (l *WriteLimit) covers(at partition.Position) bool {
	return l.Span.Contains(at) && (len(l.Prefix) == 0 || len(at) >= l.Skip && bytes.HasPrefix(at[l.Skip:], l.Prefix))
}

// hasEnded reports whether it is over.
func (l *WriteLimit) hasEnded(now time.Time) bool {
	if l.Until.IsZero() {
		return false
	}
	return !now.Before(l.Until)
}

// wait is how long a writer would wait that came now, with mu held.
func (a *activeLimit) wait(now time.Time) time.Duration {
	if a.Delay > 0 {
		return a.Delay
	}
	return a.turns.Wait(now)
}

// isLike reports whether writers of both wait alike: the one may be replaced by the other without a word to them.
func (l *WriteLimit) isLike(o *WriteLimit) bool {
	return l.PerSecond == o.PerSecond && (l.Delay > 0) == (o.Delay > 0) && bytes.Equal(l.Span.Start, o.Span.Start) && bytes.Equal(l.Span.End, o.Span.End) &&
		l.Skip == o.Skip && bytes.Equal(l.Prefix, o.Prefix)
}

// MaxWriteLimits is how many limits there may be: each write looks at all of them.
const MaxWriteLimits = 256

// ErrTooManyLimits means that there are MaxWriteLimits: remove one.
var ErrTooManyLimits = errors.New("admission: too many limits")

// DefaultMaxWait is for how long a client of the server waits for its turn before it is refused.
const DefaultMaxWait = 250 * time.Millisecond

// WriteLimits are the limits of a process. Its methods may be called by any goroutine.
type WriteLimits struct {
	// ShardAt, if set, names the shard of a position. It is set before the first use.
	ShardAt func(partition.Position) partition.ShardID
	maxWait atomic.Int64

	// current is nil if there is no limit.
	current atomic.Pointer[[]*activeLimit]
	// mu is held to change current, and the turns of its elements.
	mu sync.Mutex
	// changed is closed when waiting callers should ask anew.
	changed chan struct{}
	totals  [limitSources]LimitTotals
}

// activeLimit is a limit that holds.
type activeLimit struct {
	key LimitKey
	WriteLimit
	*limitUsage
}

// limitUsage is what a limit has given out, with mu held. One that takes its place without a word to those that wait goes on with it.
type limitUsage struct {
	turns           throttle.Turns
	waited, refused uint64
}

// NewWriteLimits returns no limits.
func NewWriteLimits() *WriteLimits {
	t := &WriteLimits{changed: make(chan struct{})}
	t.maxWait.Store(int64(DefaultMaxWait))
	return t
}

// SetMaxWait sets for how long a client of the server waits for its turn before it is refused.
func (t *WriteLimits) SetMaxWait(d time.Duration) { t.maxWait.Store(int64(d)) }

// MaxWait is for how long it waits.
func (t *WriteLimits) MaxWait() time.Duration { return time.Duration(t.maxWait.Load()) }

// IsEmpty reports whether there is no limit.
func (t *WriteLimits) IsEmpty() bool { return t.current.Load() == nil }

// Set adds a limit, or replaces that of the same key. One that is replaced by a limit of the same rate and span only
// changes its end and reason.
func (t *WriteLimits) Set(key LimitKey, l WriteLimit) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, list := time.Now(), t.list()
	i := slices.IndexFunc(list, func(a *activeLimit) bool { return a.key == key })
	if i < 0 && len(list) >= MaxWriteLimits {
		return fmt.Errorf("%w: there are %d", ErrTooManyLimits, len(list))
	}
	next := &activeLimit{key, l, &limitUsage{turns: throttle.NewTurns(l.PerSecond, now)}}
	if i < 0 {
		t.publish(append(slices.Clone(list), next), false)
		return nil
	}
	old := list[i]
	next.waited, next.refused = old.waited, old.refused
	alike := old.isLike(&l)
	if alike {
		next.limitUsage = old.limitUsage
	}
	list = slices.Clone(list)
	list[i] = next
	t.publish(list, !alike)
	return nil
}

// Remove removes a limit: its writers go on at once.
func (t *WriteLimits) Remove(key LimitKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeFunc(func(a *activeLimit) bool { return a.key == key })
}

// list is what holds, with mu held.
func (t *WriteLimits) list() []*activeLimit {
	if p := t.current.Load(); p != nil {
		return *p
	}
	return nil
}

// removeFunc removes limits, with mu held.
func (t *WriteLimits) removeFunc(drop func(*activeLimit) bool) {
	old := t.list()
	if !slices.ContainsFunc(old, drop) {
		return
	}
	t.publish(slices.DeleteFunc(slices.Clone(old), drop), true)
}

// publish replaces what holds, with mu held.
func (t *WriteLimits) publish(list []*activeLimit, wake bool) {
	if len(list) == 0 {
		t.current.Store(nil)
	} else {
		t.current.Store(&list)
	}
	if wake {
		close(t.changed)
		t.changed = make(chan struct{})
	}
}

// LimitState is a limit and what it has done.
type LimitState struct {
	Key LimitKey
	WriteLimit
	// Waited and Refused are how many requests had to wait and were refused, and Wait how long one would wait that came now.
	Waited, Refused uint64
	Wait            time.Duration
}

// List returns the limits, by source and number.
func (t *WriteLimits) List() (all []LimitState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.removeEnded(now)
	for _, a := range t.list() {
		all = append(all, LimitState{a.key, a.WriteLimit, a.waited, a.refused, a.wait(now)})
	}
	slices.SortFunc(all, func(a, b LimitState) int {
		return cmp.Or(cmp.Compare(a.Key.Source, b.Key.Source), cmp.Compare(a.Key.ID, b.Key.ID))
	})
	return all
}

// LimitTotals is what limits of a source have done.
type LimitTotals struct {
	// Refused is how many writers were refused.
	Refused uint64
	// Waits are of those that had to wait and did.
	Waits actor.Histogram
}

// Totals returns what limits of a source have done.
func (t *WriteLimits) Totals(s LimitSource) LimitTotals {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.totals[s]
}

// recordWait counts a wait.
func (h *LimitTotals) recordWait(d time.Duration) {
	ns := uint64(max(d, 0))
	h.Waits.Counts[min(bits.Len64(ns), len(h.Waits.Counts)-1)]++
	h.Waits.SumNS += ns
	h.Waits.MaxNS = max(h.Waits.MaxNS, ns)
}

// removeEnded removes limits that are over, with mu held.
func (t *WriteLimits) removeEnded(now time.Time) {
	t.removeFunc(func(a *activeLimit) bool { return a.hasEnded(now) })
}

// charge is what a request takes of a limit.
type charge struct {
	limit *activeLimit
	count int
	// at is the first position that it is taken for.
	at partition.Position
}

// listCharges returns what writes take of each limit, with mu held.
func (t *WriteLimits) listCharges(writes iter.Seq[partition.Position]) (charges []charge) {
	list := t.list()
	for at := range writes {
		for _, l := range list {
			if !l.covers(at) {
				continue
			}
			if i := slices.IndexFunc(charges, func(c charge) bool { return c.limit == l }); i >= 0 {
				charges[i].count++
			} else {
				charges = append(charges, charge{l, 1, at})
			}
		}
	}
	return charges
}
