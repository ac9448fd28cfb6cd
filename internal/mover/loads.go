package mover

import (
	"slices"

	"github.com/cleavekv/cleave/partition"
)

// loads is how much each group that may own shards has.
type loads map[partition.GroupID]float64

// size is what is known about a shard.
func (v *View) size(id partition.ShardID) Size {
	if v.Sizes == nil {
		return Size{}
	}
	return v.Sizes(id)
}

// weight is what a shard counts when groups are filled evenly: its bytes, and
// one more, so that shards of which nothing is known count alike.
func (v *View) weight(id partition.ShardID) float64 { return float64(v.size(id).Bytes) + 1 }

// home names the store of a group.
func (v *View) home(g partition.GroupID) uint64 {
	if v.Home == nil {
		return uint64(g)
	}
	return v.Home(g)
}

func loadsOf(v View) loads {
	l := loads{}
	for _, g := range v.Map.Groups() {
		l[g.ID] = 0
	}
	for s := range v.Map.Shards(partition.Whole) {
		l[s.Group] += v.weight(s.ID)
	}
	return l
}

// least returns the group with the least that may take a shard, or 0.
func (l loads) least(v *View, s partition.Shard) (to partition.GroupID) {
	for _, g := range v.Map.Groups() {
		if g.ID != s.Group && v.takes(g) && s.Pin.Allows(g.Labels) && (to == 0 || l[g.ID] < l[to]) {
			to = g.ID
		}
	}
	return to
}

// sums is what is known about all shards of each group.
type sums map[partition.GroupID]*sum

type sum struct {
	bytes, heat float64
	shards      int
}

func (v *View) sums(m *partition.Map) sums {
	of := sums{}
	for _, g := range m.Groups() {
		of[g.ID] = &sum{}
	}
	for s := range m.Shards(partition.Whole) {
		of[s.Group].add(v.size(s.ID), 1)
	}
	return of
}

func (s *sum) add(size Size, sign float64) {
	s.bytes += sign * float64(size.Bytes)
	s.heat += sign * size.Heat
	s.shards += int(sign)
}

// move counts a move as done.
func (of sums) move(s step) {
	of[s.from].add(s.size, -1)
	of[s.To].add(s.size, 1)
	if s.part {
		of[s.from].shards++ // the other half stays
	}
}

// skew is how uneven the groups of a map are.
func (of sums) skew(m *partition.Map) Skew {
	var bytes, heat []float64
	for _, g := range m.Groups() {
		if s := of[g.ID]; s.shards > 0 || !g.Draining {
			bytes, heat = append(bytes, s.bytes), append(heat, s.heat)
		}
	}
	return Skew{Bytes: unevenness(bytes), Heat: unevenness(heat)}
}

// unevenness is the largest by the mean, 1 if there is nothing.
func unevenness(of []float64) float64 {
	sum := 0.0
	for _, x := range of {
		sum += x
	}
	if sum == 0 {
		return 1
	}
	return slices.Max(of) * float64(len(of)) / sum
}
