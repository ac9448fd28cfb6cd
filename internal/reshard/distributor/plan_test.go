package distributor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/partition"
)

// A zipf law over a hash keyspace: the busiest group comes down to what its hottest key needs.
func TestPlanner_ZipfLoad_IsSpread(t *testing.T) {
	w := newWorld(t, Knobs{}, 4, 4, 4096)
	w.noise = 0.1
	w.setZipf(1.2, 2.4)
	w.sumWork()
	before, _ := w.imbalance()
	w.run(2 * time.Minute)
	toMean, toKey := w.imbalance()
	if toMean > 1.3 && toKey > 1.1 {
		t.Errorf("after two minutes the busiest group has %.2f of the mean and %.2f of the hottest key; before it was %.2f\n%s", toMean, toKey, before, strings.Join(w.log, "\n"))
	}
	w.run(10 * time.Minute)
	w.expectQuiet()
}

// Warm neighbours in one shard of a range keyspace are spread over all groups.
func TestPlanner_WarmNeighbours_AreSplitAndSpread(t *testing.T) {
	w := newWorld(t, Knobs{}, 4, 1, 4000)
	for i := range 500 { // all in the first shard
		w.work[i] = 1.6 / 500
	}
	w.run(3 * time.Minute)
	if toMean, _ := w.imbalance(); toMean > 1.3 {
		t.Errorf("after three minutes the busiest group has %.2f of the mean\n%s", toMean, strings.Join(w.log, "\n"))
	}
	if w.actions[Split] == 0 || w.actions[Split] > 8 {
		t.Errorf("%d splits\n%s", w.actions[Split], strings.Join(w.log, "\n"))
	}
	w.run(10 * time.Minute)
	w.expectQuiet()
}

// One key that has all the work is named, and its shard is not split again and again.
func TestPlanner_OneKey_IsNamed(t *testing.T) {
	w := newWorld(t, Knobs{}, 4, 4, 4096)
	w.work[700] = 0.9
	w.run(time.Minute)
	if w.reasons[OneKey] == 0 || w.actions[Split]+w.actions[Move] > 1 {
		t.Errorf("proposals %v\n%s", w.reasons, strings.Join(w.log, "\n"))
	}
	w.expectQuiet()
}

// A shard whose writes come at its end is not split for load, and nothing of it is moved.
func TestPlanner_MovingEdge_IsNamed(t *testing.T) {
	w := newWorld(t, Knobs{}, 4, 1, 4000)
	w.isEdge = true
	// The edge moves through the last shard.
	for step := range 40 {
		clear(w.work)
		at := 3000 + step*20
		for i := range 20 {
			w.work[at+i] = 0.04
		}
		w.run(10 * time.Second)
	}
	if w.reasons[MovingEdge] == 0 || len(w.log) > 0 {
		t.Errorf("%d changes, reasons %v\n%s", len(w.log), w.reasons, strings.Join(w.log, "\n"))
	}
}

// A shard with an edge of which reads have most of the work is split a few times at most: they may move on as well.
func TestPlanner_EdgeWithReads_IsNotSplitForEver(t *testing.T) {
	w := newWorld(t, Knobs{}, 4, 1, 4000)
	w.isEdge, w.edgeWork = true, 0.4
	for step := range 40 {
		clear(w.work)
		at := 3000 + step*20
		for i := range 20 {
			w.work[at+i] = 0.04
		}
		w.run(10 * time.Second)
	}
	if n := w.actions[Split]; w.reasons[MovingEdge] == 0 || n == 0 || n > 3 {
		t.Errorf("%d splits, reasons %v\n%s", n, w.reasons, strings.Join(w.log, "\n"))
	}
}

// What a moving edge leaves behind are full shards: there are as many splits as that takes, and no more.
func TestPlanner_MovingEdge_LeavesFullShardsBehind(t *testing.T) {
	const largest, rowBytes, seconds = 40_000_000, 500_000, 600
	for _, c := range []struct{ perSecond, maxPieces, splits int }{ // up to a quarter of a shard in a second
		{1, 4, 2}, {4, 4, 2}, {20, 4, 2}, {4, 2, 1}, {4, 3, 1}, {4, 16, 2},
	} {
		perSecond := c.perSecond
		w := newWorld(t, Knobs{MaxShardBytes: largest, MaxPieces: c.maxPieces}, 2, 1, seconds*perSecond+1)
		w.size, w.isEdge, w.filled = rowBytes, true, 1
		w.shards[0].end, w.shards[1].start = 1, 1 // all keys come in the last shard
		for range seconds {
			clear(w.work)
			for i := range perSecond {
				w.work[w.filled+i] = 0.8 / float64(perSecond)
			}
			w.filled += perSecond
			w.run(time.Second)
		}
		written := seconds * perSecond * rowBytes
		if most := written/(c.splits*largest*3/4) + 1; w.actions[Split] > most || w.actions[Move]+w.actions[Merge] > 0 {
			t.Errorf("%d splits for %d MB, want %d at most, of up to %d pieces, and %d other changes\n%s", w.actions[Split], written/1e6, most, c.maxPieces, len(w.log)-w.actions[Split], strings.Join(w.log, "\n"))
		}
		behind := w.shards[1 : len(w.shards)-1]
		for _, s := range behind {
			if size := w.bytesOf(&s); size < largest*3/4 || size > largest {
				t.Errorf("a shard of %d MB is left behind, want 30 to 40", size/1e6)
			}
		}
		if len(behind) == 0 && written > 4*largest {
			t.Errorf("%d MB are in one shard", written/1e6)
		}
	}
}

