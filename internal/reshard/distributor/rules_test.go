package distributor

import (
	"math"
	"testing"
	"time"

	"github.com/cleavekv/cleave/partition"
)

// ruleBench is a planner beside a few shards whose work a test sets.
type ruleBench struct {
	t *testing.T
	*Planner
	v Situation
}

// newRuleBench has groups that each have a shard of no work, with ids from 101 on, and a planner that has seen them for long.
func newRuleBench(t *testing.T, k Knobs, groups int, pieces ...partition.ShardID) *ruleBench {
	t.Helper()
	p, err := NewPlanner(k, pieces...)
	if err != nil {
		t.Fatal(err)
	}
	x := &ruleBench{t: t, Planner: p}
	for g := range partition.GroupID(groups) {
		x.v.Groups = append(x.v.Groups, GroupState{Group: partition.Group{ID: g + 1}, Capacity: 1})
		x.add(100+partition.ShardID(g+1), g+1, 1, 0)
	}
	x.Step(x.v)
	x.v.Now = time.Hour
	return x
}

func (x *ruleBench) add(id partition.ShardID, g partition.GroupID, k partition.KeyspaceID, work float64) *Shard {
	x.v.Shards = append(x.v.Shards, Shard{Shard: partition.Shard{ID: id, Group: g}, Keyspace: k, Work: work})
	return &x.v.Shards[len(x.v.Shards)-1]
}

// step plans some time after the step before, and returns the only proposal.
func (x *ruleBench) step(later time.Duration) Proposal {
	x.t.Helper()
	x.v.Now += later
	all := x.Step(x.v)
	if len(all) != 1 {
		x.t.Fatalf("want one proposal, got %v", all)
	}
	return all[0]
}

// Pieces are merged with their left neighbour if both belong to the same keyspace.
func TestPlanner_PiecesOfTwoKeyspaces_AreNotMerged(t *testing.T) {
	for _, other := range []bool{false, true} {
		x := newRuleBench(t, Knobs{}, 1, 2)
		x.v.Shards = nil
		x.add(1, 1, 1, 0)
		x.add(2, 1, 1, 0)
		if other {
			x.v.Shards[1].Keyspace = 2
		}
		x.step(0)
		if d := x.step(time.Hour); (d.Change == Merge) == other {
			t.Errorf("of two keyspaces %v: %v", other, d)
		}
	}
}

// After a change its group is left alone until the effect is seen, and then what is left is done.
func TestPlanner_AfterAChange_Settles(t *testing.T) {
	x := newRuleBench(t, Knobs{}, 3)
	for i := range partition.ShardID(4) {
		x.add(i+1, 1, 1, 0.2)
	}
	all := x.Step(x.v)
	if len(all) == 0 || all[0].Change != Move {
		t.Fatalf("%v", all)
	}
	// The shards that were moved have as much work where they are; the others have more than before.
	for _, d := range all {
		for i := range x.v.Shards {
			if s := &x.v.Shards[i]; s.ID == d.Shard {
				s.Group = d.To
			}
		}
	}
	for i := range x.v.Shards {
		if s := &x.v.Shards[i]; s.Group == 1 && s.ID < 100 {
			s.Work = 0.45
		}
	}
	if d := x.step(time.Second); d.Change != Keep || d.Reason != Settling {
		t.Errorf("a second later: %v", d)
	}
}

// A shard stays for a while where it was moved to, also if its new group becomes the busiest.
func TestPlanner_MovedShard_StaysForItsResidence(t *testing.T) {
	x := newRuleBench(t, Knobs{}, 3)
	x.add(1, 1, 1, 0.4)
	x.add(2, 1, 1, 0.4)
	d := x.Step(x.v)[0]
	if d.Change != Move {
		t.Fatal(d)
	}
	// The other shard has no work any longer, and the group of the moved one is the busiest: by a shard that is fixed.
	for i := range x.v.Shards {
		if s := &x.v.Shards[i]; s.ID == d.Shard {
			s.Group = d.To
		} else {
			s.Work = 0
		}
	}
	moved := d.Shard
	x.add(3, d.To, 1, 0.5).IsFixed = true
	x.v.Now += 30 * time.Second
	if d := x.Step(x.v)[0]; d.Change == Move {
		t.Errorf("within its residence: %v", d)
	}
	x.v.Now += time.Hour
	if d := x.Step(x.v)[0]; d.Change != Move || d.Shard != moved {
		t.Errorf("after its residence: %v", d)
	}
}

// What takes longer to copy than it saves is not moved.
func TestPlanner_LargeShard_IsMovedIfItPays(t *testing.T) {
	for _, c := range []struct {
		bytes int64
		moves bool
	}{{0, true}, {100e6, true}, {100e9, false}} {
		x := newRuleBench(t, Knobs{MaxShardBytes: 200e9}, 2)
		x.add(1, 1, 1, 0.3).Bytes = c.bytes
		x.add(2, 1, 1, 0.3).Bytes = c.bytes
		if d := x.step(0); (d.Change == Move) != c.moves {
			t.Errorf("%d bytes: %v", c.bytes, d)
		}
	}
}

