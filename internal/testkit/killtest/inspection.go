package main

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

// inspectStores looks at the files of a store that was closed.
func (c *child) inspectStores() error {
	stores := make([]storeDump, c.Stores)
	for i := range stores {
		var err error
		if stores[i], err = c.dumpStore(i); err != nil {
			return err
		}
	}
	n, err := node.Open(node.Options{Dir: c.Dir})
	if err != nil {
		return err
	}
	c.checkTiling(n)
	if err := c.checkPlacement(n, stores); err != nil {
		return err
	}
	if err := n.Close(ctx); err != nil {
		return err
	}
	c.writeEvent(event{Say: eventEnd})
	return nil
}

// storeDump is what a store has, before anything is repaired.
type storeDump struct {
	// rows are the positions of all rows of each table, keys those of keys that are there:
	// no fields of hashes, nothing that has expired.
	rows map[effect.Table][]partition.Position
	keys []partition.Position
}

// dumpStore reads a store. There must be no locks.
func (c *child) dumpStore(i int) (d storeDump, err error) {
	s, err := store.Open(store.Options{Dir: filepath.Join(c.Dir, strconv.Itoa(i))})
	if err != nil {
		return d, err
	}
	now := time.Now().UnixMilli()
	d.rows = map[effect.Table][]partition.Position{}
	for _, t := range effect.ByPosition {
		from, to := t.Span()
		err = errors.Join(err, s.Scan(from, to, false, func(key, value []byte) bool {
			p := partition.Position(bytes.Clone(key[1:]))
			d.rows[t] = append(d.rows[t], p)
			if t != effect.Rows {
				return true
			}
			row, err := command.DecodeRow(value)
			if err != nil {
				c.reportTrouble("store %d has a row at %q that cannot be read: %v", i, []byte(p), err)
			} else if row.Kind != command.Element && row.IsAlive(now) {
				d.keys = append(d.keys, p)
			}
			return true
		}))
	}
	err = errors.Join(err, protocol.ScanLocks(s, partition.Whole, func(l txn.Lock) bool {
		c.reportTrouble("a lock is left on store %d: %+v", i, l)
		return true
	}))
	return d, errors.Join(err, s.Close())
}

// checkTiling checks that each position is served by one group, the one that the map has.
func (c *child) checkTiling(n *node.Node) {
	m := n.Map()
	var served []ownership.Range
	for _, p := range n.GroupHosts() {
		for r := range p.Group.OwnershipTable().All() {
			switch r.State {
			case ownership.Foreign:
			case ownership.Serving:
				served = append(served, r)
				if s := m.Find(r.Span.Start); s.Group != p.ID || s.Changed != r.Version || !bytes.Equal(s.Span.End, r.Span.End) {
					c.reportTrouble("%v serves %v, the map says %v", p.ID, r, s)
				}
			default:
				c.reportTrouble("%v has %v when all jobs have ended", p.ID, r)
			}
		}
	}
	slices.SortFunc(served, func(a, b ownership.Range) int { return bytes.Compare(a.Span.Start, b.Span.Start) })
	var end partition.Position
	for i, r := range served {
		if !bytes.Equal(r.Span.Start, end) || i > 0 && len(end) == 0 {
			c.reportTrouble("what is served does not tile: %v comes after %q", r, []byte(end))
		}
		end = r.Span.End
	}
	if len(end) > 0 || len(served) != m.Len() {
		c.reportTrouble("%d ranges are served up to %q, the map has %d shards", len(served), []byte(end), m.Len())
	}
	c.writeEvent(event{Say: eventCounts, Counts: map[string]uint64{"shards at the end": uint64(m.Len())}})
}

// checkPlacement checks that each shard has the rows that it must have, and that no store
// has anything about positions of another.
func (c *child) checkPlacement(n *node.Node, stores []storeDump) error {
	m := n.Map()
	want, got := map[partition.ShardID]int{}, map[partition.ShardID]int{}
	spaces := map[byte]*node.Keyspace{}
	for letter, name := range map[byte]string{'h': node.DefaultKeyspace, 'o': "ordered"} {
		space, err := n.Keyspace(name)
		if err != nil {
			return err
		}
		spaces[letter] = space
	}
	for _, key := range c.Keys {
		want[m.Find(spaces[key[0]].AppendPosition(nil, []byte(key))).ID]++
	}
	for i, d := range stores {
		for _, p := range d.keys {
			got[m.Find(p).ID]++
		}
		for t, positions := range d.rows {
			for _, p := range positions {
				s := m.Find(p)
				if at := node.StoreOf(m, s.Group); at != i {
					c.reportTrouble("store %d has a row of table %d at %q, which is of %v on store %d", i, t, []byte(p), s.ID, at)
				}
			}
		}
	}
	for s := range m.Shards(partition.Whole) {
		ours := spaces['h'].Span().Contains(s.Span.Start) || spaces['o'].Span().Contains(s.Span.Start)
		if ours && got[s.ID] != want[s.ID] {
			c.reportTrouble("%v of %v has %d rows, want %d", s.ID, s.Group, got[s.ID], want[s.ID])
		}
	}
	return nil
}
