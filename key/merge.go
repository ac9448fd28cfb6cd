package key

import (
	"errors"
	"fmt"
	"iter"
)

// ErrMerge means that a merge was set up with something unusable, or read
// after Close; the message says which.
var ErrMerge = errors.New("key: bad merge")

// ErrUnsorted means that a source did not follow the order of the merge: open
// it in that direction, and compare what comes after the salt.
var ErrUnsorted = errors.New("key: source is not sorted")

// A Merger reads several sorted sources as one sorted stream, such as the
// ranges of a salted log. It is lazy: each source is asked for one item at
// first and afterwards only to replace an item that was returned. It starts
// no goroutine and asks sources one after another; sources that wait for a
// network should begin their read when they are opened.
//
// Equal items come out in the order of the sources, so equal inputs give
// equal outputs. A Merger is itself a [Cursor]. It is not safe for
// concurrent use.
type Merger[T any] struct {
	cmp     func(a, b T) int
	sources []Cursor[T]
	heads   []sourceHead[T]

	// tree is a tournament of losers: tree[0] is the source with the least
	// head, and tree[n] for n > 0 is the loser of the match at inner node n,
	// whose children are 2n and 2n+1; source i is the leaf len(sources)+i.
	// Replacing the winner replays one path: log2 k matches, where a heap
	// needs up to twice as many. BenchmarkMerge has both: over 16 and 100 runs
	// of byte keys this takes about two thirds of the heap's time.
	tree []int32

	started  bool
	err      error // sticky
	closed   bool
	closeErr error // what Close returned
}

// sourceHead is the next item of a source.
type sourceHead[T any] struct {
	item T
	done bool
}

// NewMerger returns the merged stream of sources that are sorted by cmp. To read
// backward, open the sources backward and pass [Reverse] of the comparison.
//
// The Merger owns the sources and closes them when it is closed. An item must
// stay valid until the source was asked for the next but one, because the
// merge checks that each source is sorted.
func NewMerger[T any](cmp func(a, b T) int, sources ...Cursor[T]) (*Merger[T], error) {
	var errs []error
	if cmp == nil {
		errs = append(errs, fmt.Errorf("%w: no comparison", ErrMerge))
	}
	for i, s := range sources {
		if s == nil {
			errs = append(errs, fmt.Errorf("%w: source %d is nil", ErrMerge, i))
		}
	}
	if len(sources) > MaxSalts {
		errs = append(errs, fmt.Errorf("%w: %d sources, at most %d", ErrMerge, len(sources), MaxSalts))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Merger[T]{cmp: cmp, sources: sources}, nil
}

// Reverse returns the opposite comparison. Equal items still come out in the
// order of the sources; pass the sources in reverse, too, for a stream that
// is the exact mirror image.
func Reverse[T any](cmp func(a, b T) int) func(a, b T) int {
	return func(a, b T) int { return cmp(b, a) }
}

// Next returns the next item. ok is false at the end and after an error. An
// error of a source ends the merge at once, before any item that might have
// come after the missing one.
func (m *Merger[T]) Next() (item T, ok bool, err error) {
	if m.closed && m.err == nil {
		m.err = fmt.Errorf("%w: Next after Close", ErrMerge)
	}
	if m.err != nil || len(m.sources) == 0 {
		return item, false, m.err
	}
	if !m.started {
		m.err = m.start()
	} else {
		m.err = m.replaceWinner(m.tree[0])
	}
	if m.err != nil {
		return item, false, m.err
	}
	h := &m.heads[m.tree[0]]
	return h.item, !h.done, nil
}

// start reads every source's first item and plays the whole tournament.
func (m *Merger[T]) start() error {
	m.started = true
	k := len(m.sources)
	m.heads = make([]sourceHead[T], k)
	for i, s := range m.sources {
		item, ok, err := s.Next()
		if err != nil {
			return sourceError(i, err)
		}
		m.heads[i] = sourceHead[T]{item, !ok}
	}
	m.tree = make([]int32, k)
	winners := make([]int32, 2*k)
	for i := range k {
		winners[k+i] = int32(i)
	}
	for n := k - 1; n > 0; n-- {
		a, b := winners[2*n], winners[2*n+1]
		if m.beats(b, a) == 1 {
			a, b = b, a
		}
		winners[n], m.tree[n] = a, b
	}
	m.tree[0] = winners[1]
	return nil
}

// replaceWinner reads the next item of source i, the last winner, and replays its
// path to the root.
func (m *Merger[T]) replaceWinner(i int32) error {
	h := &m.heads[i]
	if h.done {
		return nil // the winner is at its end, so all are
	}
	item, ok, err := m.sources[i].Next()
	if err != nil {
		return sourceError(int(i), err)
	}
	if ok && m.cmp(h.item, item) > 0 {
		return sourceError(int(i), ErrUnsorted)
	}
	*h = sourceHead[T]{item, !ok}

	tree, winner := m.tree, i
	for n := (len(tree) + int(i)) / 2; n > 0; n /= 2 {
		// The winner is a coin toss that no branch predictor can learn, so the
		// two are exchanged by arithmetic.
		loser := tree[n]
		swap := (loser ^ winner) & -m.beats(loser, winner)
		tree[n] = loser ^ swap
		winner ^= swap
	}
	tree[0] = winner
	return nil
}

// beats returns 1 if source a's head comes before source b's, else 0. It is a
// total order, which is what makes the merge stable.
func (m *Merger[T]) beats(a, b int32) int32 {
	x, y := &m.heads[a], &m.heads[b]
	if x.done || y.done {
		return toInt32(!x.done)
	}
	c := m.cmp(x.item, y.item)
	return toInt32(c < 0) | toInt32(c == 0)&toInt32(a < b)
}

// toInt32 compiles to one instruction without a branch.
func toInt32(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

func sourceError(i int, err error) error {
	return fmt.Errorf("key: merge source %d: %w", i, err)
}

// Close closes every source and returns their errors. It may be called again
// and returns the same; Next fails afterwards.
func (m *Merger[T]) Close() error {
	if m.closed {
		return m.closeErr
	}
	m.closed = true
	var errs []error
	for i, s := range m.sources {
		if err := s.Close(); err != nil {
			errs = append(errs, sourceError(i, err))
		}
	}
	m.closeErr = errors.Join(errs...)
	return m.closeErr
}

// All returns the remaining items as a sequence that ends with an error if
// there was one, and closes the Merger at its end or when the loop is left.
func (m *Merger[T]) All() iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		defer m.Close()
		var none T
		for {
			item, ok, err := m.Next()
			if err != nil {
				yield(none, err)
				return
			}
			if !ok {
				break
			}
			if !yield(item, nil) {
				return
			}
		}
		if err := m.Close(); err != nil {
			yield(none, err)
		}
	}
}

