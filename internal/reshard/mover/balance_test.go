package mover

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// testMap is a map whose shards have as many bytes as their positions are long: the first two
// bytes of a key are where it is.
type testMap struct {
	m    *partition.Map
	jobs []Job
}

func positionAt(n int) partition.Position {
	return testKeyspace.AppendPosition(nil, binary.BigEndian.AppendUint16(nil, uint16(n)))
}

// spanEnds returns where a span lies.
func spanEnds(s partition.Span) (from, to int) {
	to = 1 << 16
	for n, p := range map[*int]partition.Position{&from: s.Start, &to: s.End} {
		if len(p) > 0 {
			key, _, err := testKeyspace.Split(nil, p)
			if err != nil || len(key) != 2 {
				panic(fmt.Sprint(p, key, err))
			}
			*n = int(binary.BigEndian.Uint16(key))
		}
	}
	return from, to
}

func (l *testMap) clusterState() ClusterState {
	sizes := map[partition.ShardID]Size{}
	for s := range l.m.Shards(partition.Whole) {
		from, to := spanEnds(s.Span)
		sizes[s.ID] = Size{Rows: 1, Bytes: uint64(to-from) << 10}
	}
	return ClusterState{
		Map: l.m, Jobs: l.jobs,
		ShardSize: func(id partition.ShardID) Size { return sizes[id] },
		SplitPoint: func(s partition.Shard) (partition.Position, *partition.Keyspace, bool) {
			from, to := spanEnds(s.Span)
			return positionAt((from + to) / 2), &testKeyspace, to-from > 1
		},
	}
}

type fataler interface {
	Fatalf(string, ...any)
	Helper()
}

// runRegroup plays a Regroup with children that are done at once, or one after another.
func (l *testMap) runRegroup(t fataler, groups, parallel int, slow func() bool) Job {
	have := len(l.m.Groups())
	j, err := Admit(l.clusterState(), Request{Kind: Regroup, Groups: groups, Labels: make([]partition.Labels, groups-have), Parallel: parallel}, 1, 0)
	if err != nil {
		t.Fatalf("%v", err)
	}
	j, l.m, _, err = Decide(j, DecideJob{Round: j.Round}, l.m, 0)
	if err != nil {
		t.Fatalf("%v", err)
	}
	j, _ = Step(j, Acknowledged{Round: j.Round}, 0)
	for n := ownership.JobID(2); j.Phase == Surveying; n++ {
		if n > 5000 {
			t.Fatalf("it does not end: %+v", j.Cost)
		}
		next, effects := Step(j, Surveyed{Round: j.Round, View: l.clusterState()}, 0)
		j = next
		for _, e := range effects {
			if spawn, ok := e.(StartJob); ok {
				child, err := Admit(l.clusterState(), spawn.Request, 100*n+ownership.JobID(len(l.jobs)), 0)
				if err != nil {
					t.Fatalf("%v: %v", spawn.Request, err)
				}
				l.jobs = append(l.jobs, child)
			}
		}
		for len(l.jobs) > 0 {
			var err error
			if l.m, err = l.m.Apply(l.jobs[0].makeEdit()); err != nil {
				t.Fatalf("%v", err)
			}
			if l.jobs = l.jobs[1:]; len(l.jobs) > 0 && slow() {
				break // the others are still at it at the next look
			}
		}
	}
	return j
}

// measureLoads returns what each group has, by the mean.
func (l *testMap) measureLoads() (of []float64) {
	v := l.clusterState()
	sum := 0.0
	for _, s := range v.sumByGroup(l.m) {
		sum += s.bytes
	}
	for _, g := range l.m.Groups() {
		of = append(of, v.sumByGroup(l.m)[g.ID].bytes*float64(len(l.m.Groups()))/sum)
	}
	return of
}

