package partition

import "fmt"

// Pin says which groups may own a shard from now on; the zero constraint lifts
// the pin. The owner stays even if it is none of them, until the shard is moved:
// see [Map.Misplaced].
type Pin struct {
	Shard ShardID
	To    Constraint
	// Expect is when the shard last changed; 0 does not ask. A pin itself is no
	// change in this sense: neither span nor owner is another.
	Expect Version
}

// String is the edit in errors and reports.
func (e Pin) String() string { return fmt.Sprintf("pin %v to %q", e.Shard, e.To) }

func (e Pin) apply(d *draft) error {
	i, err := d.shard(e.Shard, e.Expect)
	if err != nil {
		return err
	}
	return d.pin(i, i+1, e.To)
}

// PinSpan pins all shards of a span, which must start and end where shards do:
// split first if it does not, in the same Apply if you like.
type PinSpan struct {
	Span Span
	To   Constraint
}

// String is the edit in errors and reports.
func (e PinSpan) String() string { return fmt.Sprintf("pin %v to %q", e.Span, e.To) }

func (e PinSpan) apply(d *draft) error {
	first, end, err := d.shardsOf(e.Span)
	if err != nil {
		return err
	}
	return d.pin(first, end, e.To)
}

// pin pins a run of shards.
func (d *draft) pin(first, end int, to Constraint) error {
	placeable := false
	for _, g := range d.groups {
		placeable = placeable || !g.Draining && to.Allows(g.Labels)
	}
	// What nobody meets is a slip of the pen. Lifting a pin is always right.
	if !placeable && to != (Constraint{}) {
		return fmt.Errorf("%w: no active group meets %q", ErrUnplaceable, to)
	}
	same := true
	for i := first; i < end; i++ {
		same = same && d.pins[d.shards[i].pin] == to
	}
	if same {
		return fmt.Errorf("%w: pinned to %q already", ErrNoChange, to)
	}
	d.repin(func(i int) Constraint {
		if first <= i && i < end {
			return to
		}
		return d.pins[d.shards[i].pin]
	})
	return nil
}

// repin gives each shard its constraint, and numbers those in use anew.
func (d *draft) repin(pinOf func(i int) Constraint) {
	pins, place := []Constraint{{}}, map[Constraint]uint32{{}: 0}
	for i := range d.shards {
		pin := pinOf(i)
		n, ok := place[pin]
		if !ok {
			n = uint32(len(pins))
			pins, place[pin] = append(pins, pin), n
		}
		d.edit(i).pin = n
	}
	d.pins = pins
}
