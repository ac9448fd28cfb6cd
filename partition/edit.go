package partition

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
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
// that allocates versions. All others get maps from there.
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
	return d.finishMap()
}

// draft is a map in the making.
type draft struct {
	Map
	// ownShards and ownGroups report whether the slices are not shared with the map
	// before.
	ownShards, ownGroups bool
	// tilingChanged reports whether the tiling is a new one, without an index.
	tilingChanged bool
}

// finishMap returns the map that was drafted.
func (d *draft) finishMap() (*Map, error) {
	if d.tilingChanged {
		if err := d.tiling.checkBounds(); err != nil {
			return nil, err
		}
		d.tiling.makeIndex()
	}
	if d.tilingChanged || d.ownShards || d.stretches == nil {
		d.stretches = newStretches(d.tiling, d.shards)
	}
	return &d.Map, nil
}

// findShard returns where a shard is, if it last changed at the expected version;
// 0 expects nothing.
func (d *draft) findShard(id ShardID, expect Version) (int, error) {
	i := d.indexOf(id)
	if i < 0 {
		return 0, fmt.Errorf("%w: %v", ErrUnknownShard, id)
	}
	if s := &d.shards[i]; expect != 0 && s.Changed != expect {
		return 0, &StaleError{Shard: id, Have: s.Changed, Want: expect}
	}
	return i, nil
}

// shardRange returns the first of the shards of a span, which must start and end where shards
// do, and the one behind them.
func (d *draft) shardRange(s Span) (first, end int, err error) {
	if s.Empty() {
		return 0, 0, fmt.Errorf("%w: the span is empty", ErrBoundary)
	}
	// The index may be older than the shards of the draft.
	first, end = -1, len(d.shards)
	for i := range d.shards {
		if bytes.Equal(d.tiling.startOf(i), s.Start) {
			first = i
		}
		if len(s.End) > 0 && bytes.Equal(d.tiling.startOf(i), s.End) {
			end = i
		}
	}
	switch {
	case first < 0:
		return 0, 0, fmt.Errorf("%w: no shard starts at %s: split there first", ErrBoundary, formatPosition(s.Start))
	case len(s.End) > 0 && end == len(d.shards):
		return 0, 0, fmt.Errorf("%w: no shard ends at %s: split there first", ErrBoundary, formatPosition(s.End))
	}
	return first, end, nil
}

func (d *draft) findGroup(id GroupID) (int, error) {
	i, ok := d.groupIndex(id)
	if !ok {
		return 0, fmt.Errorf("%w: %v", ErrUnknownGroup, id)
	}
	return i, nil
}

// editShard returns a shard to change.
func (d *draft) editShard(i int) *shard {
	if !d.ownShards {
		d.shards, d.ownShards = slices.Clone(d.shards), true
	}
	return &d.shards[i]
}

// replaceShards puts shards with these starts in the place of some.
func (d *draft) replaceShards(i, j int, starts []Position, with ...shard) {
	made := make([]shard, 0, len(d.shards)-(j-i)+len(with))
	made = append(append(append(made, d.shards[:i]...), with...), d.shards[j:]...)
	d.shards, d.ownShards = made, true
	d.tiling, d.tilingChanged = d.tiling.withStarts(i, j, starts...), true
}

// editGroups returns the groups to change.
func (d *draft) editGroups() []Group {
	if !d.ownGroups {
		d.groups, d.ownGroups = slices.Clone(d.groups), true
	}
	return d.groups
}

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
		fmt.Fprintf(&b, " %s", formatPosition(p))
	}
	return b.String()
}

func (e Split) apply(d *draft) error {
	i, err := d.findShard(e.Shard, e.Expect)
	if err != nil {
		return err
	}
	if len(e.At) == 0 {
		return fmt.Errorf("%w: no boundaries to split at", ErrNoChange)
	}
	if d.nextShard+ShardID(len(e.At)) > maxNumber {
		return fmt.Errorf("%w: %v is the last id", ErrLimit, d.nextShard)
	}
	span := d.tiling.spanOf(i)
	starts, parts := []Position{span.Start}, []shard{d.shards[i]}
	parts[0].Changed = d.version
	for _, p := range e.At {
		last := starts[len(starts)-1]
		switch {
		case bytes.Equal(p, span.Start) || bytes.Equal(p, span.End):
			return fmt.Errorf("%w: %s is where %v starts or ends", ErrBoundary, formatPosition(p), e.Shard)
		case !span.Contains(p):
			return fmt.Errorf("%w: %s is outside of %v %v", ErrBoundary, formatPosition(p), e.Shard, span)
		case bytes.Compare(p, last) <= 0:
			return fmt.Errorf("%w: %s does not come behind %s: sort the boundaries", ErrBoundary, formatPosition(p), formatPosition(last))
		}
		if err := checkBoundary(e.In, p); err != nil {
			return err
		}
		part := parts[0]
		part.Shard = d.nextShard
		d.nextShard++
		starts, parts = append(starts, p), append(parts, part)
	}
	d.replaceShards(i, i+1, starts, parts...)
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
	i, err := d.findShard(e.Left, e.ExpectLeft)
	if err != nil {
		return err
	}
	j, err := d.findShard(e.Right, e.ExpectRight)
	if err != nil {
		return err
	}
	if j != i+1 {
		return fmt.Errorf("%w: %v is not followed by %v", ErrNotNeighbours, e.Left, e.Right)
	}
	return d.mergeShards(i, j+1)
}