// newTestMap returns a land of shards that the groups have in turn.
func newTestMap(t fataler, groups int, cuts []int) *testMap {
	slices.Sort(cuts)
	var at []partition.Position
	for _, n := range slices.Compact(cuts) {
		at = append(at, positionAt(n))
	}
	m, err := partition.NewMap(make([]partition.Group, groups), &testKeyspace, at...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return &testMap{m: m}
}

func neverSlow() bool { return false }

func TestNewGroupsAreFilledWithAsFewSplitsAsItTakes(t *testing.T) {
	for _, c := range []struct {
		name           string
		groups, to     int
		cuts           []int
		splits, shards int
		most           float64 // that a group has, by the mean
	}{
		{"one shard each, twice the groups", 4, 8, []int{1 << 14, 2 << 14, 3 << 14}, 4, 8, 1},
		{"all in one shard", 1, 4, nil, 3, 4, 1},
		{"one shard, three groups", 1, 3, nil, 3, 4, 1.5},
		{"enough shards", 2, 4, []int{1 << 13, 2 << 13, 3 << 13, 4 << 13, 5 << 13, 6 << 13, 7 << 13}, 0, 8, 1},
		{"one large, and small ones", 1, 2, []int{100, 200, 300}, 1, 5, 1.1},
	} {
		l := newTestMap(t, c.groups, c.cuts)
		j := l.runRegroup(t, c.to, 4, neverSlow)
		if got := l.measureLoads(); slices.Max(got) > c.most+0.01 || int(j.Cost.Splits) != c.splits || l.m.Len() != c.shards {
			t.Errorf("%s: groups have %.2f of the mean, after %d splits in %d shards", c.name, got, j.Cost.Splits, l.m.Len())
		}
	}
}

func TestWithoutMiddlesNothingIsSplit(t *testing.T) {
	l := newTestMap(t, 2, []int{1 << 15})
	v := l.clusterState()
	v.SplitPoint = nil
	j := Job{ID: 1, Kind: Regroup, Phase: Surveying, Groups: []partition.GroupID{2}, Parallel: 4}
	if got, left := j.nextFillRequests(v); left {
		t.Errorf("asks for %v", got)
	}
	v.SplitPoint = func(partition.Shard) (partition.Position, *partition.Keyspace, bool) { return nil, nil, false }
	if got, left := j.nextFillRequests(v); left {
		t.Errorf("asks for %v", got)
	}
}

// However large shards are, however many, and however late children are.
func TestNewGroupsAreFilledEvenly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		groups := rapid.IntRange(1, 6).Draw(t, "groups")
		cuts := rapid.SliceOfN(rapid.IntRange(1, 1<<16-1), groups-1, 40).Draw(t, "cuts")
		for len(slices.Compact(slices.Sorted(slices.Values(cuts)))) < groups-1 {
			cuts = append(cuts, 1+len(cuts)*97)
		}
		l := newTestMap(t, groups, cuts)
		to := groups + rapid.IntRange(1, 12).Draw(t, "more")
		before := l.m.Len()
		slow := func() bool { return rapid.Bool().Draw(t, "slow") }
		j := l.runRegroup(t, to, rapid.IntRange(1, 8).Draw(t, "parallel"), slow)
		got := l.measureLoads()
		if slices.Min(got[groups:]) < 0.49 { // a half is not exactly one
			t.Fatalf("groups have %.2f of the mean", got)
		}
		if n := l.m.Len() - before; n != int(j.Cost.Splits) || n > maxSplitsPerGroup*(to-groups) {
			t.Fatalf("%d splits, %d were asked for", n, j.Cost.Splits)
		}
	})
}

// What was planned is about what happens.
func TestAPlanOfARegroupCountsItsSplits(t *testing.T) {
	l := newTestMap(t, 1, nil)
	price, err := Plan(l.clusterState(), Request{Kind: Regroup, Groups: 4, Labels: make([]partition.Labels, 3)}, Rates{})
	if err != nil {
		t.Fatal(err)
	}
	all := uint64(1<<16) << 10
	if price.Splits != 3 || price.Moves != 3 || price.Bytes != all*3/4 || price.After.Bytes > 1.01 {
		t.Errorf("%+v", price)
	}
}

func BenchmarkRegroupOf(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		cuts := make([]int, n-1)
		for i := range cuts {
			cuts[i] = (i + 1) * 6
		}
		l := newTestMap(b, 4, cuts)
		v := l.clusterState()
		r := Request{Kind: Regroup, Groups: 8, Labels: make([]partition.Labels, 4)}
		b.Run(fmt.Sprintf("do=plan/shards=%d", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := Plan(v, r, Rates{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		j := Job{ID: 1, Kind: Regroup, Phase: Surveying, Groups: []partition.GroupID{4}, Parallel: 8}
		b.Run(fmt.Sprintf("do=survey/shards=%d", n), func(b *testing.B) {
			for b.Loop() {
				j.nextFillRequests(v)
			}
		})
	}
}
