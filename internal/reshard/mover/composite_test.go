package mover

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/partition"
)

// A move that began before its destination was marked, and one whose source has
// rows to remove, need their groups although the map gives those no shard.
func TestAGroupIsNotRemovedWhileAJobNeedsIt(t *testing.T) {
	v := fourShards(t)
	in, err := Admit(v, Request{Kind: Move, Shard: 1, To: 4}, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	out, err := Admit(v, Request{Kind: Move, Shard: 4, To: 1}, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	out.Phase = Dropping
	j, err := Admit(v, Request{Kind: Regroup, Groups: 3}, 3, 0)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := Admit(v, Request{Kind: Move, Shard: 2, To: 3}, 4, 0)
	if err != nil {
		t.Fatal(err)
	}
	j.Phase = Surveying
	v.Map = applyEdits(t, v.Map, partition.SetDraining{Group: 4, Draining: true}, partition.Assign{Shard: 4, To: 1})
	for name, c := range map[string]struct {
		jobs []Job
		want Phase
	}{
		"rows that come":                 {[]Job{in}, Surveying},
		"rows that are left":             {[]Job{out}, Surveying},
		"a move between two others":      {[]Job{elsewhere}, Retiring},
		"nothing":                        {nil, Retiring},
		"moves that have come to an end": {[]Job{withPhaseDone(in), withPhaseDone(out)}, Retiring},
	} {
		v.Jobs = c.jobs
		if next, _ := Step(j, Surveyed{Round: j.Round, View: v}, 1); next.Phase != c.want {
			t.Errorf("%s: it is %v, want %v", name, next.Phase, c.want)
		}
	}
}

// A group that another job has drained before drains on, whenever the job that found it so is
// cancelled, and whichever driver goes on with it then.
func TestACancelledJobTakesBackItsOwnMarksOnly(t *testing.T) {
	v := fourShards(t)
	v.Map = applyEdits(t, v.Map, partition.SetDraining{Group: 4, Draining: true}, partition.Assign{Shard: 4, To: 1})
	regroup := Request{Kind: Regroup, Groups: 2}
	for name, c := range map[string]struct {
		request Request
		at      Phase
		before  []partition.Edit
	}{
		"while it marks":                   {regroup, Marking, nil},
		"when it has marked":               {regroup, Surveying, nil},
		"when it has found all of them so": {regroup, Surveying, []partition.Edit{partition.SetDraining{Group: 3, Draining: true}}},
		"when nobody had drained any":      {regroup, Surveying, []partition.Edit{partition.SetDraining{Group: 4}}},
		"a drain":                          {Request{Kind: Drain, Group: 3}, Surveying, nil},
	} {
		v := v
		if len(c.before) > 0 {
			v.Map = applyEdits(t, v.Map, c.before...)
		}
		want := v.Map.Groups()
		j, err := Admit(v, c.request, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		for j = decodeAgain(t, j); !j.Phase.IsFinal(); j = decodeAgain(t, j) {
			if j.Phase == c.at && !j.Undo {
				j, _, err = Cancel(j, 1)
			} else if e, ok := PendingEffects(j)[0].(DecideJob); ok {
				j, v.Map, _, err = Decide(j, e, v.Map, 1)
			} else {
				j, _ = Step(j, Surveyed{Round: j.Round, View: v}, 1)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := v.Map.Groups(); j.Phase != RolledBack || !reflect.DeepEqual(got, want) {
			t.Errorf("cancelled %s: it is %v, and leaves %+v of %+v", name, j.Phase, got, want)
		}
	}
}

// A drain that was cancelled and does not end names the job that it waits for.
func TestACancelledJobSaysForWhomItWaits(t *testing.T) {
	v := fourShards(t)
	j, err := Admit(v, Request{Kind: Drain, Group: 4}, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	v.Map = applyEdits(t, v.Map, partition.SetDraining{Group: 4, Draining: true})
	move, err := Admit(v, Request{Kind: Move, Shard: 4, To: 1, Parent: 1}, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	other, err := Admit(v, Request{Kind: Move, Shard: 1, To: 2}, 3, 0)
	if err != nil {
		t.Fatal(err)
	}
	other.From, other.Paused = 4, true // it has nothing to do with the end
	j.Phase = Surveying
	if j, _, err = Cancel(j, 1); err != nil || j.Phase != Stopping {
		t.Fatalf("it is %v, %v", j.Phase, err)
	}
	move.Phase, move.Paused = Dropping, true
	resumed, undone, running := move, move, move
	resumed.Paused = false
	undone.Phase, undone.Undo = Copying, true
	running.Phase, running.Paused = Copying, false
	const waits = "cancelled; waits for job 2, which is paused: resume it"
	for i, c := range []struct {
		child Job
		why   string
		stops int
	}{
		{running, "cancelled", 1}, {move, waits, 0}, {resumed, "cancelled", 0}, {undone, waits, 0}, {move, waits, 0}, {withPhaseDone(move), "cancelled", 0},
	} {
		v.Jobs = []Job{other, c.child}
		var effects []Effect
		if j, effects = Step(j, Surveyed{Round: j.Round, View: v}, 1); j.Reason != c.why {
			t.Errorf("%d: why is %q, want %q", i, j.Reason, c.why)
		}
		stops := 0
		for _, e := range effects {
			if e, ok := e.(CancelJob); ok && e.Job == 2 {
				stops++
			}
		}
		if stops != c.stops {
			t.Errorf("%d: %d are stopped, want %d", i, stops, c.stops)
		}
	}
	if j.Phase != Unmarking {
		t.Errorf("it is %v, want %v", j.Phase, Unmarking)
	}
}

// decodeAgain is a job as another driver finds it after a crash.
func decodeAgain(t *testing.T, j Job) Job {
	t.Helper()
	read, err := DecodeRecord(j.AppendRecord(nil))
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func withPhaseDone(j Job) Job {
	j.Phase = Done
	return j
}

// While a store has failed, nothing is asked for that it would have to take or give. The part
// that is left because of that has that as its reason, and goes on when the store is open again.
func TestAStoreThatHasFailedIsLeftOut(t *testing.T) {
	broken := errors.New("the disk is broken")
	v := fourShards(t)
	v.SplitPoint = func(s partition.Shard) (partition.Position, *partition.Keyspace, bool) {
		return positionOf("aa"), &testKeyspace, s.ID == 1
	}
	fails := func(v ClusterState, groups ...partition.GroupID) ClusterState {
		v.StoreErr = func(g partition.GroupID) error {
			if slices.Contains(groups, g) {
				return broken
			}
			return nil
		}
		return v
	}
	for name, c := range map[string]struct {
		request Request
		failed  []partition.GroupID
		want    []Request
		stands  bool
	}{
		"it would take most":   {Request{Kind: Drain, Group: 1}, []partition.GroupID{2, 3}, []Request{{Kind: Move, Shard: 1, To: 4}}, false},
		"it would give":        {Request{Kind: Drain, Group: 1}, []partition.GroupID{1}, nil, true},
		"nobody else takes":    {Request{Kind: Drain, Group: 1}, []partition.GroupID{2, 3, 4}, nil, true},
		"of two it gives one":  {Request{Kind: Regroup, Groups: 2}, []partition.GroupID{3}, []Request{{Kind: Move, Shard: 4, To: 2}}, false},
		"it was to be filled":  {Request{Kind: Regroup, Groups: 5, Labels: make([]partition.Labels, 1)}, []partition.GroupID{5}, nil, true},
		"it would fill others": {Request{Kind: Regroup, Groups: 5, Labels: make([]partition.Labels, 1)}, []partition.GroupID{1, 2, 3, 4}, nil, true},
		"it has some of the boundaries": {
			Request{Kind: PreSplit, In: &testKeyspace, At: []partition.Position{positionOf("aa"), positionOf("bb")}}, []partition.GroupID{2},
			[]Request{{Kind: Split, Shard: 1}}, false,
		},
		"it has all boundaries": {Request{Kind: PreSplit, In: &testKeyspace, At: []partition.Position{positionOf("bb")}}, []partition.GroupID{2}, nil, true},
	} {
		v := v
		j, err := Admit(v, c.request, 1, 0)
		for err == nil && j.Phase != Surveying {
			if e, ok := PendingEffects(j)[0].(DecideJob); ok {
				j, v.Map, _, err = Decide(j, e, v.Map, 1)
			} else {
				j, _ = Step(j, Acknowledged{Round: j.Round}, 1)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		j.Parallel = 8
		next, effects := Step(j, Surveyed{Round: j.Round, View: fails(v, c.failed...)}, 1)
		var got []Request
		for _, x := range effects {
			r := x.(StartJob).Request
			got = append(got, Request{Kind: r.Kind, Shard: r.Shard, To: r.To})
		}
		if !reflect.DeepEqual(got, c.want) || next.Phase != Surveying {
			t.Errorf("%s: it asks for %v, and is %v; want %v", name, got, next.Phase, c.want)
		}
		if strings.Contains(next.Reason, broken.Error()) != c.stands {
			t.Errorf("%s: the reason is %q", name, next.Reason)
		}
		if next, effects = Step(next, Surveyed{Round: next.Round, View: v}, 2); len(effects) == 0 {
			t.Errorf("%s: nothing is asked for when it is open again; it is %v", name, next.Phase)
		}
		if c.stands {
			if _, err := Admit(fails(v, c.failed...), c.request, 2, 0); c.request.Kind != Regroup && err == nil {
				t.Errorf("%s: it is admitted all the same", name)
			}
		}
	}
}
