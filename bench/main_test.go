package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/enginecells"
	"github.com/cleavekv/cleave/bench/internal/patterncells"
	"github.com/cleavekv/cleave/bench/internal/scalecells"
	"github.com/cleavekv/cleave/bench/internal/servercells"
	"github.com/cleavekv/cleave/bench/internal/shardcells"
)

// The test binary is the child of its own runs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == enginecells.LifeArgument {
		fmt.Fprintln(os.Stderr, run(os.Args[1:], os.Stdout, os.Stderr))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// tiny is enough to see that everything works, and says nothing about speed.
var tiny = effort{rounds: 1, longRounds: 1, window: 20 * time.Microsecond, entries: 2000, stream: 1 << 11, rows: 500,
	shards:   shardcells.Config{Rows: 400, Shards: []int{10, 40}, MoveRows: 200, Moves: 2, Think: time.Millisecond, Still: 20 * time.Millisecond},
	patterns: patterncells.Config{Adds: 1, TableRows: 2200},
	server:   servercells.Config{Keys: 500, Share: 0.01},
	scale:    scalecells.Config{Keys: 500, Rows: 500, Share: 0.001, Profiles: 1, ProfileSeconds: 1},
	nodes:    []int{8, 64}, keysPerNode: 100}

// runTiny measures every cell of every subject.
func runTiny() []*duel.Result {
	r := duel.Runner{Rounds: tiny.rounds, LongRounds: tiny.longRounds, Window: tiny.window, Clock: duel.NewSystem(), Settle: func() {}}
	var results []*duel.Result
	for _, s := range subjects {
		if (s.name == "server" || s.name == "scale") && !hasRedis() {
			continue
		}
		for cell := range s.cells(tiny) {
			cell.Rounds = min(cell.Rounds, 1) // many are for figures
			results = append(results, r.Run(cell))
		}
	}
	return results
}

// hasRedis reports whether there is a Redis to be compared with.
func hasRedis() bool {
	_, err := exec.LookPath("redis-server")
	_, err2 := exec.LookPath("redis-benchmark")
	return err == nil && err2 == nil
}

func TestEveryContestantFinishesEveryCellAndEveryTargetHasOne(t *testing.T) {
	results := runTiny()
	seen := map[string]bool{}
	for _, res := range results {
		if seen[res.ID] {
			t.Errorf("two cells are called %s", res.ID)
		}
		seen[res.ID] = true
		ours := 0
		for _, l := range res.Lines {
			if l.Failed != "" {
				t.Errorf("%s, %s: %s", res.ID, l.Contestant, l.Failed)
			}
			if l.Ours {
				ours++
			}
		}
		if ours == 0 {
			t.Errorf("%s has nothing of ours", res.ID)
		}
	}
	for _, target := range targets {
		if (strings.HasPrefix(target.Cell, "server/") || strings.HasPrefix(target.Cell, "scale/")) && !hasRedis() {
			continue
		}
		checkTarget(t, target, results)
	}
}

// checkTarget fails if a full run could not judge the target: a typing error
// in a name would otherwise hide a target for ever.
func checkTarget(t *testing.T, target duel.Target, results []*duel.Result) {
	for _, n := range full.nodes {
		// Topologies too large for a test have the contestants of smaller ones.
		if target.Cell == fmt.Sprintf("route/%d", n) {
			target.Cell = "route/64"
		}
	}
	if most := shardcells.Shards(full.shards.Shards[len(full.shards.Shards)-1]); target.Ours == most {
		target.Ours = shardcells.Shards(tiny.shards.Shards[len(tiny.shards.Shards)-1])
	}
	out := target.Check(results)
	if out.Verdict == duel.NotRun {
		t.Errorf("target on %s of %s cannot be judged: %s", target.Cell, target.Ours, out.Why)
	}
	if (target.AtLeast > 0) == (target.AtMost > 0) || target.Source == "" {
		t.Errorf("target on %s needs one limit and a source", target.Cell)
	}
	for _, name := range target.Versus {
		i := slices.IndexFunc(results, func(r *duel.Result) bool { return r.ID == target.Cell })
		if i < 0 || results[i].Line(name) == nil {
			t.Errorf("target on %s names %q, which is not there", target.Cell, name)
		}
	}
}

func TestFullRunsHaveEnoughRoundsForVerdictsAndQuickOnesHaveNot(t *testing.T) {
	if min(full.rounds, full.longRounds) < duel.MinRounds {
		t.Errorf("full has %d and %d rounds, want %d", full.rounds, full.longRounds, duel.MinRounds)
	}
	if max(quick.rounds, quick.longRounds) >= duel.MinRounds {
		t.Errorf("quick has %d rounds: it would give verdicts", quick.rounds)
	}
	for _, e := range []effort{full, quick, tiny} {
		if e.stream&(e.stream-1) != 0 {
			t.Errorf("stream length %d is no power of two", e.stream)
		}
	}
}

func TestBadArgumentsAreRefusedWithAHint(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-only", "map,tea"}, "choose from map, actor, route, engine, shards, patterns, server, scale, hash, key"},
		{[]string{"map"}, `unexpected argument "map"`},
		{[]string{"-fast"}, "not defined"},
	} {
		_, err := parse(c.args, io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one with %q", c.args, err, c.want)
		}
	}
}

func TestARunWritesTheSameReportToTheTerminalAndTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "RESULTS.md")
	var screen strings.Builder
	if err := run([]string{"-quick", "-only", "key", "-cell", "key/decode", "-out", file}, &screen, io.Discard); err != nil {
		t.Fatal(err)
	}
	saved, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(saved) != screen.String() {
		t.Error("file and terminal differ")
	}
	for _, want := range []string{"Quick run, not for verdicts", "key/decode", "orderedcode v0.0.1"} {
		if !strings.Contains(screen.String(), want) {
			t.Errorf("report lacks %q", want)
		}
	}
	if strings.Contains(screen.String(), "key/encode") {
		t.Error("report has a cell that was not asked for")
	}
}
