package key

import (
	"errors"
	"fmt"
	"slices"
)

// NewPageMerger returns the merged stream of a number of sources that are read a
// page at a time, several of them in one call: so a caller that waits for a disk
// or a network waits for them at the same time, as package key/fanout does. read
// is given the numbers of sources, in order, and returns the next page of each; an
// empty page is the end of its source.
//
// The first call is for all sources. Later ones are for a source that has no items
// left, and for those that have no more than half of their page left and will
// need one soon. An error of read ends the merge.
func NewPageMerger[T any](cmp func(a, b T) int, sources int, read func(sources []int) ([][]T, error)) (*Merger[T], error) {
	var errs []error
	if read == nil {
		errs = append(errs, fmt.Errorf("%w: no read function", ErrMerge))
	}
	if sources < 0 || sources > MaxSalts {
		errs = append(errs, fmt.Errorf("%w: %d sources, at most %d", ErrMerge, sources, MaxSalts))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	set := &pageSet[T]{read: read, sources: make([]pagedSource[T], sources)}
	cursors := make([]Cursor[T], sources)
	for i := range cursors {
		cursors[i] = &pagedCursor[T]{set, i}
	}
	return NewMerger(cmp, cursors...)
}

// pageSet has what was read of several sources and not returned yet.
type pageSet[T any] struct {
	read    func(sources []int) ([][]T, error)
	sources []pagedSource[T]
}

type pagedSource[T any] struct {
	items    []T
	pageSize int // of the newest page
	atEnd    bool
}

// refill reads the next page of source i, which has no items left, and of those that will need one soon.
func (s *pageSet[T]) refill(i int) error {
	due := make([]int, 0, len(s.sources))
	for j := range s.sources {
		if x := &s.sources[j]; j == i || !x.atEnd && 2*len(x.items) <= x.pageSize {
			due = append(due, j)
		}
	}
	pages, err := s.read(due)
	if err != nil {
		return err
	}
	if len(pages) != len(due) {
		return fmt.Errorf("%w: %d pages of %d sources", ErrMerge, len(pages), len(due))
	}
	for n, j := range due {
		x := &s.sources[j]
		if x.pageSize, x.atEnd = len(pages[n]), len(pages[n]) == 0; len(x.items) > 0 {
			pages[n] = slices.Concat(x.items, pages[n])
		}
		x.items = pages[n]
	}
	return nil
}

// pagedCursor is one source of a set.
type pagedCursor[T any] struct {
	set *pageSet[T]
	i   int
}

func (c *pagedCursor[T]) Next() (item T, ok bool, err error) {
	x := &c.set.sources[c.i]
	if len(x.items) == 0 && !x.atEnd {
		if err := c.set.refill(c.i); err != nil {
			return item, false, err
		}
	}
	if len(x.items) == 0 {
		return item, false, nil
	}
	item, x.items = x.items[0], x.items[1:]
	return item, true, nil
}

func (c *pagedCursor[T]) Close() error {
	c.set.sources[c.i].items = nil
	return nil
}
