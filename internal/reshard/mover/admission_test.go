package mover

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// fourShards is a map of four groups with a shard each, two to a store.
func fourShards(t *testing.T) ClusterState {
	m, err := partition.NewMap(make([]partition.Group, 4), &testKeyspace, positionOf("b"), positionOf("c"), positionOf("d"))
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[partition.ShardID]Size{1: {100, 4 << 20, 8}, 2: {10, 1 << 20, 1}, 3: {10, 1 << 20, 1}, 4: {20, 2 << 20, 2}}
	return ClusterState{
		Map:       m,
		HomeStore: func(g partition.GroupID) uint64 { return uint64(g-1) / 2 },
		ShardSize: func(id partition.ShardID) Size { return sizes[id] },
	}
}

func applyEdits(t *testing.T, m *partition.Map, edits ...partition.Edit) *partition.Map {
	next, err := m.Apply(edits...)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func TestWhatCannotBeDoneIsRefusedBeforeAnythingChanges(t *testing.T) {
	v := fourShards(t)
	drained, one := v, v
	drained.Map = applyEdits(t, v.Map, partition.SetDraining{Group: 3, Draining: true})
	var err error
	one.Map, err = partition.NewMap(make([]partition.Group, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	busy := v
	moving, err := Admit(v, Request{Kind: Move, Shard: 2, To: 3}, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	draining, err := Admit(v, Request{Kind: Drain, Group: 1}, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	regrouping, err := Admit(v, Request{Kind: Regroup, Groups: 3}, 3, 0)
	if err != nil {
		t.Fatal(err)
	}
	busy.Jobs = []Job{moving, draining, regrouping}
	for name, c := range map[string]struct {
		v    ClusterState
		r    Request
		want error
	}{
		"a split at the start of the shard":   {v, Request{Kind: Split, Shard: 2, In: &testKeyspace, At: []partition.Position{positionOf("b")}}, partition.ErrBoundary},
		"a split at its end":                  {v, Request{Kind: Split, Shard: 2, In: &testKeyspace, At: []partition.Position{positionOf("c")}}, partition.ErrBoundary},
		"a split outside":                     {v, Request{Kind: Split, Shard: 2, In: &testKeyspace, At: []partition.Position{positionOf("x")}}, partition.ErrBoundary},
		"a split among elements of a key":     {v, Request{Kind: Split, Shard: 2, In: &testKeyspace, At: []partition.Position{append(positionOf("b1"), 1)}}, partition.ErrCut},
		"a split at nothing":                  {v, Request{Kind: Split, Shard: 2}, partition.ErrNoChange},
		"a split of a shard that has changed": {v, Request{Kind: Split, Shard: 2, In: &testKeyspace, At: []partition.Position{positionOf("b1")}, Expect: 9}, partition.ErrStale},
		"a split of no shard":                 {v, Request{Kind: Split, Shard: 99}, partition.ErrUnknownShard},
		"a pre-split out of order":            {v, Request{Kind: PreSplit, In: &testKeyspace, At: []partition.Position{positionOf("b2"), positionOf("a2")}}, partition.ErrBoundary},
		"a pre-split where shards begin":      {v, Request{Kind: PreSplit, In: &testKeyspace, At: []partition.Position{positionOf("b")}}, partition.ErrNoChange},
		"a pre-split inside a key":            {v, Request{Kind: PreSplit, In: &testKeyspace, At: []partition.Position{append(positionOf("b1"), 1)}}, partition.ErrCut},
		"a pre-split of a busy shard":         {busy, Request{Kind: PreSplit, In: &testKeyspace, At: []partition.Position{positionOf("b1")}}, ErrBusy},
		"a merge of distant shards":           {v, Request{Kind: Merge, Shard: 1, Right: 3}, partition.ErrNotNeighbours},
		"a merge of two groups' shards":       {v, Request{Kind: Merge, Shard: 1, Right: 2}, partition.ErrDifferent},
		"a merge with itself":                 {v, Request{Kind: Merge, Shard: 1, Right: 1}, partition.ErrNotNeighbours},
		"a move to no group":                  {v, Request{Kind: Move, Shard: 1, To: 9}, partition.ErrUnknownGroup},
		"a move to where it is":               {v, Request{Kind: Move, Shard: 1, To: 1}, partition.ErrNoChange},
		"a move to a group that drains":       {drained, Request{Kind: Move, Shard: 1, To: 3}, partition.ErrDraining},
		"a move of a shard that is moved":     {busy, Request{Kind: Move, Shard: 2, To: 4}, ErrBusy},
		"a split of a shard that is moved":    {busy, Request{Kind: Split, Shard: 2, In: &testKeyspace, At: []partition.Position{positionOf("b1")}}, ErrBusy},
		"a drain of no group":                 {v, Request{Kind: Drain, Group: 9}, partition.ErrUnknownGroup},
		"a second drain":                      {busy, Request{Kind: Drain, Group: 1}, ErrBusy},
		"a drain of the only group":           {one, Request{Kind: Drain, Group: 1}, ErrNowhere},
		"an undrain of no group":              {v, Request{Kind: Undrain, Group: 9}, partition.ErrUnknownGroup},
		"an undrain of a group in use":        {v, Request{Kind: Undrain, Group: 3}, partition.ErrNoChange},
		"an undrain while it is drained":      {busy, Request{Kind: Undrain, Group: 1}, ErrBusy},
		"as many groups as there are":         {v, Request{Kind: Regroup, Groups: 4}, partition.ErrNoChange},
		"no groups":                           {v, Request{Kind: Regroup}, ErrBadRequest},
		"groups without labels":               {v, Request{Kind: Regroup, Groups: 6}, ErrBadRequest},
		"a second change of the number":       {busy, Request{Kind: Regroup, Groups: 5, Labels: make([]partition.Labels, 1)}, ErrBusy},
		"a throttle that stops":               {v, Request{Kind: Move, Shard: 1, To: 3, Throttle: 1}, ErrBadRequest},
		"too much at once":                    {v, Request{Kind: Drain, Group: 1, Parallel: 1000}, ErrBadRequest},
		"nothing":                             {v, Request{}, ErrBadRequest},
	} {
		before := c.v.Map.Append(nil)
		j, err := Admit(c.v, c.r, 9, 0)
		if !errors.Is(err, c.want) || !reflect.DeepEqual(j, Job{}) {
			t.Errorf("%s: %v, not %v", name, err, c.want)
		}
		if p, err := Plan(c.v, c.r, Rates{}); !errors.Is(err, c.want) || p != (Price{}) {
			t.Errorf("%s is priced: %+v, %v", name, p, err)
		}
		if string(before) != string(c.v.Map.Append(nil)) {
			t.Errorf("%s changes the map", name)
		}
	}
	var who *BusyError
	if _, err := Admit(busy, Request{Kind: Move, Shard: 2, To: 4}, 9, 0); !errors.As(err, &who) || who.Job != 1 {
		t.Errorf("the job in the way is not named: %v", err)
	}
}

func TestAShardWithAPinIsNotMovedOrDrainedToWhereItMayNotBe(t *testing.T) {
	v := fourShards(t)
	eu, _ := partition.ParseLabels("zone=eu")
	pin, _ := partition.ParseConstraint("zone=eu")
	v.Map = applyEdits(t, v.Map, partition.AddGroup{Labels: eu}, partition.Pin{Shard: 1, To: pin}, partition.Assign{Shard: 1, To: 5})
	if _, err := Admit(v, Request{Kind: Move, Shard: 1, To: 2}, 1, 0); !errors.Is(err, partition.ErrPinned) {
		t.Errorf("a move: %v", err)
	}
	if _, err := Admit(v, Request{Kind: Drain, Group: 5}, 1, 0); !errors.Is(err, ErrNowhere) {
		t.Errorf("a drain: %v", err)
	}
}

func TestAPlanSaysWhatAJobCarriesAndHowEvenItLeavesThings(t *testing.T) {
	v := fourShards(t)
	for name, c := range map[string]struct {
		r    Request
		want Price
	}{
		"a split carries nothing": {
			Request{Kind: Split, Shard: 1, In: &testKeyspace, At: []partition.Position{positionOf("a1")}},
			Price{DurationMS: 8, Before: Skew{2, 8 * 4.0 / 12}, After: Skew{2, 8 * 4.0 / 12}},
		},
		"a move on one store neither": {
			Request{Kind: Move, Shard: 4, To: 3},
			Price{Moves: 1, DurationMS: 16, Before: Skew{2, 8 * 4.0 / 12}, After: Skew{2, 8 * 4.0 / 12}},
		},
		"a move to another store carries the shard": {
			Request{Kind: Move, Shard: 1, To: 3, Throttle: 1 << 20},
			Price{Rows: 100, Bytes: 4 << 20, Moves: 1, DurationMS: 8 + 36 + 4000, PauseMS: 12, Before: Skew{2, 8 * 4.0 / 12}, After: Skew{2.5, 9 * 4.0 / 12}},
		},
		"a drain carries all of the group's": {
			Request{Kind: Drain, Group: 4},
			Price{Moves: 1, Rows: 20, Bytes: 2 << 20, DurationMS: 8 + 36 + 20, PauseMS: 12, Before: Skew{2, 8 * 4.0 / 12}, After: Skew{1.5, 2}},
		},
	} {
		got, err := Plan(v, c.r, Rates{})
		if err != nil || got != c.want {
			t.Errorf("%s: %v\n%+v\n%+v", name, err, got, c.want)
		}
	}
}

func TestGroupsThatAreAddedTakeTheirShare(t *testing.T) {
	v := fourShards(t)
	var at8 []partition.Position
	for _, k := range []string{"a1", "a2", "a3"} {
		at8 = append(at8, positionOf(k))
	}
	v.Map = applyEdits(t, v.Map, partition.Split{Shard: 1, In: &testKeyspace, At: at8})
	v.ShardSize = func(partition.ShardID) Size { return Size{Bytes: 1 << 20} }
	p, err := Plan(v, Request{Kind: Regroup, Groups: 5, Labels: make([]partition.Labels, 1)}, Rates{})
	if err != nil || p.Moves != 1 && p.Moves != 2 || p.After.Bytes >= p.Before.Bytes {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestAJobThatIsDecidedOrHasEndedCannotBeTakenBack(t *testing.T) {
	for p := range phaseNames {
		j := Job{ID: 1, Kind: Move, Phase: p, Rev: 5, Freezes: 1, Attempt: 1, SourceRanges: []ownership.Range{{State: ownership.Serving}}}
		if p >= Marking && !p.IsFinal() {
			j.Kind = Drain
		}
		next, effects, err := Cancel(j, 10)
		switch {
		case p.IsFinal():
			if !errors.Is(err, ErrJobEnded) || next.Rev != 5 || len(effects) > 0 {
				t.Errorf("%v: %v", p, err)
			}
		case p.isDecided() || p == Removing:
			if !errors.Is(err, ErrTooLate) || next.Rev != 5 || len(effects) > 0 {
				t.Errorf("%v: %v", p, err)
			}
		default:
			if err != nil || !next.Undo || next.Rev != 6 || next.IsDecided() {
				t.Errorf("%v: becomes %v, %v", p, next.Phase, err)
			}
		}
	}
}

// A shard that is fixed keeps its span and its group, whatever is asked for.
func TestAFixedShardStaysAsItIs(t *testing.T) {
	space := partition.Keyspace{ID: 1, Name: "k", Kind: partition.Range}
	at := func(key string) partition.Position { return space.AppendPosition(nil, []byte(key)) }
	m, err := partition.NewMap([]partition.Group{{ID: 1}, {ID: 2}}, &space, at("c"), at("m"), at("t"))
	if err != nil {
		t.Fatal(err)
	}
	fixed := m.Find(at("a")).ID
	v := ClusterState{Map: m, IsFixed: func(s partition.Shard) bool { return s.ID == fixed }}
	right := m.Find(at("d")).ID
	for _, r := range []Request{
		{Kind: Split, Shard: fixed, In: &space, At: []partition.Position{at("b")}},
		{Kind: PreSplit, In: &space, At: []partition.Position{at("b")}},
		{Kind: Merge, Shard: fixed, Right: right},
		{Kind: Move, Shard: fixed, To: 2},
		{Kind: Drain, Group: 1},
	} {
		if _, err := Admit(v, r, 7, 1); !errors.Is(err, ErrFixedShard) {
			t.Errorf("%v: %v", r.Kind, err)
		}
	}
	grow := Request{Kind: Regroup, Groups: 4, Labels: make([]partition.Labels, 2)}
	j, err := Admit(v, grow, 7, 1)
	if err != nil {
		t.Fatal(err)
	}
	_, moves, err := j.planSteps(v)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range moves {
		if r.Shard == fixed {
			t.Error("a new group is filled with the fixed shard")
		}
	}
}

// Splits that the map would take one by one, and not all of them, are refused together.
func TestAPreSplitThatIsTooLargeAsAWholeIsRefused(t *testing.T) {
	v := fourShards(t)
	var cuts []partition.Position
	for _, first := range []string{"a", "b"} {
		for i := range partition.MaxBoundariesBytes / partition.MaxBoundaryBytes * 3 / 5 {
			cuts = append(cuts, positionOf(fmt.Sprintf("%s%04d%s", first, i, strings.Repeat("x", 32<<10))))
		}
	}
	r := Request{Kind: PreSplit, In: &testKeyspace, At: cuts}
	if _, err := Admit(v, r, 1, 0); !errors.Is(err, partition.ErrLimit) {
		t.Errorf("%v, want ErrLimit", err)
	}
}
