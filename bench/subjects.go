package main

import (
	"fmt"
	"iter"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/cleavekv/cleave/bench/internal/actorcells"
	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/enginecells"
	"github.com/cleavekv/cleave/bench/internal/hashcells"
	"github.com/cleavekv/cleave/bench/internal/keycells"
	"github.com/cleavekv/cleave/bench/internal/mapcells"
	"github.com/cleavekv/cleave/bench/internal/patterncells"
	"github.com/cleavekv/cleave/bench/internal/routecells"
	"github.com/cleavekv/cleave/bench/internal/scalecells"
	"github.com/cleavekv/cleave/bench/internal/servercells"
	"github.com/cleavekv/cleave/bench/internal/shardcells"
)

// effort is how much a run spends.
type effort struct {
	rounds     int
	longRounds int // of cells with a fixed piece of work
	window     time.Duration
	entries    int // of the big tables
	stream     int // operations drawn ahead, a power of two
	rows       int // of the embedded stores
	shards     shardcells.Config
	patterns   patterncells.Config
	server     servercells.Config
	scale      scalecells.Config
	// nodes are the sizes of topology, keysPerNode what imbalance and
	// movement are measured with.
	nodes       []int
	keysPerNode int
}

var (
	// full has many short windows: a slow spell of the machine then falls on
	// few rounds, and their median does not see it.
	full = effort{rounds: 41, longRounds: 11, window: 12 * time.Millisecond, entries: 1_000_000, stream: 1 << 20, rows: 500_000,
		shards:   shardcells.Config{Rows: 100_000, Shards: []int{10, 100, 1000, 10_000}, MoveRows: 100_000, Moves: 20, Think: time.Millisecond, Still: time.Second},
		patterns: patterncells.Config{Adds: 128, TableRows: 20_000},
		server:   servercells.Config{Keys: 1_000_000, Share: 1},
		scale:    scalecells.Config{Keys: 1_000_000, Rows: 500_000, Share: 1, Profiles: duel.MinRounds, ProfileSeconds: 1},
		nodes:    []int{8, 64, 1024, 10000}, keysPerNode: 200}
	// quick still has tables that are larger than a core's own cache.
	quick = effort{rounds: 3, longRounds: 3, window: 10 * time.Millisecond, entries: 200_000, stream: 1 << 18, rows: 50_000,
		shards:   shardcells.Config{Rows: 20_000, Shards: []int{10, 100, 1000, 10_000}, MoveRows: 20_000, Moves: 4, Think: time.Millisecond, Still: time.Second},
		patterns: patterncells.Config{Adds: 32, TableRows: 20_000},
		server:   servercells.Config{Keys: 100_000, Share: 0.2},
		scale:    scalecells.Config{Keys: 50_000, Rows: 50_000, Share: 0.1, Profiles: 1, ProfileSeconds: 1},
		nodes:    []int{8, 64, 1024, 10000}, keysPerNode: 20}
)

// subject is one part of the toolkit.
type subject struct {
	name, title string
	cells       func(effort) iter.Seq[duel.Cell]
}

var subjects = []subject{
	{"map", "Concurrent map", func(e effort) iter.Seq[duel.Cell] {
		return mapcells.Cells(mapcells.Config{Entries: e.entries, StreamLength: e.stream, Cores: runtime.GOMAXPROCS(0)})
	}},
	{"actor", "Actors", func(e effort) iter.Seq[duel.Cell] {
		return actorcells.Cells(actorcells.Config{Entries: e.entries, StreamLength: e.stream, Cores: runtime.GOMAXPROCS(0)})
	}},
	{"route", "Routing", func(e effort) iter.Seq[duel.Cell] {
		return routecells.Cells(routecells.Config{Nodes: e.nodes, KeysPerNode: e.keysPerNode, Cores: runtime.GOMAXPROCS(0)})
	}},
	{"engine", "Embedded store", func(e effort) iter.Seq[duel.Cell] {
		return enginecells.Cells(enginecells.Config{Rows: e.rows, Cores: runtime.GOMAXPROCS(0), Dir: os.TempDir()})
	}},
	{"shards", "Shards", func(e effort) iter.Seq[duel.Cell] {
		e.shards.Dir = os.TempDir()
		return shardcells.Cells(e.shards)
	}},
	{"patterns", "Patterns on the store", func(e effort) iter.Seq[duel.Cell] {
		e.patterns.Dir = os.TempDir()
		return patterncells.Cells(e.patterns)
	}},
	{"server", "Server for Redis clients", func(e effort) iter.Seq[duel.Cell] {
		e.server.Dir, e.server.Module = os.TempDir(), ".."
		return servercells.Cells(e.server)
	}},
	{"scale", "More processors, loops, stores and groups", func(e effort) iter.Seq[duel.Cell] {
		e.scale.Dir, e.scale.Module = os.TempDir(), ".."
		return scalecells.Cells(e.scale)
	}},
	{"hash", "Hash functions", func(effort) iter.Seq[duel.Cell] { return hashcells.Cells() }},
	{"key", "Keys", func(effort) iter.Seq[duel.Cell] { return keycells.Cells() }},
}

func subjectNames() string {
	var names []string
	for _, s := range subjects {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}

// choose returns the subjects in a list separated by commas, all for "".
func choose(list string) ([]subject, error) {
	if list == "" {
		return subjects, nil
	}
	var chosen []subject
	for name := range strings.SplitSeq(list, ",") {
		found := false
		for _, s := range subjects {
			if s.name == strings.TrimSpace(name) {
				chosen, found = append(chosen, s), true
			}
		}
		if !found {
			return nil, fmt.Errorf("no subject %q: choose from %s", name, subjectNames())
		}
	}
	return chosen, nil
}