// A group that is drained gets no shards, however little it does.
func TestPlanner_DrainingGroup_GetsNothing(t *testing.T) {
	x := newRuleBench(t, Knobs{}, 3)
	x.v.Groups[1].Draining = true
	x.v.Shards[2].Work = 0.1 // of the third
	for i := range partition.ShardID(3) {
		x.add(i+1, 1, 1, 0.2)
	}
	if d := x.step(0); d.Change != Move || d.To != 3 {
		t.Errorf("%v", d)
	}
}

// A shard that must stay where it is does so.
func TestPlanner_FixedShard_Stays(t *testing.T) {
	x := newRuleBench(t, Knobs{}, 2)
	x.add(1, 1, 1, 0.3).IsFixed = true
	x.add(2, 1, 1, 0.3).IsFixed = true
	if d := x.step(0); d.Change != Keep {
		t.Errorf("%v", d)
	}
}

// The forecast is the work by the work below which pieces are merged.
func TestPlanner_ExtraShards_AreWorkByTheLeast(t *testing.T) {
	x := newRuleBench(t, Knobs{ColdWork: 0.01}, 2)
	if n := x.ExtraShards(x.v); n != 0 {
		t.Errorf("without load: %d", n)
	}
	x.add(1, 1, 1, 0.3)
	x.add(2, 2, 1, 0.255)
	if n := x.ExtraShards(x.v); n != 55 {
		t.Errorf("a work of 0.555 by 0.01: %d", n)
	}
}

// While it is not known whether writes come in the order of time nothing is done about the shard that gets them.
func TestPlanner_NewlyBusyShard_IsLeftAloneUntilItsEdgeIsKnown(t *testing.T) {
	x := newRuleBench(t, Knobs{}, 2)
	x.add(1, 1, 1, 0.4)
	s := x.add(2, 1, 1, 0.5)
	s.Cuts = []SplitPoint{{At: partition.Position("m"), Bytes: 0.5, Work: 0.5}}
	s.IsNew = true
	if d := x.step(0); d.Change != Keep || d.Reason != Undecided {
		t.Errorf("while it is not known: %v", d)
	}
	s.IsNew = false
	if d := x.step(time.Second); d.Change != Move {
		t.Errorf("when it is known: %v", d)
	}
}

// A cut divides what is read of a shard with a moving edge, and not what comes at the edge.
func TestPlanner_Edge_IsSplitForItsReads(t *testing.T) {
	for _, c := range []struct {
		edgeWork float64
		splits   bool
	}{{0, true}, {0.3, true}, {0.9, false}} {
		x := newRuleBench(t, Knobs{}, 2)
		s := x.add(1, 1, 1, 0.8)
		s.IsEdge, s.EdgeWork = true, c.edgeWork
		s.Cuts = []SplitPoint{{At: partition.Position("m"), Bytes: 0.5, Work: 0.5}}
		d := x.step(0)
		if (d.Change == Split) != c.splits || !c.splits && d.Reason != MovingEdge {
			t.Errorf("%v of its work at the edge: %v", c.edgeWork, d)
		}
		if want := 0.8 - 0.4*(1-c.edgeWork); c.splits && math.Abs(d.After-want) > 1e-9 {
			t.Errorf("%v of its work at the edge: predicted %v, want %v", c.edgeWork, d.After, want)
		}
	}
}

// The verdict on moves is said once, when rates have settled.
func TestPlanner_Helped_IsSaidOnce(t *testing.T) {
	for _, helped := range []bool{true, false} {
		x := newRuleBench(t, Knobs{}, 2)
		x.add(1, 1, 1, 0.4)
		x.add(2, 1, 1, 0.4)
		d := x.step(0)
		if d.Change != Move || !x.IsJudging(1) {
			t.Fatal(d)
		}
		for i := range x.v.Shards {
			switch s := &x.v.Shards[i]; {
			case s.ID == d.Shard:
				if s.Group = d.To; !helped {
					s.Work = 0
				}
			case s.Group == 1 && !helped:
				s.Work = 0.8
			}
		}
		x.step(time.Second)
		if _, judged := x.Helped(1); judged {
			t.Error("it is judged at once")
		}
		x.v.Now += 10 * time.Second
		x.Step(x.v)
		if got, judged := x.Helped(1); !judged || got != helped || x.IsJudging(1) {
			t.Errorf("helped %v, want %v; judged %v", got, helped, judged)
		}
		x.v.Now += time.Second
		x.Step(x.v)
		if _, judged := x.Helped(1); judged {
			t.Error("it is judged again")
		}
	}
}
