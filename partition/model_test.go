package partition

import (
	"bytes"
	"fmt"
	"slices"
)

// The keyspaces of the tests: of both kinds, with ids of one and more bytes.
var (
	testHash   = Keyspace{ID: 1, Name: "default", Kind: Hash, Slots: 16}
	testRange  = Keyspace{ID: 5, Name: "users", Kind: Range}
	testFar    = Keyspace{ID: 300, Name: "far", Kind: Range}
	testSpaces = []*Keyspace{&testHash, &testRange, &testFar}
)

// model is a map as one would write it down by hand: spans in a list, searched
// from the front, and rules in the words of their documentation.
type model struct {
	version   Version
	shards    []Shard
	groups    []Group
	nextShard ShardID
	nextGroup GroupID
}

func (m *model) find(p Position) Shard {
	for _, s := range m.shards {
		if s.Span.Contains(p) {
			return s
		}
	}
	panic(fmt.Sprintf("a gap at %x", p))
}

func (m *model) index(id ShardID) int {
	return slices.IndexFunc(m.shards, func(s Shard) bool { return s.ID == id })
}

func (m *model) group(id GroupID) *Group {
	for i := range m.groups {
		if m.groups[i].ID == id {
			return &m.groups[i]
		}
	}
	return nil
}

func (m *model) clone() *model {
	c := *m
	c.shards, c.groups = slices.Clone(m.shards), slices.Clone(m.groups)
	return &c
}

// split returns what Apply should answer, and makes the change if it is nil.
func (m *model) split(e Split) error {
	i := m.index(e.Shard)
	switch {
	case i < 0:
		return ErrUnknownShard
	case e.Expect != 0 && m.shards[i].Changed != e.Expect:
		return ErrStale
	case len(e.At) == 0:
		return ErrNoChange
	}
	whole := m.shards[i]
	last := whole.Span.Start
	var parts []Shard
	for _, p := range e.At {
		if bytes.Compare(p, last) <= 0 || !whole.Span.Contains(p) {
			return ErrBoundary
		}
		// A boundary is inside a key if the key's own row is left of it and a
		// later element could be right of it.
		if key, element, err := e.In.Split(nil, p); err == nil && len(element) > 0 && bytes.Compare(e.In.KeySpan(key).Start, p) < 0 {
			return ErrCut
		}
		if e.In.Kind == Hash && bytes.Equal(p, e.In.SlotSpan(0).Start) {
			return ErrBoundary
		}
		last = p
		parts = append(parts, whole)
	}
	parts = append(parts, whole)
	for n := range parts {
		parts[n].Changed = m.version
		if n > 0 {
			parts[n].ID, parts[n].Span.Start = m.nextShard, e.At[n-1]
			m.nextShard++
		}
		if n < len(e.At) {
			parts[n].Span.End = e.At[n]
		}
	}
	m.shards = slices.Replace(m.shards, i, i+1, parts...)
	return nil
}

func (m *model) merge(e Merge) error {
	i, j := m.index(e.Left), m.index(e.Right)
	switch {
	case i < 0 || j < 0:
		return ErrUnknownShard
	case e.ExpectLeft != 0 && m.shards[i].Changed != e.ExpectLeft, e.ExpectRight != 0 && m.shards[j].Changed != e.ExpectRight:
		return ErrStale
	case i+1 != j:
		return ErrNotNeighbours
	case m.shards[i].Group != m.shards[j].Group || m.shards[i].Pin != m.shards[j].Pin:
		return ErrDifferent
	}
	m.shards[i].Span.End, m.shards[i].Changed = m.shards[j].Span.End, m.version
	m.shards = slices.Delete(m.shards, j, j+1)
	return nil
}

func (m *model) mergeSpan(e MergeSpan) error {
	i := slices.IndexFunc(m.shards, func(s Shard) bool { return bytes.Equal(s.Span.Start, e.Span.Start) })
	j := slices.IndexFunc(m.shards, func(s Shard) bool { return bytes.Equal(s.Span.End, e.Span.End) })
	switch {
	case i < 0 || j < i:
		return ErrBoundary
	case i == j:
		return ErrNoChange
	case slices.ContainsFunc(m.shards[i:j+1], func(s Shard) bool { return s.Group != m.shards[i].Group || s.Pin != m.shards[i].Pin }):
		return ErrDifferent
	}
	m.shards[i].Span, m.shards[i].Changed = e.Span, m.version
	m.shards = slices.Delete(m.shards, i+1, j+1)
	return nil
}

func (m *model) assign(e Assign) error {
	i, g := m.index(e.Shard), m.group(e.To)
	switch {
	case i < 0:
		return ErrUnknownShard
	case e.Expect != 0 && m.shards[i].Changed != e.Expect:
		return ErrStale
	case g == nil:
		return ErrUnknownGroup
	case m.shards[i].Group == e.To:
		return ErrNoChange
	case g.Draining:
		return ErrDraining
	case !m.shards[i].Pin.Allows(g.Labels):
		return ErrPinned
	}
	m.shards[i].Group, m.shards[i].Changed = e.To, m.version
	return nil
}

func (m *model) pin(e Pin) error {
	i := m.index(e.Shard)
	switch {
	case i < 0:
		return ErrUnknownShard
	case e.Expect != 0 && m.shards[i].Changed != e.Expect:
		return ErrStale
	case e.To.text != "" && !slices.ContainsFunc(m.groups, func(g Group) bool { return !g.Draining && e.To.Allows(g.Labels) }):
		return ErrUnplaceable
	case m.shards[i].Pin == e.To:
		return ErrNoChange
	}
	m.shards[i].Pin = e.To
	return nil
}

func (m *model) changeGroup(e Edit) error {
	switch e := e.(type) {
	case AddGroup:
		if e.ID != 0 && e.ID < m.nextGroup {
			return ErrGroupID
		}
		m.nextGroup = max(m.nextGroup, e.ID)
		m.groups = append(m.groups, Group{ID: m.nextGroup, Labels: e.Labels})
		m.nextGroup++
	case SetDraining:
		g := m.group(e.Group)
		switch {
		case g == nil:
			return ErrUnknownGroup
		case g.Draining == e.Draining:
			return ErrNoChange
		}
		g.Draining = e.Draining
	case RemoveGroup:
		switch {
		case m.group(e.Group) == nil:
			return ErrUnknownGroup
		case slices.ContainsFunc(m.shards, func(s Shard) bool { return s.Group == e.Group }):
			return ErrInUse
		}
		m.groups = slices.DeleteFunc(m.groups, func(g Group) bool { return g.ID == e.Group })
	}
	return nil
}

func (m *model) apply(e Edit) error {
	switch e := e.(type) {
	case Split:
		return m.split(e)
	case Merge:
		return m.merge(e)
	case MergeSpan:
		return m.mergeSpan(e)
	case Assign:
		return m.assign(e)
	case Pin:
		return m.pin(e)
	}
	return m.changeGroup(e)
}
