package partition

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Moved is a span that went from one group to another.
type Moved struct {
	Span     Span
	From, To GroupID
}

// Difference is what changed between two maps.
type Difference struct {
	From, To Version
	// Moved are the spans with another owner, in order. Spans that touch and
	// went the same way are one, however many shards they are.
	Moved []Moved
	// Born and Gone are the shards that only the second or the first map has.
	Born, Gone []ShardID
	// Joined and Left are the groups that only the second or the first map has.
	Joined, Left []GroupID
}

// Diff returns what changed from one map to another. A router forgets what it
// knows of the spans that moved, a feed looks for the new owner there.
func Diff(from, to *Map) Difference {
	d := Difference{From: from.version, To: to.version, Moved: listMoved(from, to)}
	d.Gone, d.Born = uniqueIDs(shardIDs(from), shardIDs(to))
	d.Left, d.Joined = uniqueIDs(groupIDs(from), groupIDs(to))
	return d
}

// listMoved walks over both tilings at once.
func listMoved(from, to *Map) (all []Moved) {
	i, j := 0, 0
	var start Position
	for i < len(from.shards) && j < len(to.shards) {
		a, b := from.shardAt(i), to.shardAt(j)
		end := a.Span.End
		switch c := compareEnds(a.Span.End, b.Span.End); {
		case c < 0:
			i++
		case c > 0:
			end = b.Span.End
			j++
		default:
			i, j = i+1, j+1
		}
		if a.Group != b.Group {
			last := len(all) - 1
			if last >= 0 && bytes.Equal(all[last].Span.End, start) && all[last].From == a.Group && all[last].To == b.Group {
				all[last].Span.End = end
			} else {
				all = append(all, Moved{Span{start, end}, a.Group, b.Group})
			}
		}
		start = end
	}
	return all
}

// compareEnds compares two ends of spans: an empty one is the end of the space.
func compareEnds(a, b Position) int {
	switch {
	case len(a) == 0 && len(b) == 0:
		return 0
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	}
	return bytes.Compare(a, b)
}

func shardIDs(m *Map) []ShardID {
	ids := make([]ShardID, len(m.shards))
	for i := range m.shards {
		ids[i] = m.shards[i].Shard
	}
	slices.Sort(ids)
	return ids
}

func groupIDs(m *Map) []GroupID {
	ids := make([]GroupID, len(m.groups))
	for i, g := range m.groups {
		ids[i] = g.ID
	}
	return ids
}

// uniqueIDs returns what each of two sorted slices has alone.
func uniqueIDs[T ShardID | GroupID](a, b []T) (onlyA, onlyB []T) {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			onlyA, a = append(onlyA, a[0]), a[1:]
		case a[0] > b[0]:
			onlyB, b = append(onlyB, b[0]), b[1:]
		default:
			a, b = a[1:], b[1:]
		}
	}
	return append(onlyA, a...), append(onlyB, b...)
}

// String is the difference in reports, one line for each span or list.
func (d Difference) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "version %d to %d\n", d.From, d.To)
	for _, m := range d.Moved {
		fmt.Fprintf(&b, "%v went from %v to %v\n", m.Span, m.From, m.To)
	}
	printIDs(&b, "new shards", d.Born)
	printIDs(&b, "gone shards", d.Gone)
	printIDs(&b, "new groups", d.Joined)
	printIDs(&b, "gone groups", d.Left)
	return b.String()
}

func printIDs[T fmt.Stringer](b *strings.Builder, what string, ids []T) {
	if len(ids) > 0 {
		fmt.Fprintf(b, "%s %v\n", what, ids)
	}
}
