package mover

import (
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
	v.Map = apply(t, v.Map, partition.SetDraining{Group: 4, Draining: true}, partition.Assign{Shard: 4, To: 1})
	for name, c := range map[string]struct {
		jobs []Job
		want Phase
	}{
		"rows that come":                 {[]Job{in}, Surveying},
		"rows that are left":             {[]Job{out}, Surveying},
		"a move between two others":      {[]Job{elsewhere}, Retiring},
		"nothing":                        {nil, Retiring},
		"moves that have come to an end": {[]Job{ended(in), ended(out)}, Retiring},
	} {
		v.Jobs = c.jobs
		if next, _ := Step(j, Surveyed{Round: j.Round, View: v}, 1); next.Phase != c.want {
			t.Errorf("%s: it is %v, want %v", name, next.Phase, c.want)
		}
	}
}

func ended(j Job) Job {
	j.Phase = Done
	return j
}
