package key

import (
	"errors"
	"fmt"
)

// MergeSalts opens one cursor per salt and merges them. If one cannot be
// opened, those that were are closed again.
//
// To continue where an earlier merge stopped, open each salt as that merge's
// [Place] says.
func MergeSalts[T any](salts int, cmp func(a, b T) int, open func(salt int) (Cursor[T], error)) (*Merger[T], error) {
	if err := checkSalts(salts); err != nil {
		return nil, err
	}
	if open == nil {
		return nil, fmt.Errorf("%w: no open function", ErrMerge)
	}
	sources := make([]Cursor[T], 0, salts)
	undo := func(err error) error {
		errs := []error{err}
		for _, s := range sources {
			errs = append(errs, s.Close())
		}
		return errors.Join(errs...)
	}
	for salt := range salts {
		s, err := open(salt)
		if err == nil && s == nil {
			err = fmt.Errorf("%w: nil cursor", ErrMerge)
		}
		if err != nil {
			return nil, undo(fmt.Errorf("key: open salt %d: %w", salt, err))
		}
		sources = append(sources, s)
	}
	m, err := Merge(cmp, sources...)
	if err != nil {
		return nil, undo(err)
	}
	return m, nil
}

// Place is where a merge stands: it has returned Item, of source number
// Source, last. A later merge over the same sources in the same order goes on
// from there without repeating or skipping an item, even among equal ones,
// provided that the items of one source are distinct.
type Place[T any] struct {
	Item   T
	Source int
}

// Includes says how to open source i again: at the first item not before Item
// if true, at the first item after Item if false. Sources behind Source may
// hold an equal item that was not returned yet.
func (p Place[T]) Includes(i int) bool { return i > p.Source }

// Place returns where the merge stands. ok is false if the last call of Next
// did not return an item.
func (m *Merger[T]) Place() (p Place[T], ok bool) {
	if !m.started || m.err != nil || m.heads[m.tree[0]].done {
		return p, false
	}
	i := m.tree[0]
	return Place[T]{m.heads[i].item, int(i)}, true
}
