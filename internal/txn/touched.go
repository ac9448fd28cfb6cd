package txn

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

// touched is what a part reads and writes, in order.
type touched struct{ locks []claim }

// claim is a key or range, with the effects of a key that is written.
type claim struct {
	lock    Lock
	effects effect.Builder
}

// place is a row that was looked at, or is to be changed.
type place struct {
	position partition.Position
	// op is the number of the effect on it, -1 if there is none.
	op int
}

// gather finds the keys that rows belong to. The position of no key begins with
// that of another, and whoever looks at an element looks at, or changes, its key
// too: so in the order of positions each key comes before its elements, and what
// begins with the last key belongs to it.
func gather(n *notes, batch effect.Batch) (touched, error) {
	places := make([]place, 0, len(n.keys)+batch.Len())
	for _, p := range n.keys {
		places = append(places, place{p, -1})
	}
	for i, op := range batch.All() {
		places = append(places, place{op.Key[1:], i})
	}
	slices.SortStableFunc(places, func(a, b place) int { return bytes.Compare(a.position, b.position) })
	t := touched{}
	keys := make([]int, batch.Len()) // of each effect, the number of its key
	var at *claim
	for _, x := range places {
		if at == nil || !bytes.HasPrefix(x.position, at.lock.Start) {
			if !bytes.HasSuffix(x.position, keyEnd) {
				return t, fmt.Errorf("%w: it touches %q, which is no key", ErrPart, []byte(x.position))
			}
			t.locks = append(t.locks, claim{lock: Lock{Start: clonePosition(x.position)}})
			at = &t.locks[len(t.locks)-1]
		}
		if x.op >= 0 {
			at.lock.Write = true
			keys[x.op] = len(t.locks) - 1
		}
	}
	// In the order in which they were made: so the feed tells them, and the fields of a hash
	// that were written before it was deleted must not come after.
	for i, op := range batch.All() {
		redo(&t.locks[keys[i]].effects, op)
	}
	t.addRanges(n.spans)
	return t, nil
}

func redo(b *effect.Builder, op effect.Op) {
	if op.Delete {
		b.Delete(op.Key)
	} else {
		b.Put(op.Key, op.Value)
	}
}

// addRanges adds what was scanned, but for elements of a key: those are locked
// with it. Ranges that meet become one.
func (t *touched) addRanges(spans []partition.Span) {
	keys := t.locks
	slices.SortFunc(spans, func(a, b partition.Span) int { return bytes.Compare(a.Start, b.Start) })
	var at *Lock
	for _, s := range spans {
		if s.Empty() || elements(keys, s) {
			continue
		}
		switch {
		case at == nil || len(at.End) > 0 && bytes.Compare(at.End, s.Start) < 0:
			t.locks = append(t.locks, claim{lock: Lock{Range: true, Start: s.Start, End: s.End}})
			at = &t.locks[len(t.locks)-1].lock
		case len(s.End) == 0 || len(at.End) > 0 && bytes.Compare(at.End, s.End) < 0:
			at.End = s.End
		}
	}
}

// elements tells whether a span is one of elements of a key.
func elements(keys []claim, s partition.Span) bool {
	i, _ := slices.BinarySearchFunc(keys, s.Start, func(c claim, p partition.Position) int {
		return bytes.Compare(c.lock.Start, p)
	})
	// The key of elements comes before them, with no other in between.
	return i > 0 && bytes.HasPrefix(s.Start, keys[i-1].lock.Start) && bytes.HasPrefix(s.End, keys[i-1].lock.Start)
}

// check refuses what is not inside of the part.
func (t *touched) check(s partition.Span) error {
	if len(t.locks) == 0 {
		return fmt.Errorf("%w: it touches nothing: leave it out", ErrPart)
	}
	for i := range t.locks {
		switch lock := &t.locks[i].lock; {
		case !s.Contains(lock.Start):
			return outside(lock.Start, s)
		case lock.Range && len(s.End) > 0 && (len(lock.End) == 0 || bytes.Compare(lock.End, s.End) > 0):
			return outside(lock.End, s)
		case lock.Range && !lock.inside(s):
			return outside(lock.At(), s) // nobody would end it
		}
	}
	return nil
}