// MergeSpan joins all shards of a span, which must start and end where shards do, at the cost
// of one merge.
type MergeSpan struct{ Span Span }

// String is the edit in errors and reports.
func (e MergeSpan) String() string { return fmt.Sprintf("merge %v", e.Span) }

func (e MergeSpan) apply(d *draft) error {
	first, end, err := d.shardRange(e.Span)
	if err != nil {
		return err
	}
	if end == first+1 {
		return fmt.Errorf("%w: %v is one shard", ErrNoChange, e.Span)
	}
	return d.mergeShards(first, end)
}

// mergeShards joins a run of shards.
func (d *draft) mergeShards(first, end int) error {
	left := d.shards[first]
	for _, right := range d.shards[first+1 : end] {
		switch {
		case left.Group != right.Group:
			return fmt.Errorf("%w: %v is with %v, %v with %v: move one", ErrDifferent, left.Shard, left.Group, right.Shard, right.Group)
		case left.pin != right.pin:
			// Neither half may gain or lose a constraint without a request.
			return fmt.Errorf("%w: %v is pinned to %q, %v to %q: pin them alike", ErrDifferent, left.Shard, d.pins[left.pin], right.Shard, d.pins[right.pin])
		}
	}
	left.Changed = d.version
	d.replaceShards(first, end, []Position{d.tiling.startOf(first)}, left)
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
	i, err := d.findShard(e.Shard, e.Expect)
	if err != nil {
		return err
	}
	g, err := d.findGroup(e.To)
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
	changed := d.editShard(i)
	changed.Group, changed.Changed = e.To, d.version
	return nil
}

// Pin specifies which groups may own a shard from now on; the zero constraint lifts
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
	i, err := d.findShard(e.Shard, e.Expect)
	if err != nil {
		return err
	}
	return d.pinShards(i, i+1, e.To)
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
	first, end, err := d.shardRange(e.Span)
	if err != nil {
		return err
	}
	return d.pinShards(first, end, e.To)
}

// pinShards pins a run of shards.
func (d *draft) pinShards(first, end int, to Constraint) error {
	placeable := false
	for _, g := range d.groups {
		placeable = placeable || !g.Draining && to.Allows(g.Labels)
	}
	// A pin that no group can meet is a typing error. Lifting a pin is always right.
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
	d.renumberPins(func(i int) Constraint {
		if first <= i && i < end {
			return to
		}
		return d.pins[d.shards[i].pin]
	})
	return nil
}

// renumberPins gives each shard its constraint, and numbers those in use anew.
func (d *draft) renumberPins(pinOf func(i int) Constraint) {
	pins, place := []Constraint{{}}, map[Constraint]uint32{{}: 0}
	for i := range d.shards {
		pin := pinOf(i)
		n, ok := place[pin]
		if !ok {
			n = uint32(len(pins))
			pins, place[pin] = append(pins, pin), n
		}
		d.editShard(i).pin = n
	}
	d.pins = pins
}

// AddGroup adds a group without shards.
type AddGroup struct {
	// ID is one that no group ever had, at least [Map.NextGroup]. 0 takes that.
	ID     GroupID
	Labels Labels
}

// String is the edit in errors and reports.
func (e AddGroup) String() string {
	if e.ID == 0 {
		return fmt.Sprintf("add group %q", e.Labels)
	}
	return fmt.Sprintf("add %v %q", e.ID, e.Labels)
}

func (e AddGroup) apply(d *draft) error {
	id := cmp.Or(e.ID, d.nextGroup)
	switch {
	case id < d.nextGroup:
		return fmt.Errorf("%w: %v: use %v or above", ErrGroupID, id, d.nextGroup)
	case id >= maxNumber:
		return fmt.Errorf("%w: %v is no id", ErrLimit, id)
	case len(d.groups) >= MaxGroups:
		return fmt.Errorf("%w: %d groups already", ErrLimit, len(d.groups))
	}
	d.groups = append(d.editGroups(), Group{ID: id, Labels: e.Labels})
	d.nextGroup = id + 1
	return nil
}

// SetDraining starts to drain a group, or stops it. The shards stay until they
// are moved.
type SetDraining struct {
	Group    GroupID
	Draining bool
}

// String is the edit in errors and reports.
func (e SetDraining) String() string {
	if e.Draining {
		return fmt.Sprintf("drain %v", e.Group)
	}
	return fmt.Sprintf("stop draining %v", e.Group)
}

func (e SetDraining) apply(d *draft) error {
	i, err := d.findGroup(e.Group)
	if err != nil {
		return err
	}
	switch {
	case d.groups[i].Draining && e.Draining:
		return fmt.Errorf("%w: %v is draining", ErrNoChange, e.Group)
	case !d.groups[i].Draining && !e.Draining:
		return fmt.Errorf("%w: %v is not draining", ErrNoChange, e.Group)
	}
	d.editGroups()[i].Draining = e.Draining
	return nil
}

// RemoveGroup removes a group that has no shards. Its id is gone for ever.
type RemoveGroup struct{ Group GroupID }

// String is the edit in errors and reports.
func (e RemoveGroup) String() string { return fmt.Sprintf("remove %v", e.Group) }

func (e RemoveGroup) apply(d *draft) error {
	i, err := d.findGroup(e.Group)
	if err != nil {
		return err
	}
	for s := range d.Owned(e.Group) {
		return fmt.Errorf("%w: %v has %v: move it first", ErrInUse, e.Group, s.ID)
	}
	d.groups = slices.Delete(d.editGroups(), i, i+1)
	return nil
}
