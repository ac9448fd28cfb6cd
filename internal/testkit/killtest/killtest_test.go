package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cleavekv/cleave/internal/testkit/tally"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		runAsChild()
	}
	os.Exit(m.Run())
}

func testSeed(t *testing.T) uint64 { return tally.Seed(t, "./internal/testkit/killtest") }

// buildChild returns the program to run as a child. With the race detector a store of
// three takes seconds to open, and more so after each kill: then the child is a
// plain build.
func buildChild(t *testing.T) string {
	if !raceEnabled {
		return os.Args[0]
	}
	self := filepath.Join(t.TempDir(), "ordeal.exe")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", self, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return self
}

// Whatever is killed when, and however shards move: the results of clients are what
// one store could have returned, and what is on disk is that and nothing else.
func TestPromisesAreKeptOverKills(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes for some seconds")
	}
	self := buildChild(t)
	var counts tally.Counts
	for _, o := range []options{
		{Stores: 3, Groups: 3, Durability: "no", Lives: 2, Contended: true},
		{Stores: 1, Groups: 4, Durability: "always", Lives: 5},
		{Stores: 3, Groups: 6, Durability: "everysec", Lives: 8},
		{Stores: 2, Groups: 8, Durability: "no", Lives: 6},
	} {
		if os.Getenv("CLEAVE_SOAK") != "" {
			o.Lives, o.Patient = 20*o.Lives, true
		}
		name := fmt.Sprintf("stores=%d/groups=%d/durability=%s", o.Stores, o.Groups, o.Durability)
		ok := t.Run(name, func(t *testing.T) {
			o.Seed = testSeed(t)
			did, err := runKillTest(self, o)
			for what, n := range did {
				counts.Add(what, n)
			}
			if err != nil {
				t.Error(err)
			}
		})
		if !ok {
			break // the rest would take long, and say no more
		}
	}
	counts.Log(t, "kills", "calls with unknown outcome", "registers", "hashes", "leases", "lists", "transfers", "audits", "claims", "requests", "changes",
		"jobs of the balancer", "scans", "split", "merge", "move", "move between stores", "jobs that went on after a kill",
		"transactions in one group", "joint transactions", "two-phase transactions")
}
