package affinity

import (
	"errors"
	"fmt"
)

// Case is what a [Switch] does with the keys of one shard. Make it with [On].
type Case[K comparable, A, R any] struct {
	place *place
	run   func(K, A) (R, error) // nil if On was given no function
}

// On says that f handles the keys that live on h's shard. A generic function
// serves all shards: On(east, deposit[East]), On(west, deposit[West]).
func On[S any, K comparable, A, R any](h Home[S, K], f func(Key[S, K], A) (R, error)) Case[K, A, R] {
	c := Case[K, A, R]{place: h.place}
	if f != nil {
		c.run = func(k K, arg A) (R, error) {
			return f(Key[S, K]{origin: h.place, value: k}, arg)
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
	if space == nil || len(space.places) == 0 {
		return nil, fmt.Errorf("%w: no space: get it from NewSpace", ErrSwitch)
	}
	var errs []error
	refuse := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrSwitch}, args...)...))
	}
	seen := make([]bool, len(space.places))
	runs := make([]func(K, A) (R, error), len(space.places))
	for i, c := range cases {
		if !c.place.sameSpace(space.places[0]) {
			refuse("case %d is for no shard of this space", i)
			continue
		}
		if c.run == nil {
			refuse("the case for %v has no function", c.place)
		}
		if seen[c.place.index] {
			refuse("two cases for %v", c.place)
		}
		seen[c.place.index], runs[c.place.index] = true, c.run
	}
	for i, p := range space.places {
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
	p, err := s.space.place(k)
	if err != nil {
		var none R
		return none, err
	}
	return s.runs[p.index](k, arg)
}
