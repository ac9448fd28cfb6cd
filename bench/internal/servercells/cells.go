// Package servercells answers one question: how fast is the server beside Redis?
//
// Both, and Valkey if there is one on PATH, are driven by redis-benchmark, one after the other in
// each round, at the same durability, with the same keys: a million by chance, values of 64 bytes, 50
// connections, and 1, 16 or 64 requests at a time on each. A figure is the time of one
// operation as the benchmark sees it, what the server's process uses of a processor for
// it, and how long clients wait. Mixes of reads and writes, scans, and memcached are
// driven by a client of our own, which is the same for all servers.
package servercells

import (
	"fmt"
	"iter"

	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/serverprocess"
)

// Config is the size of the comparison.
type Config struct {
	// Dir is where the servers keep their files, and Module the folder with the module
	// that ours is built from.
	Dir, Module string
	// Keys is how many different keys there are.
	Keys int
	// Share scales how many requests a round has: 1 in a full run.
	Share float64
}

// class is a durability, and what is measured at it.
type class struct {
	name  string
	redis []string // how the peer is started
	ours  []string
	tests []string
	title string
}

func classes() []class {
	log := func(fsync string) []string { return []string{"--appendonly", "yes", "--appendfsync", fsync} }
	return []class{
		{"always", log("always"), []string{"--appendfsync", "always"}, []string{"set", "incr"}, "acknowledged when it is on disk"},
		{"everysec", log("everysec"), []string{"--appendfsync", "everysec"}, []string{"set", "get"}, "on disk within a second"},
		{"memory", []string{"--appendonly", "no"}, []string{"--storage", "memory", "--appendfsync", "no"}, []string{"set"}, "nothing is kept"},
		{"cold", log("everysec"), []string{"--appendfsync", "everysec", "--cache-mib", "12"}, []string{"get"}, "on disk within a second, and ten times what the row cache holds; Redis has all of it in memory"},
	}
}

// pipelines are how many requests a connection sends at a time.
var pipelines = []int{1, 16, 64}

// The metrics of a run.
var metrics = []duel.Metric{
	duel.Wall, duel.CPU, {Name: "p50", Unit: duel.Nanoseconds}, {Name: "p99", Unit: duel.Nanoseconds},
}

// ID is the name of a cell.
func ID(test, class string, pipeline int) string {
	return fmt.Sprintf("server/%s-%s-p%d", test, class, pipeline)
}

// Names of the contestants.
const (
	Ours   = "cleave"
	Peer   = "redis"
	Cached = "memcached"
	// Valkey has one thread for clients, ValkeyThreads two.
	Valkey        = "valkey"
	ValkeyThreads = "valkey, io-threads 2"
)

// Cells yields the cells of all classes. The servers of a class run while its cells are
// used.
func Cells(cfg Config) iter.Seq[duel.Cell] {
	return func(yield func(duel.Cell) bool) {
		defer serverprocess.Forget()
		for _, c := range classes() {
			if !c.cells(cfg, yield) {
				return
			}
		}
		mixCells(cfg, yield)
	}
}

// failing is a cell that tells why there is none.
func failing(id string, err error) duel.Cell {
	return duel.Cell{ID: id, Contestants: []duel.Contestant{{Name: Ours, Ours: true, Gauge: func() []float64 { panic(err) }}}}
}

func (c class) cells(cfg Config, yield func(duel.Cell) bool) bool {
	servers, err := start(cfg, c)
	if err != nil {
		return yield(failing("server/"+c.name, err))
	}
	defer servers.stop()
	for _, test := range c.tests {
		for _, p := range pipelines {
			cell := duel.Cell{
				ID:      ID(test, c.name, p),
				Title:   fmt.Sprintf("%s of one of %d keys, 64 bytes, 50 connections, %d at a time: %s", test, cfg.Keys, p, c.title),
				Metrics: metrics,
			}
			for _, s := range servers {
				cell.Contestants = append(cell.Contestants, duel.Contestant{
					Name: s.name, Ours: s.name == Ours,
					Gauge: func() []float64 { return s.gauge(cfg, test, p) },
					Facts: func() []duel.Fact { return []duel.Fact{{Name: "bytes of memory per key", Value: s.perKey}} },
				})
			}
			if !yield(cell) {
				return false
			}
		}
	}
	return true
}