// When all is quiet again, the map has as many shards as it began with.
func TestPlanner_QuietAgain_MergesBack(t *testing.T) {
	w := newWorld(t, Knobs{}, 4, 4, 4096)
	w.setZipf(1.1, 2.4)
	w.run(5 * time.Minute)
	if len(w.shards) == 16 {
		t.Fatalf("nothing was split: %s", strings.Join(w.log, "\n"))
	}
	clear(w.work)
	w.run(30 * time.Minute)
	if len(w.shards) != 16 {
		t.Errorf("%d shards are left of 16\n%s", len(w.shards), strings.Join(w.log, "\n"))
	}
	w.expectQuiet()
}

// What others have split stays split, however cold it is.
func TestPlanner_SplitsOfOthers_AreKept(t *testing.T) {
	w := newWorld(t, Knobs{}, 2, 32, 4096)
	w.expectQuiet()
	if len(w.shards) != 64 || w.reasons[Even] == 0 {
		t.Errorf("%d shards are left of 64, reasons %v", len(w.shards), w.reasons)
	}
}

// Large shards are split until none is too large, and no piece is smaller than half of the least.
func TestPlanner_LargeShards_AreSplit(t *testing.T) {
	w := newWorld(t, Knobs{}, 2, 1, 4096)
	w.size = 200_000 // 410 MB each
	w.run(10 * time.Minute)
	for _, s := range w.shards {
		if size := int64(s.end-s.start) * w.size; size > MaxShardBytes(4096*w.size) || size < 5e6 {
			t.Errorf("a shard has %d bytes", size)
		}
	}
	w.expectQuiet()
}

func TestMaxShardBytes_FollowsTheFormula(t *testing.T) {
	for _, c := range []struct{ all, want int64 }{{0, 40e6}, {1e9, 45_692_099}, {100e9, 96_920_997}, {1e12, 220e6}, {7e12, 500e6}} {
		if got := MaxShardBytes(c.all); got != c.want {
			t.Errorf("of %d bytes: %d, want %d", c.all, got, c.want)
		}
	}
}

// A change that does not help is not tried again at once.
func TestPlanner_WhatDidNotHelp_IsHeld(t *testing.T) {
	p, err := NewPlanner(Knobs{})
	if err != nil {
		t.Fatal(err)
	}
	// Whatever leaves the first group, the rest of it gets as busy: its clients ask for more.
	id := partition.ShardID(10)
	moves := 0
	for second := range 600 {
		v := Situation{Now: time.Duration(second) * time.Second}
		for g := range partition.GroupID(3) {
			v.Groups = append(v.Groups, GroupState{Group: partition.Group{ID: g + 1}, Capacity: 1})
		}
		for i := range 4 {
			v.Shards = append(v.Shards, Shard{Shard: partition.Shard{ID: id + partition.ShardID(i), Group: 1}, Keyspace: 1, Work: 0.25})
		}
		for _, d := range p.Step(v) {
			if d.Change == Move {
				moves++
				id++ // another shard takes its place
			}
		}
	}
	if moves > 16 {
		t.Errorf("%d moves in ten minutes, and none helped", moves)
	}
}

