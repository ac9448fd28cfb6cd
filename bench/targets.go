package main

import (
	"slices"

	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/scalecells"
	"github.com/cleavekv/cleave/bench/internal/servercells"
	"github.com/cleavekv/cleave/bench/internal/shardcells"
)

// targets is every promise that a run is judged by. Ratios are against the
// best peer unless peers are named.
var targets = slices.Concat(mapTargets(), actorTargets(), routeTargets(), engineTargets(), shardTargets(), serverTargets(), scaleTargets())

// Why the targets are what they are. No figures here: those of a report are
// all measured in its run.
const (
	sourceMap      = "Map: with one cache line a bucket and no pointers, 8-byte values should beat the best Go peer by a margin that grows with the share of writes."
	sourceMapFloor = "Map: in every other cell it must be no worse than the best peer, up to noise: whoever changes to it must not lose anywhere."
	sourcePointers = "Map: keys and values with pointers take a second layout, which must keep up with the best peer when half of the operations write."
	sourceActor    = "Actor: batches are what makes mailboxes fast; large ones must keep up with a locked map."
	sourceRing     = "Ring: an index of the top bits makes a lookup a few loads, where the peers search."
	sourceBuild    = "Ring: a change of topology builds a new ring, and requests that wait for it should not notice."
	sourceHRW      = "Rendezvous: several nodes are scored at once, where the peer scores one."
	sourceEngine   = "Store: one sequential write for all who wait, rows in memory in front of the tables, and scans that merge both, against the ordered engine below it by itself and against others."
	sourceApart    = "Shards: a transaction across stores prepares, decides and cleans up, and may cost two and a half times one of a single group: a ratio of 0.4."
	sourceSynced   = "Shards: what a transaction across stores prepares is synced whatever the class, or a crash could take back one half, and one of a single group at everysec syncs nothing. So at everysec it is held against one of a single group that is synced, with the same ratio."
	sourceFlat     = "Shards: nothing on the way of an operation looks at more shards than it touches, so 10,000 cost a quarter more than 10 at most: a ratio of 0.8."
	sourceMove     = "Shards: who uses a shard that changes stores keeps four fifths of the speed, and does not wait long for the moment in which it changes hands."
	sourceServer   = "Server: one log write for all clients, rows in memory in front of the tables, and a loop that takes what all connections have sent, against Redis at the same durability."
	sourceCold     = "Server: a store that is larger than memory keeps most of the speed of one that is not."
	sourceCores    = "Scale: callers of an embedded store on two processors must not wait for each other. Reads share nothing that is written; writes share a log."
	sourceStores   = "Scale: what a client sends is executed by all stores at once, so that several on one disk cost a tenth at most."
	sourceGroups   = "Scale: the groups of a store share its log, so that several cost next to nothing."
	sourceSerial   = "Scale: what one thread does at a time bounds how fast 16 processors are, by Amdahl's law. It must not bound reads below 12 times one processor: a share of 2.2 % at most. What there is one of for each processor, as loops and groups, bounds nothing."
	sourceBinomial = "Binomial: constant time must pay off against jump's logarithm."
)

// mapTargets sets a figure for each mix of the main shape on all cores, and
// the floor for every other cell that has a peer and is measured in time.
func mapTargets() []duel.Target {
	cell := func(id string, atLeast float64, source string) duel.Target {
		return duel.Target{Cell: "map/" + id, Ours: "shardmap", AtLeast: atLeast, Source: source}
	}
	out := []duel.Target{
		cell("u64-u64/uniform-x1/reads", 1.1, sourceMap),
		cell("u64-u64/uniform-x1/95-5", 1.2, sourceMap),
		cell("u64-u64/uniform-x1/50-50", 1.5, sourceMap),
		cell("u64-u64/uniform-x1/writes", 1.9, sourceMap),
		cell("u64-u64/insert", 1.3, sourceMap),
		cell("string-string/uniform-x1/50-50", 1.0, sourcePointers),
	}
	for _, load := range []string{"u64-u64/uniform-x8", "u64-u64/zipf-x1", "u64-64B/uniform-x1", "16B-u64/uniform-x1"} {
		for _, mix := range []string{"reads", "95-5", "50-50", "writes"} {
			out = append(out, cell(load+"/"+mix, 0.95, sourceMapFloor))
		}
	}
	for _, rest := range []string{
		"u64-u64/compute", "u64-u64/range", "u64-u64/churn", "string-string/insert",
		"string-string/uniform-x1/reads", "string-string/uniform-x1/95-5", "string-string/uniform-x1/writes",
	} {
		out = append(out, cell(rest, 0.95, sourceMapFloor))
	}
	return out
}

func actorTargets() []duel.Target {
	var out []duel.Target
	for _, cell := range []string{"actor/x1/batch-64", "actor/x8/batch-64"} {
		for _, mode := range []string{"combining", "owner"} {
			out = append(out, duel.Target{Cell: cell, Ours: mode, Versus: []string{"sharded RWMutex", "RWMutex"}, AtLeast: 1, Source: sourceActor})
		}
	}
	return out
}

