package affinity

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

// Crossing is the record of one declared way from shard to shard.
type Crossing struct {
	From   string `json:"from"` // tag of the shard that keys leave
	To     string `json:"to"`   // tag of the shard that they enter
	Who    string `json:"who"`
	Reason string `json:"reason"`
	// Count is how many keys have crossed, this one included.
	Count uint64 `json:"count"`
}

// crossingRecord counts one crossing. Bridges with equal declarations share it, so a
// bridge made for each request cannot grow the list for ever.
type crossingRecord struct{ count atomic.Uint64 }

// Bridge is the only way for a key of shard From into code for shard To: to
// keep a copy there, an index entry, a pending credit. It does not move the
// row, nor does it change where the key lives. Safe for concurrent use.
type Bridge[From, To any, K comparable] struct {
	from     Home[From, K]
	to       Home[To, K]
	crossing Crossing // with Count 0
	record   *crossingRecord
}

// NewBridge declares that who takes keys from one shard to the other, and why.
// Both texts are for the person who reads the audit; neither may be empty.
func NewBridge[From, To any, K comparable](from Home[From, K], to Home[To, K], who, reason string) (*Bridge[From, To, K], error) {
	var errs []error
	refuse := func(bad bool, text string) {
		if bad {
			errs = append(errs, fmt.Errorf("%w: %s", ErrBridge, text))
		}
	}
	refuse(who == "", "no who: name the code that crosses")
	refuse(reason == "", "no reason: say why the key must leave its shard")
	refuse(!from.shard.sameSpace(to.shard), "its ends are not in one space")
	refuse(from.shard != nil && from.shard == to.shard, "its ends are one shard: no crossing is needed")
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	crossing := Crossing{From: from.shard.String(), To: to.shard.String(), Who: who, Reason: reason}
	return &Bridge[From, To, K]{from, to, crossing, from.space.getOrAddRecord(crossing)}, nil
}

// getOrAddRecord returns the one record of a crossing.
func (s *Space[K]) getOrAddRecord(c Crossing) *crossingRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.records[c]
	if r == nil {
		r = new(crossingRecord)
		s.records[c] = r
	}
	return r
}

// Cross counts the crossing, calls the space's Audit, and returns k as a key
// that shard To takes. It refuses a zero key and one of another space, and
// does not count it.
func (b *Bridge[From, To, K]) Cross(k Key[From, K]) (Key[To, K], error) {
	if err := k.checkSpace(b.from.shard); err != nil {
		return Key[To, K]{}, err
	}
	c := b.crossing
	c.Count = b.record.count.Add(1)
	if audit := b.from.space.audit; audit != nil {
		audit(c, k.value)
	}
	return Key[To, K]{origin: k.origin, value: k.value}, nil
}

// Crossings returns every declared crossing with its count, unused ones
// included, ordered by From, To, Who and Reason.
func (s *Space[K]) Crossings() []Crossing {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Crossing, 0, len(s.records))
	for c, r := range s.records {
		c.Count = r.count.Load()
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Crossing) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Who, b.Who), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

// Case is what a [Switch] does with the keys of one shard. Make it with [On].
type Case[K comparable, A, R any] struct {
	shard *shardInfo
	run   func(K, A) (R, error) // nil if On was given no function
}

// On makes f the handler of the keys that live on h's shard. A generic function
// serves all shards: On(east, deposit[East]), On(west, deposit[West]).
func On[S any, K comparable, A, R any](h Home[S, K], f func(Key[S, K], A) (R, error)) Case[K, A, R] {
	c := Case[K, A, R]{shard: h.shard}
	if f != nil {
		c.run = func(k K, arg A) (R, error) {
			return f(Key[S, K]{origin: h.shard, value: k}, arg)
		}
	}
	return c
}

// Switch leads keys that are known only at run time into code that is typed by
// shard. It is immutable and safe for concurrent use.
type Switch[K comparable, A, R any] struct {
	space *Space[K]
	runs  []func(K, A) (R, error) // by index; none is nil
}

// NewSwitch builds a switch from one case for each shard of space. A missing
// case is an error here, when the program starts, and never at a key.
func NewSwitch[K comparable, A, R any](space *Space[K], cases ...Case[K, A, R]) (*Switch[K, A, R], error) {
	if space == nil || len(space.shards) == 0 {
		return nil, fmt.Errorf("%w: no space: get it from NewSpace", ErrSwitch)
	}
	var errs []error
	refuse := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrSwitch}, args...)...))
	}
	seen := make([]bool, len(space.shards))
	runs := make([]func(K, A) (R, error), len(space.shards))
	for i, c := range cases {
		if !c.shard.sameSpace(space.shards[0]) {
			refuse("case %d is for no shard of this space", i)
			continue
		}
		if c.run == nil {
			refuse("the case for %v has no function", c.shard)
		}
		if seen[c.shard.index] {
			refuse("two cases for %v", c.shard)
		}
		seen[c.shard.index], runs[c.shard.index] = true, c.run
	}
	for i, p := range space.shards {
		if !seen[i] {
			refuse("no case for %v", p)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Switch[K, A, R]{space, runs}, nil
}

// Do finds the shard where k lives and runs its case.
func (s *Switch[K, A, R]) Do(k K, arg A) (R, error) {
	p, err := s.space.locateShard(k)
	if err != nil {
		var none R
		return none, err
	}
	return s.runs[p.index](k, arg)
}
