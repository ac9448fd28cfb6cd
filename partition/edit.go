package partition

import (
	"bytes"
	"fmt"
	"slices"
)

// Bounds of a map. They keep a damaged or hostile one from taking all memory.
const (
	// MaxShards is a hundred times what lookups are measured with.
	MaxShards = 1 << 20
	// MaxGroups is far more than a cluster has.
	MaxGroups = 1 << 16
	// MaxBoundaryBytes holds the longest key, even if every byte is escaped.
	MaxBoundaryBytes = 33 << 10
	// MaxBoundariesBytes bounds all boundaries together.
	MaxBoundariesBytes = 64 << 20
	// maxNumber bounds versions and ids, so that the next one always exists.
	maxNumber = 1 << 62
)

// Edit is a change of a map: a value that can be planned, priced, compared and
// printed before it is made. The edits are [Split], [Merge], [MergeSpan], [Assign], [Pin],
// [PinSpan], [AddGroup], [SetDraining] and [RemoveGroup].
type Edit interface {
	fmt.Stringer
	apply(*draft) error
}

// Apply returns the next version of the map, with all edits made in order, or
// the reason why one of them is refused, and then none is made. An edit sees what
// those before it did: a shard that they changed has the version of the new map.
// The ids of what is made follow from the map and the edits alone.
//
// Two maps with one version would be a disaster: Apply is only for the one place
// that allocates versions. Everybody else gets maps from there.
func (m *Map) Apply(edits ...Edit) (*Map, error) {
	if len(edits) == 0 {
		return nil, fmt.Errorf("%w: no edits", ErrNoChange)
	}
	if m.version >= maxNumber {
		return nil, fmt.Errorf("%w: version %d is the last", ErrLimit, m.version)
	}
	d := draft{Map: *m}
	d.version++
	for _, e := range edits {
		if err := e.apply(&d); err != nil {
			return nil, fmt.Errorf("%v: %w", e, err)
		}
	}
	return d.finish()
}

// draft is a map in the making.
type draft struct {
	Map
	// ownShards and ownGroups tell that the slices are not shared with the map
	// before.
	ownShards, ownGroups bool
	// recut tells that the tiling is a new one, without an index.
	recut bool
}

// finish returns the map that was drafted.
func (d *draft) finish() (*Map, error) {
	if d.recut {
		if err := d.tiling.checkBounds(); err != nil {
			return nil, err
		}
		d.tiling.makeIndex()
	}
	if d.recut || d.ownShards || d.stretches == nil {
		d.stretches = newStretches(d.tiling, d.shards)
	}
	return &d.Map, nil
}

// shard returns where a shard is, if it last changed at the expected version;
// 0 expects nothing.
func (d *draft) shard(id ShardID, expect Version) (int, error) {
	i := d.indexOf(id)
	if i < 0 {
		return 0, fmt.Errorf("%w: %v", ErrUnknownShard, id)
	}
	if s := &d.shards[i]; expect != 0 && s.Changed != expect {
		return 0, &StaleError{Shard: id, Have: s.Changed, Want: expect}
	}
	return i, nil
}

// shardsOf returns the first of the shards of a span, which must start and end where shards
// do, and the one behind them.
func (d *draft) shardsOf(s Span) (first, end int, err error) {
	if s.Empty() {
		return 0, 0, fmt.Errorf("%w: the span is empty", ErrBoundary)
	}
	// The index may be older than the shards of the draft.
	first, end = -1, len(d.shards)
	for i := range d.shards {
		if bytes.Equal(d.tiling.start(i), s.Start) {
			first = i
		}
		if len(s.End) > 0 && bytes.Equal(d.tiling.start(i), s.End) {
			end = i
		}
	}
	switch {
	case first < 0:
		return 0, 0, fmt.Errorf("%w: no shard starts at %s: split there first", ErrBoundary, text(s.Start))
	case len(s.End) > 0 && end == len(d.shards):
		return 0, 0, fmt.Errorf("%w: no shard ends at %s: split there first", ErrBoundary, text(s.End))
	}
	return first, end, nil
}

func (d *draft) group(id GroupID) (int, error) {
	i, ok := d.groupIndex(id)
	if !ok {
		return 0, fmt.Errorf("%w: %v", ErrUnknownGroup, id)
	}
	return i, nil
}

// edit returns a shard to change.
func (d *draft) edit(i int) *shard {
	if !d.ownShards {
		d.shards, d.ownShards = slices.Clone(d.shards), true
	}
	return &d.shards[i]
}

// replace puts shards with these starts in the place of some.
func (d *draft) replace(i, j int, starts []Position, with ...shard) {
	made := make([]shard, 0, len(d.shards)-(j-i)+len(with))
	made = append(append(append(made, d.shards[:i]...), with...), d.shards[j:]...)
	d.shards, d.ownShards = made, true
	d.tiling, d.recut = d.tiling.with(i, j, starts...), true
}

// editGroups returns the groups to change.
func (d *draft) editGroups() []Group {
	if !d.ownGroups {
		d.groups, d.ownGroups = slices.Clone(d.groups), true
	}
	return d.groups
}