func routeTargets() []duel.Target {
	jumps := []string{"jump", "dgryski/go-jump", "lithammer/jump"}
	return []duel.Target{
		{Cell: "route/8", Ours: "ring", AtLeast: 3, Source: sourceRing},
		{Cell: "route/64", Ours: "ring", AtLeast: 3, Source: sourceRing},
		{Cell: "route/10000", Ours: "ring", Versus: []string{"groupcache (150)"}, AtLeast: 5, Source: sourceRing},
		{Cell: "route/build", Ours: "ring", AtMost: 20e6, Source: sourceBuild},
		{Cell: "route/64", Ours: "rendezvous", AtLeast: 1.8, Source: sourceHRW},
		{Cell: "route/1024", Ours: "rendezvous", AtLeast: 5, Source: sourceHRW},
		{Cell: "route/64", Ours: "binomial", Versus: jumps, AtLeast: 2, Source: sourceBinomial},
		{Cell: "route/1024", Ours: "binomial", Versus: jumps, AtLeast: 2, Source: sourceBinomial},
		{Cell: "route/10000", Ours: "binomial", Versus: jumps, AtLeast: 2, Source: sourceBinomial},
	}
}

func engineTargets() []duel.Target {
	cell := func(id, peer string, atLeast float64) duel.Target {
		return duel.Target{Cell: "engine/" + id, Ours: "cleave", Versus: []string{peer}, AtLeast: atLeast, Source: sourceEngine}
	}
	return []duel.Target{
		cell("get-cached", "Pebble", 3),
		cell("get-uncached", "Pebble", 0.85),
		cell("scan-cached", "Pebble", 0.7),
		cell("scan-uncached", "Pebble", 0.7),
		cell("scan-writes-cached", "Pebble", 0.7),
		cell("set-always-x64", "Pebble", 2),
		cell("set-always-x64", "bbolt", 10),
	}
}

func shardTargets() (out []duel.Target) {
	for _, clients := range []string{"x1", "x64"} {
		out = append(out, duel.Target{Cell: "shards/commit-always-" + clients, Ours: shardcells.TwoStores,
			Versus: []string{shardcells.OneGroup}, AtLeast: 0.4, Source: sourceApart})
	}
	for _, clients := range []string{"x1", "x64"} {
		out = append(out, duel.Target{Cell: "shards/commit-everysec-" + clients, Ours: shardcells.TwoStores,
			Versus: []string{shardcells.Synced}, AtLeast: 0.4, Source: sourceSynced})
	}
	few, most := full.shards.Shards[0], full.shards.Shards[len(full.shards.Shards)-1]
	for _, cell := range shardcells.Flat() {
		out = append(out, duel.Target{Cell: cell, Ours: shardcells.Shards(most), Versus: []string{shardcells.Shards(few)}, AtLeast: 0.8, Source: sourceFlat})
	}
	for _, d := range []string{"always", "full-always", "everysec", "full-everysec"} {
		out = append(out,
			duel.Target{Cell: "shards/move-" + d, Ours: "during", Versus: []string{"before"}, AtLeast: 0.8, Source: sourceMove},
			duel.Target{Cell: "shards/pause-" + d, Ours: "during", AtMost: 50e6, Every: true, Source: sourceMove})
	}
	return out
}

// serverTargets are ratios to Redis in the same run.
func serverTargets() (out []duel.Target) {
	for _, t := range []struct {
		test, class string
		atLeast     map[int]float64 // by how many requests come at a time
		source      string
	}{
		{"get", "everysec", map[int]float64{1: 1.0, 16: 2.0, 64: 2.5}, sourceServer},
		{"get", "cold", map[int]float64{1: 0.8, 16: 0.6, 64: 0.6}, sourceCold},
		{"set", "memory", map[int]float64{1: 0.95, 16: 1.4, 64: 1.8}, sourceServer},
		{"set", "everysec", map[int]float64{1: 1.0, 16: 2.0, 64: 2.5}, sourceServer},
		{"set", "always", map[int]float64{1: 1.2, 16: 2.0, 64: 2.5}, sourceServer},
		{"incr", "always", map[int]float64{1: 1.0, 16: 1.0, 64: 1.0}, sourceServer},
	} {
		for _, p := range []int{1, 16, 64} {
			out = append(out, duel.Target{Cell: servercells.ID(t.test, t.class, p), Ours: servercells.Ours,
				Versus: []string{servercells.Peer}, AtLeast: t.atLeast[p], Source: t.source})
		}
	}
	return out
}

// scaleTargets are ratios of the store to itself.
func scaleTargets() (out []duel.Target) {
	add := func(cell, what string, n int, atLeast float64, source string) {
		out = append(out, duel.Target{Cell: cell, Ours: scalecells.Count(n, what), Versus: []string{scalecells.Count(1, what)}, AtLeast: atLeast, Source: source})
	}
	add(scalecells.EmbeddedID("get"), "core", 2, 1.8, sourceCores)
	add(scalecells.EmbeddedID("set"), "core", 2, 1.5, sourceCores)
	for _, c := range []struct {
		comparison, what string
		n                int
		atLeast          float64
		source           string
	}{{"stores", "store", 2, 0.9, sourceStores}, {"groups", "group", 4, 0.97, sourceGroups}} {
		for _, test := range scalecells.Tests {
			for _, depth := range scalecells.Depths {
				add(scalecells.ID(c.comparison, test, depth), c.what, c.n, c.atLeast, c.source)
			}
		}
	}
	for _, depth := range scalecells.Depths {
		out = append(out, duel.Target{Cell: scalecells.ID("serial", "get", depth), Metric: scalecells.ShareOfCPU, Ours: scalecells.BusiestSerial,
			AtMost: scalecells.MaxSerialShare(12, 16), Source: sourceSerial})
	}
	return out
}
