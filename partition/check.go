package partition

import (
	"errors"
	"fmt"
)

// check tells what is wrong with a map that was not made here. Labels and pins
// are well formed: only parsing makes them.
func (m *Map) check() error {
	if m.version == 0 || m.tiling.count() != len(m.shards) {
		return errors.New("it has no version, or shards without spans")
	}
	if err := m.tiling.check(); err != nil {
		return err
	}
	if err := m.checkGroups(); err != nil {
		return err
	}
	used := make(map[ShardID]bool, len(m.shards))
	pins := uint32(1) // the zero constraint and those seen so far
	for _, s := range m.shards {
		switch {
		case s.Shard == 0 || s.Shard >= m.nextShard:
			return fmt.Errorf("%v is not an id below %v", s.Shard, m.nextShard)
		case used[s.Shard]:
			return fmt.Errorf("%v is there twice", s.Shard)
		case s.Changed == 0 || s.Changed > m.version:
			return fmt.Errorf("%v changed at version %d of %d", s.Shard, s.Changed, m.version)
		case s.pin > pins || s.pin >= uint32(len(m.pins)):
			return fmt.Errorf("%v has pin %d of %d", s.Shard, s.pin, len(m.pins)-1)
		}
		if _, ok := m.groupIndex(s.Group); !ok {
			return fmt.Errorf("%v is with %v, which is not there", s.Shard, s.Group)
		}
		used[s.Shard] = true
		pins = max(pins, s.pin+1)
	}
	if int(pins) != len(m.pins) {
		return fmt.Errorf("%d of %d pins are in use", pins-1, len(m.pins)-1)
	}
	return nil
}

func (m *Map) checkGroups() error {
	if len(m.groups) > MaxGroups {
		return fmt.Errorf("%d groups, at most %d", len(m.groups), MaxGroups)
	}
	var before GroupID
	for _, g := range m.groups {
		if g.ID <= before || g.ID >= m.nextGroup {
			return fmt.Errorf("%v is not an id above %v and below %v", g.ID, before, m.nextGroup)
		}
		before = g.ID
	}
	return nil
}
