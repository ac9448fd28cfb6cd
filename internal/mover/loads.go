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
func (l loads) least(m *partition.Map, s partition.Shard) (to partition.GroupID) {
	for _, g := range m.Groups() {
		if g.ID != s.Group && !g.Draining && s.Pin.Allows(g.Labels) && (to == 0 || l[g.ID] < l[to]) {
			to = g.ID
		}
	}
	return to
}

// best returns the shard that evens groups out most if it goes to one of some,
// or none: a move must leave the group that takes the shard with less than the
// one that gives it had.
func (l loads) best(v View, to []partition.GroupID, chosen []Request) (best partition.Shard, group partition.GroupID) {
	gain := 0.0
	for s := range v.Map.Shards(partition.Whole) {
		if slices.Contains(to, s.Group) || busy(v.Jobs, s.Span) || v.fixed(s) ||
			slices.ContainsFunc(chosen, func(r Request) bool { return r.Shard == s.ID }) {
			continue
		}
		for _, id := range to {
			g, ok := v.Map.Group(id)
			if !ok || g.Draining || !s.Pin.Allows(g.Labels) {
				continue
			}
			if won := l[s.Group] - l[id] - v.weight(s.ID); won > gain {
				best, group, gain = s, id, won
			}
		}
	}
	return best, group
}

// skew is how uneven the groups of a map are.
func (v *View) skew(m *partition.Map) Skew {
	var bytes, heat []float64
	for _, g := range m.Groups() {
		var b, h float64
		n := 0
		for s := range m.Owned(g.ID) {
			size := v.size(s.ID)
			b, h, n = b+float64(size.Bytes), h+size.Heat, n+1
		}
		if n > 0 || !g.Draining {
			bytes, heat = append(bytes, b), append(heat, h)
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
