package key

import (
	"errors"
	"fmt"
	"iter"
	"time"
)

// Backward is a walk over time buckets from the newest to the oldest, through
// the half-open window [Since, Before).
type Backward struct {
	Bucket Bucket
	// Before is the end of the window, not included: usually the present, or
	// the time of the oldest record of the page before. It is required.
	Before time.Time
	// Since is the floor: nothing older is read. It may be left zero if
	// MaxEmpty is set.
	Since time.Time
	// MaxEmpty ends the walk after that many empty buckets in a row. 0 means
	// no limit, and then Since is required: a silent entity would otherwise
	// be searched for back to the year 1.
	MaxEmpty int
}

// Piece is what one bucket has of a window: [From, To) within Span. Only the
// newest and the oldest piece can be shorter than their span.
type Piece struct {
	Span     Span
	From, To time.Time
}

// Pieces returns the window cut at bucket borders, newest first. It tiles the
// window: no instant is missed or covered twice.
func (w Backward) Pieces() (iter.Seq[Piece], error) {
	if err := w.validate(); err != nil {
		return nil, err
	}
	if w.Before.Equal(w.Since) {
		return func(func(Piece) bool) {}, nil
	}
	newest, err := w.Bucket.Of(w.Before.Add(-1))
	if err != nil {
		return nil, err
	}
	if _, err := w.Bucket.Of(w.Since); err != nil {
		return nil, err
	}
	return func(yield func(Piece) bool) {
		span, to := newest, w.Before.UTC()
		for {
			p := Piece{Span: span, From: span.Start(), To: to}
			last := !p.From.After(w.Since)
			if last {
				p.From = w.Since.UTC()
			}
			if !yield(p) || last {
				return
			}
			span, to = span.Prev(), p.From
		}
	}, nil
}

func (w Backward) validate() error {
	errs := []error{w.Bucket.Validate()}
	switch {
	case w.Before.IsZero():
		errs = append(errs, fmt.Errorf("%w: no Before; set it, usually to the present", ErrBucket))
	case w.Before.Before(w.Since):
		errs = append(errs, fmt.Errorf("%w: the window ends at %v, before it begins at %v", ErrBucket, w.Before, w.Since))
	}
	if w.MaxEmpty < 0 {
		errs = append(errs, fmt.Errorf("%w: MaxEmpty is %d; want a positive number, or 0 for no limit", ErrBucket, w.MaxEmpty))
	}
	if w.MaxEmpty == 0 && w.Since.IsZero() {
		errs = append(errs, fmt.Errorf("%w: no floor; set Since or MaxEmpty", ErrBucket))
	}
	return errors.Join(errs...)
}

// Stop is why [Latest] stopped.
type Stop uint8

const (
	// StopEnough means that as many records were found as were asked for.
	StopEnough Stop = iota
	// StopFloor means that the whole window was read.
	StopFloor
	// StopEmpty means that MaxEmpty buckets in a row were empty.
	StopEmpty
	// StopError means that a read failed.
	StopError
)

// String returns enough, floor, empty or error.
func (s Stop) String() string {
	names := [...]string{"enough", "floor", "empty", "error"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("Stop(%d)", uint8(s))
}

// Found is the answer of [Latest].
type Found[T any] struct {
	// Items are the records, newest first.
	Items []T
	// Buckets is how many buckets were read, the price of the answer.
	Buckets int
	Stop    Stop
	// Reached is the lower end of the oldest piece that was read. After
	// StopEmpty, a walk with Before set to it continues. After StopEnough,
	// continue before the last item's own time. That passes over others of
	// the very same time: where times repeat, resume inside the piece instead.
	Reached time.Time
}

// Latest finds the newest n records of a window by reading its buckets one
// after another, newest first, and stops as soon as it has n: it never opens
// a bucket that it does not need, nor asks one for more than is missing.
//
// read yields the records of one piece, newest first; want is how many are
// still missing, for use as a limit. Records past want are not consumed, and a
// nil sequence is an empty one. If read yields an error, Latest returns it
// together with what was found.
func Latest[T any](w Backward, n int, read func(p Piece, want int) iter.Seq2[T, error]) (Found[T], error) {
	pieces, err := w.Pieces()
	var errs []error
	if n < 1 {
		errs = append(errs, fmt.Errorf("%w: the latest %d records; ask for at least 1", ErrBucket, n))
	}
	if read == nil {
		errs = append(errs, fmt.Errorf("%w: no read function", ErrBucket))
	}
	if err := errors.Join(append(errs, err)...); err != nil {
		return Found[T]{Stop: StopError}, err
	}

	found := Found[T]{Stop: StopFloor, Reached: w.Before}
	empty := 0
	for p := range pieces {
		before := len(found.Items)
		found.Buckets++
		found.Reached = p.From
		records := read(p, n-before)
		if records == nil {
			records = func(func(T, error) bool) {}
		}
		for item, err := range records {
			if err != nil {
				found.Stop = StopError
				return found, fmt.Errorf("key: read %v %v: %w", p.Span.Bucket(), p.Span, err)
			}
			found.Items = append(found.Items, item)
			if len(found.Items) == n {
				found.Stop = StopEnough
				return found, nil
			}
		}
		empty++
		if len(found.Items) > before {
			empty = 0
		}
		if empty == w.MaxEmpty && empty > 0 && p.From.After(w.Since) {
			found.Stop = StopEmpty
			return found, nil
		}
	}
	return found, nil
}