// A group that is held because a change did not help, and that is hot by one key meanwhile, is kept because of that key.
func TestPlanner_HeldGroup_NamesItsHotKey(t *testing.T) {
	p, err := NewPlanner(Knobs{})
	if err != nil {
		t.Fatal(err)
	}
	id, held := partition.ShardID(10), false
	for second := range 600 {
		v := Situation{Now: time.Duration(second) * time.Second}
		for g := range partition.GroupID(3) {
			v.Groups = append(v.Groups, GroupState{Group: partition.Group{ID: g + 1}, Capacity: 1})
		}
		for i := range 4 {
			v.Shards = append(v.Shards, Shard{Shard: partition.Shard{ID: id + partition.ShardID(i), Group: 1}, Keyspace: 1, Work: 0.25})
		}
		if held {
			v.Shards[2].Work, v.Shards[2].HotKeyShare, v.Shards[2].HotKey = 0.5, 0.9, []byte("stock")
		}
		for _, d := range p.Step(v) {
			switch {
			case held && (d.Change != Keep || d.Reason != OneKey || d.Shard != v.Shards[2].ID || string(d.Key) != "stock"):
				t.Fatalf("the proposal is %v with the key %q, want to keep %v because of its key", d, d.Key, v.Shards[2].ID)
			case held:
				return
			case d.Change == Move:
				id++ // another shard takes its place, and nothing has helped
			case d.Reason == DidNotHelp:
				held = true
			}
		}
	}
	t.Errorf("it ended without a proposal, held: %t", held)
}

func TestPlanner_KnobsThatContradict_AreRefused(t *testing.T) {
	for _, c := range []struct {
		knobs Knobs
		name  string
	}{
		{Knobs{ColdWork: 0.2}, "ColdWork"},
		{Knobs{Imbalance: 0.9}, "Imbalance"},
		{Knobs{MaxFraction: 0.8}, "MaxFraction"},
		{Knobs{MaxShardBytes: 15e6}, "MaxShardBytes"},
		{Knobs{Residence: time.Second}, "Residence"},
		{Knobs{MaxPieces: 1}, "MaxPieces"},
	} {
		if _, err := NewPlanner(c.knobs); err == nil || !strings.Contains(err.Error(), c.name) {
			t.Errorf("%+v: %v", c.knobs, err)
		}
	}
}

// Whatever an even load is, the planner ends: it does not move the same shards for ever, nor split and merge. And no
// group is left busier than the busiest was.
func TestPlanner_AnyLoad_Ends(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		groups := rapid.IntRange(1, 6).Draw(t, "groups")
		w := newWorld(t, Knobs{}, groups, rapid.IntRange(1, 4).Draw(t, "shards"), 512)
		w.step = 2 * time.Second
		w.noise = rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "noise")
		total := rapid.Float64Range(0.1, float64(groups)).Draw(t, "work")
		for range rapid.IntRange(1, 40).Draw(t, "keys") {
			w.work[rapid.IntRange(0, 511).Draw(t, "key")] += rapid.Float64Range(0.01, 1).Draw(t, "share")
		}
		for i, sum := 0, sumOf(w.work); i < len(w.work); i++ {
			w.work[i] *= total / sum
		}
		w.sumWork()
		before := slices.Max(w.loads())
		w.run(15 * time.Minute)
		actions := len(w.log)
		if after := slices.Max(w.loads()); after > before*1.05+0.05 {
			t.Errorf("the busiest group had %.2f, and has %.2f\n%s", before, after, strings.Join(w.log, "\n"))
		}
		w.run(20 * time.Minute)
		if more := len(w.log) - actions; more > 2 {
			t.Errorf("%d actions in the 20 minutes after the first 15\n%s", more, strings.Join(w.log, "\n"))
		}
	})
}

// A planner that begins anew with the pieces of the one before it merges them.
func TestPlanner_ResumedWithPieces_MergesBack(t *testing.T) {
	w := newWorld(t, Knobs{}, 4, 4, 4096)
	w.setZipf(1.1, 2.4)
	w.run(5 * time.Minute)
	pieces := w.planner.Pieces()
	if len(w.shards) <= 16 || len(pieces) != len(w.shards)-16 {
		t.Fatalf("%d shards, of which %d are pieces", len(w.shards), len(pieces))
	}
	w.setZipf(1.1, 0)
	for _, resumed := range [][]partition.ShardID{nil, pieces} {
		p, err := NewPlanner(Knobs{}, resumed...)
		if err != nil {
			t.Fatal(err)
		}
		w.planner = p
		w.run(20 * time.Minute)
		if merged := len(w.shards) == 16; merged != (resumed != nil) {
			t.Errorf("with %d pieces known there are %d shards", len(resumed), len(w.shards))
		}
	}
}

// What a clone plans leaves the planner as it is.
func TestPlanner_Clone_PlansAlikeAndApart(t *testing.T) {
	w := newWorld(t, Knobs{}, 4, 4, 4096)
	w.setZipf(1.1, 2.4)
	w.sumWork()
	for range 100 {
		v := w.view()
		v.Now += time.Hour // more than any Settle
		first := w.planner.Clone().Step(v)
		if again := w.planner.Clone().Step(v); !slices.EqualFunc(first, again, func(a, b Proposal) bool { return a.String() == b.String() }) {
			t.Fatalf("a second clone plans %v, the first %v", again, first)
		}
		w.run(time.Second)
	}
}
