package server

import (
	"encoding/binary"
	"math/bits"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/load"
	"github.com/cleavekv/cleave/partition"
)

// routeTable is where the slots of a hash keyspace are by one map, for one worker: the group that serves them, and what
// the worker counts of their shard. To find the shard of a position among sixteen takes 20 ns, and a GET takes 370; this
// takes 2. Slots are looked up in runs of as many; a run that lies in two shards, or was not asked for yet, has no
// entry.
type routeTable struct {
	m        *partition.Map
	keyspace *node.Keyspace
	slotAt   int  // where the slot is in a row key
	runBits  uint // a run has so many slots, as a power of two
	runs     [routeRuns]shardRoute
}

// routeRuns is into how many runs the slots are cut: 4 KiB of entries, which stay in the cache of the core.
const routeRuns = 256

// shardRoute is where the keys of a shard go. It has no group if that is to be found out.
type shardRoute struct {
	groupHost *node.GroupHost
	load      *load.ShardRecorder
}

// maxRouteTables is of how many keyspaces a worker keeps a table.
const maxRouteTables = 8

// routeTableOf returns the table of a hash keyspace by a map.
func (w *worker) routeTableOf(k *node.Keyspace, m *partition.Map) *routeTable {
	var t *routeTable
	for _, x := range w.routes {
		if x.keyspace == k {
			t = x
		}
	}
	if t == nil && len(w.routes) < maxRouteTables {
		t = new(routeTable)
		w.routes = append(w.routes, t)
	} else if t == nil {
		t = w.routes[0]
		copy(w.routes, w.routes[1:])
		w.routes[len(w.routes)-1] = t
	}
	if t.keyspace != k || t.m != m {
		*t = routeTable{
			m: m, keyspace: k, slotAt: len(group.AppendRowKeyPrefix(nil)) + len(k.SlotSpan(0).Start) - 2,
			runBits: uint(max(0, bits.Len(uint(k.SlotCount()-1))-bits.Len(routeRuns-1))),
		}
	}
	w.lastRoutes = t
	return t
}

// routeKey returns where a key of a keyspace goes by a map, given its row key. There is no group if the map is not the
// newest.
func (w *worker) routeKey(k *node.Keyspace, m *partition.Map, row group.RowKey) shardRoute {
	if t := w.lastRoutes; t != nil && t.keyspace == k && t.m == m {
		if r := t.runs[t.runOf(row)]; r.groupHost != nil {
			return r
		}
	}
	return w.addRoute(k, m, row)
}

// runOf is the run of the slot of a row key.
func (t *routeTable) runOf(row group.RowKey) uint8 {
	return uint8(binary.BigEndian.Uint16(row[t.slotAt:]) >> t.runBits)
}

// findRoute is routeKey without a table.
func (w *worker) findRoute(m *partition.Map, row group.RowKey) shardRoute {
	newest, shard, part := w.s.node.Locate(row.Position())
	if newest != m {
		return shardRoute{}
	}
	return shardRoute{part, w.shardLoad(m, shard)}
}

// addRoute is routeKey of a run that has no entry. It gets one if it lies in one shard. A worker whose recorder is
// borrowed for a round keeps none.
func (w *worker) addRoute(k *node.Keyspace, m *partition.Map, row group.RowKey) shardRoute {
	r := w.findRoute(m, row)
	if k.Kind != partition.Hash || !w.ownsLoad || r.groupHost == nil {
		return r
	}
	t := w.routeTableOf(k, m)
	run := t.runOf(row)
	first, last := uint16(run)<<t.runBits, uint16(run)<<t.runBits|(1<<t.runBits-1)
	slots := partition.Span{Start: k.SlotSpan(first).Start, End: k.SlotSpan(last).End}
	if m.Find(row.Position()).Span.Covers(slots) {
		t.runs[run] = r
	}
	return r
}