// A Cursor reads one sorted source, forward in the order of its merge.
type Cursor[T any] interface {
	// Next returns the next item; ok is false at the end. It is not called
	// again after the end or an error.
	Next() (item T, ok bool, err error)
	// Close releases the source. It is called once.
	Close() error
}

// NewSliceCursor returns a cursor over items, which are not copied.
func NewSliceCursor[T any](items []T) Cursor[T] {
	return &pageCursor[T]{page: items}
}

// NewPageCursor returns a cursor over a source that is read a page at a time,
// such as the batches of a remote scan: next returns the following page, and
// an empty one at the end. It is the cheapest cursor for anything that is not
// in memory.
func NewPageCursor[T any](next func() ([]T, error)) Cursor[T] {
	return &pageCursor[T]{next: next}
}

type pageCursor[T any] struct {
	page []T
	next func() ([]T, error) // nil when there are no further pages
}

func (c *pageCursor[T]) Next() (item T, ok bool, err error) {
	if len(c.page) == 0 {
		if c.next == nil {
			return item, false, nil
		}
		if c.page, err = c.next(); err != nil || len(c.page) == 0 {
			c.page, c.next = nil, nil
			return item, false, err
		}
	}
	item, c.page = c.page[0], c.page[1:]
	return item, true, nil
}

func (c *pageCursor[T]) Close() error {
	c.page, c.next = nil, nil
	return nil
}

// NewSeqCursor returns a cursor over a sequence that ends with an error if there
// was one. Stepping a sequence from outside switches stacks for every item:
// in BenchmarkMerge 16 sequences take three to four times as long as 16
// slices. So prefer [NewPageCursor] where the source has pages.
func NewSeqCursor[T any](seq iter.Seq2[T, error]) Cursor[T] {
	if seq == nil {
		return NewSliceCursor[T](nil)
	}
	next, stop := iter.Pull2(seq)
	return &seqCursor[T]{next, stop}
}

type seqCursor[T any] struct {
	next func() (T, error, bool)
	stop func()
}

func (c *seqCursor[T]) Next() (item T, ok bool, err error) {
	item, err, ok = c.next()
	return item, ok && err == nil, err
}

func (c *seqCursor[T]) Close() error {
	c.stop()
	return nil
}

// NewSaltMerger opens one cursor per salt and merges them. If one cannot be
// opened, those that were are closed again.
//
// To continue where an earlier merge stopped, open each salt as that merge's
// [Place] says.
func NewSaltMerger[T any](salts int, cmp func(a, b T) int, open func(salt int) (Cursor[T], error)) (*Merger[T], error) {
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
	m, err := NewMerger(cmp, sources...)
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

// Includes reports how to open source i again: at the first item not before Item
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
