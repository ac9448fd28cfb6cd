package partition

import (
	"bytes"
	"fmt"
)

// WholeKey truncates a position to where its key starts, so that a boundary
// there keeps the key and its elements together. A position that is in no key,
// such as the edge of a slot, of a prefix or of the elements of a key, stays.
func (k *Keyspace) WholeKey(p Position) (Position, error) {
	body, err := k.body(p)
	if err != nil {
		return nil, err
	}
	for i := 0; ; i += 2 {
		next := bytes.IndexByte(body[i:], escape)
		if next < 0 || i+next+1 == len(body) {
			return p, nil
		}
		i += next
		switch body[i+1] {
		case escapedNul:
		case terminator:
			return p[:len(p)-len(body)+i+2], nil
		default:
			return p, nil // nothing is written there
		}
	}
}

// EvenSlots returns the n-1 boundaries that cut a hash keyspace into n parts
// with as many slots, give or take one.
func (k *Keyspace) EvenSlots(n int) ([]Position, error) {
	slots := k.SlotCount()
	switch {
	case k.Kind != Hash:
		return nil, fmt.Errorf("%w: keyspace %q is of kind %v and has no slots: name the keys to split at", ErrBoundary, k.Name, k.Kind)
	case n < 1 || n > slots:
		return nil, fmt.Errorf("%w: %d parts of %d slots: use 1 to %d", ErrBoundary, n, slots, slots)
	}
	at := make([]Position, n-1)
	for i := range at {
		at[i] = k.SlotSpan(uint16((i + 1) * slots / n)).Start
	}
	return at, nil
}

// checkBoundary tells why a shard may not start at p. Without a keyspace only
// the edge of one will do: what lies inside cannot be read without its kind.
func checkBoundary(k *Keyspace, p Position) error {
	if len(p) > MaxBoundaryBytes {
		return fmt.Errorf("%w: boundary of %d bytes, at most %d", ErrLimit, len(p), MaxBoundaryBytes)
	}
	id, rest, ok := readID(p)
	switch {
	case !ok || len(rest) == 0:
		return nil // the end of the last id of a length is no id
	case k == nil:
		return fmt.Errorf("%w: %s is inside a keyspace: say in which", ErrBoundary, text(p))
	case k.ID != id:
		return fmt.Errorf("%w: %s is not in keyspace %q: split each keyspace on its own", ErrBoundary, text(p), k.Name)
	}
	whole, err := k.WholeKey(p)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrBoundary, text(p), err)
	}
	if k.Kind == Hash && k.SlotAt(p) > k.SlotCount() {
		return fmt.Errorf("%w: %s is behind the last slot", ErrBoundary, text(p))
	}
	if k.Kind == Hash && bytes.Equal(p, k.SlotSpan(0).Start) {
		return fmt.Errorf("%w: no key comes before the first slot of %q: use another", ErrBoundary, k.Name)
	}
	if len(whole) != len(p) {
		return fmt.Errorf("%w: %s is among the elements of a key: split at %s", ErrCut, text(p), text(whole))
	}
	return nil
}
