package partition

import (
	"bytes"
	"fmt"
	"strings"
)

// Split cuts a shard in several. The leftmost part keeps the id, the others get
// new ones in order; all stay with their group and pin.
type Split struct {
	Shard ShardID
	// In is the keyspace of the boundaries. nil is enough for the edges of
	// keyspaces, which need not be read.
	In *Keyspace
	// At are where the new shards start: inside the shard, growing, none among
	// the elements of a key, see [Keyspace.WholeKey], and none at the first slot
	// of a hash keyspace, before which there is nothing.
	At []Position
	// Expect is when the shard last changed; 0 does not ask.
	Expect Version
}

// String is the edit in errors and reports.
func (e Split) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "split %v at", e.Shard)
	for i, p := range e.At {
		if i == 3 {
			fmt.Fprintf(&b, " and %d more", len(e.At)-i)
			break
		}
		fmt.Fprintf(&b, " %s", text(p))
	}
	return b.String()
}

func (e Split) apply(d *draft) error {
	i, err := d.shard(e.Shard, e.Expect)
	if err != nil {
		return err
	}
	if len(e.At) == 0 {
		return fmt.Errorf("%w: no boundaries to split at", ErrNoChange)
	}
	if d.nextShard+ShardID(len(e.At)) > maxNumber {
		return fmt.Errorf("%w: %v is the last id", ErrLimit, d.nextShard)
	}
	span := d.tiling.span(i)
	starts, parts := []Position{span.Start}, []shard{d.shards[i]}
	parts[0].Changed = d.version
	for _, p := range e.At {
		last := starts[len(starts)-1]
		switch {
		case bytes.Equal(p, span.Start) || bytes.Equal(p, span.End):
			return fmt.Errorf("%w: %s is where %v starts or ends", ErrBoundary, text(p), e.Shard)
		case !span.Contains(p):
			return fmt.Errorf("%w: %s is outside of %v %v", ErrBoundary, text(p), e.Shard, span)
		case bytes.Compare(p, last) <= 0:
			return fmt.Errorf("%w: %s does not come behind %s: sort the boundaries", ErrBoundary, text(p), text(last))
		}
		if err := checkBoundary(e.In, p); err != nil {
			return err
		}
		part := parts[0]
		part.Shard = d.nextShard
		d.nextShard++
		starts, parts = append(starts, p), append(parts, part)
	}
	d.replace(i, i+1, starts, parts...)
	return nil
}

// Merge joins two neighbours with the same group and the same pin. The left one
// keeps its id, that of the right one is gone for ever.
type Merge struct {
	Left, Right ShardID
	// ExpectLeft and ExpectRight are when they last changed; 0 does not ask.
	ExpectLeft, ExpectRight Version
}

// String is the edit in errors and reports.
func (e Merge) String() string { return fmt.Sprintf("merge %v and %v", e.Left, e.Right) }

func (e Merge) apply(d *draft) error {
	i, err := d.shard(e.Left, e.ExpectLeft)
	if err != nil {
		return err
	}
	j, err := d.shard(e.Right, e.ExpectRight)
	if err != nil {
		return err
	}
	if j != i+1 {
		return fmt.Errorf("%w: %v is not followed by %v", ErrNotNeighbours, e.Left, e.Right)
	}
	return d.merge(i, j+1)
}

// MergeSpan joins all shards of a span, which must start and end where shards do, at the cost
// of one merge.
type MergeSpan struct{ Span Span }

// String is the edit in errors and reports.
func (e MergeSpan) String() string { return fmt.Sprintf("merge %v", e.Span) }

func (e MergeSpan) apply(d *draft) error {
	first, end, err := d.shardsOf(e.Span)
	if err != nil {
		return err
	}
	if end == first+1 {
		return fmt.Errorf("%w: %v is one shard", ErrNoChange, e.Span)
	}
	return d.merge(first, end)
}

// merge joins a run of shards.
func (d *draft) merge(first, end int) error {
	left := d.shards[first]
	for _, right := range d.shards[first+1 : end] {
		switch {
		case left.Group != right.Group:
			return fmt.Errorf("%w: %v is with %v, %v with %v: move one", ErrDifferent, left.Shard, left.Group, right.Shard, right.Group)
		case left.pin != right.pin:
			// Neither half may gain or lose a constraint that nobody asked for.
			return fmt.Errorf("%w: %v is pinned to %q, %v to %q: pin them alike", ErrDifferent, left.Shard, d.pins[left.pin], right.Shard, d.pins[right.pin])
		}
	}
	left.Changed = d.version
	d.replace(first, end, []Position{d.tiling.start(first)}, left)
	return nil
}

// Assign gives a shard to another group.
type Assign struct {
	Shard ShardID
	To    GroupID
	// Expect is when the shard last changed; 0 does not ask.
	Expect Version
}

// String is the edit in errors and reports.
func (e Assign) String() string { return fmt.Sprintf("assign %v to %v", e.Shard, e.To) }

func (e Assign) apply(d *draft) error {
	i, err := d.shard(e.Shard, e.Expect)
	if err != nil {
		return err
	}
	g, err := d.group(e.To)
	if err != nil {
		return err
	}
	group, s := d.groups[g], d.shards[i]
	switch {
	case s.Group == e.To:
		return fmt.Errorf("%w: %v is with %v", ErrNoChange, e.Shard, e.To)
	case group.Draining:
		return fmt.Errorf("%w: %v", ErrDraining, e.To)
	case !d.pins[s.pin].Allows(group.Labels):
		return fmt.Errorf("%w: %v is pinned to %q, %v is %q", ErrPinned, e.Shard, d.pins[s.pin], e.To, group.Labels)
	}
	changed := d.edit(i)
	changed.Group, changed.Changed = e.To, d.version
	return nil
}
