package partition

import (
	"bytes"
	"fmt"
)

// tiling is where shards start, and how to find the one of a position. Maps that
// cut the space alike share it.
//
// Invariant: the first start is empty and starts grow. A shard ends where the
// next one starts, so a gap or an overlap cannot be written down.
type tiling struct {
	// bytes are all starts, one behind the other, and ends says where each of
	// them ends, after a 0. Together with nodes that have no pointers in their
	// arrays, ten thousand shards are a handful of objects to the collector, and
	// an edit copies memory in long runs.
	bytes []byte
	ends  []uint32
	root  *node // see find; nil for one shard
}

// newTiling returns the tiling without boundaries.
func newTiling() *tiling { return &tiling{ends: []uint32{0, 0}} }

// count returns how many shards there are.
func (t *tiling) count() int { return len(t.ends) - 1 }

// start returns where shard i starts.
func (t *tiling) start(i int) Position {
	return t.bytes[t.ends[i]:t.ends[i+1]:t.ends[i+1]]
}

// span returns the positions of shard i.
func (t *tiling) span(i int) Span {
	s := Span{Start: t.start(i)}
	if i+1 < t.count() {
		s.End = t.start(i + 1)
	}
	return s
}

// with returns a tiling in which the starts of shards i up to j are others. It
// has no index yet.
func (t *tiling) with(i, j int, starts ...Position) *tiling {
	added := 0
	for _, p := range starts {
		added += len(p)
	}
	from, to := t.ends[i], t.ends[j]
	made := &tiling{
		bytes: make([]byte, 0, len(t.bytes)-int(to-from)+added),
		ends:  make([]uint32, 0, len(t.ends)-(j-i)+len(starts)),
	}
	made.bytes = append(made.bytes, t.bytes[:from]...)
	made.ends = append(made.ends, t.ends[:i+1]...)
	for _, p := range starts {
		made.add(p)
	}
	made.bytes = append(made.bytes, t.bytes[to:]...)
	shift := uint32(len(made.bytes) - len(t.bytes)) // modulo 2^32, like the sum below
	for _, end := range t.ends[j+1:] {
		made.ends = append(made.ends, end+shift)
	}
	return made
}

// add appends the start of one more shard.
func (t *tiling) add(start Position) {
	t.bytes = append(t.bytes, start...)
	t.ends = append(t.ends, uint32(len(t.bytes)))
}

// check tells whether the shards are too many, or do not tile the space.
func (t *tiling) check() error {
	if err := t.checkBounds(); err != nil {
		return err
	}
	if t.count() < 1 || len(t.start(0)) > 0 {
		return fmt.Errorf("the first of %d shards does not start with the space", t.count())
	}
	for i := 1; i < t.count(); i++ {
		if bytes.Compare(t.start(i-1), t.start(i)) >= 0 {
			return fmt.Errorf("a shard starts at %s, the one behind it at %s", text(t.start(i-1)), text(t.start(i)))
		}
	}
	return nil
}

// checkBounds tells whether the shards are too many.
func (t *tiling) checkBounds() error {
	switch {
	case t.count() > MaxShards:
		return fmt.Errorf("%w: %d shards, at most %d", ErrLimit, t.count(), MaxShards)
	case len(t.bytes) > MaxBoundariesBytes:
		return fmt.Errorf("%w: %d bytes of boundaries, at most %d", ErrLimit, len(t.bytes), MaxBoundariesBytes)
	}
	return nil
}
