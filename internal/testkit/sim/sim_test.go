package sim

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/testkit/tally"
)

// seedFromEnv returns the seed of CLEAVE_SEED, if it is set.
func seedFromEnv(t *testing.T) (seed uint64, set bool) {
	s := os.Getenv("CLEAVE_SEED")
	if s == "" {
		return 1, false
	}
	seed, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("CLEAVE_SEED=%s: use a number", s)
	}
	return seed, true
}

// worldConfig makes a world out of a seed: one store or several, few groups or more.
func worldConfig(seed uint64) Config {
	c := Config{Seed: seed, Stores: 2, Groups: 2, Clients: 4, Ops: 20, Faults: AllFaults, Jobs: true}
	c.SkipRecords = (seed+seed/8)%2 == 0
	switch seed % 8 {
	case 3:
		c.Stores, c.Groups = 1, 4
	case 5:
		c.Stores, c.Groups = 3, 1
	case 6: // calm, so that jobs and transactions come far
		c.Faults = Dropped | Late | Duplicated
	}
	return c
}

// contendedConfig makes one in which transactions contend: undisturbed,
// so that none may starve, or with messages that are lost and clocks past
// deadlines.
func contendedConfig(seed uint64) Config {
	c := Config{Seed: seed, Stores: 3, Groups: 1, Clients: 8, Ops: 50, Contended: true}
	if seed%2 == 0 {
		c.Faults = Dropped | Late | Duplicated | ClockJump
	}
	return c
}

// runWorld runs a world, and prints all that is needed to play it again.
func runWorld(t *testing.T, cfg Config, counts *tally.Counts) Result {
	t.Helper()
	r := Run(cfg)
	for what, n := range r.Counts {
		counts.Add(what, n)
	}
	counts.Add("worlds", 1)
	counts.Add("events", r.Events)
	if r.Err == nil {
		return r
	}
	aim := ""
	if cfg.Aim != (Cell{}) {
		aim = fmt.Sprintf("; it aims at %v", cfg.Aim)
	}
	t.Errorf("%v\nreplay with CLEAVE_SEED=%d go test -run '^%s$' ./internal/testkit/sim%s", r.Err, cfg.Seed, t.Name(), aim)
	if os.Getenv("CLEAVE_PLANT") == "" {
		small, last := Shrink(cfg, 40)
		t.Errorf("the smallest that fails: %+v, after %d events: %v", small, last.Events, last.Err)
	}
	return r
}

// Whatever happens: what was acknowledged is there, every history is one of a
// strictly serializable store, one group serves each position, and ten seconds
// after the last fault nothing is left to do.
func TestPromisesAreKeptWhateverHappens(t *testing.T) {
	first, one := seedFromEnv(t)
	counts := new(tally.Counts)
	if one {
		runWorld(t, worldConfig(first), counts)
		return
	}
	worlds := uint64(12)
	switch {
	case os.Getenv("CLEAVE_PLANT") != "": // the first that notices is enough
		worlds = 250
	case os.Getenv("CLEAVE_SOAK") == "1":
		worlds = 200
	case testing.Short() || raceEnabled: // the engine checks itself ten times as much then
		worlds = 2
	}
	for seed := first; seed < first+worlds && !t.Failed(); seed++ {
		runWorld(t, worldConfig(seed), counts)
	}
	counts.Log(t, "moves done", "transactions committed", "store crash", "rows pinned")
}

// Transactions that touch the same few keys, in two phases, and take their time:
// each happens at one moment, and each comes to its turn.
func TestTransactionsInEachOthersWayHappenOneAfterTheOther(t *testing.T) {
	first, one := seedFromEnv(t)
	counts := new(tally.Counts)
	if one {
		runWorld(t, contendedConfig(first), counts)
		return
	}
	worlds := uint64(8)
	switch {
	case os.Getenv("CLEAVE_PLANT") != "":
		worlds = 40
	case os.Getenv("CLEAVE_SOAK") == "1":
		worlds = 100
	case testing.Short() || raceEnabled:
		worlds = 2
	}
	tries := 0
	for seed := first; seed < first+worlds && !t.Failed(); seed++ {
		tries = max(tries, runWorld(t, contendedConfig(seed), counts).MaxTries)
	}
	counts.Add("tries of the transaction with the most", tries)
	counts.Log(t, "transactions committed", "transactions aborted", "transactions that locked first ok", "roll calls", "writes behind a fence", "rows pinned", "rows turned away")
}

// Sagas whose runners die and overtake each other, while stores crash and shards move:
// each ends completed or compensated, and no step takes effect twice.
func TestSagasEndWholeOrUndoneWhateverHappens(t *testing.T) {
	first, one := seedFromEnv(t)
	counts := new(tally.Counts)
	world := func(seed uint64) Config {
		c := worldConfig(seed)
		c.Sagas, c.Ops = true, 8 // each of many steps
		return c
	}
	if one {
		runWorld(t, world(first), counts)
		return
	}
	worlds := uint64(6)
	switch {
	case os.Getenv("CLEAVE_PLANT") != "":
		worlds = 40
	case os.Getenv("CLEAVE_SOAK") == "1":
		worlds = 100
	case testing.Short():
		worlds = 2
	default:
		skipUnderRace(t)
	}
	for seed := first; seed < first+worlds && !t.Failed(); seed++ {
		runWorld(t, world(seed), counts)
	}
	counts.Log(t, "sagas completed", "sagas compensated", "sagas cancelled", "runners of sagas that died", "runners of sagas that were overtaken",
		"answers to sagas that were lost", "sagas resumed at the end", "moves done", "store crash")
}

// A run in which a fault has missed a phase has shown nothing about it.
func TestEachFaultInEachPhaseIsSurvived(t *testing.T) {
	if testing.Short() {
		t.Skip("plays many worlds")
	}
	skipUnderRace(t)
	counts := new(tally.Counts)
	cells := map[Cell]int{}
	for seed := uint64(100); seed < 112 && !t.Failed(); seed++ {
		addCells(cells, runWorld(t, worldConfig(seed), counts))
	}
	for _, cell := range Matrix() {
		runUntilHit(t, cell, cells, counts)
		counts.Add("faults in phases", cells[cell])
		if cells[cell] == 0 && !t.Failed() {
			t.Errorf("there was no %v: the test shows nothing about it", cell)
		}
	}
	counts.Log(t, "splits done", "merges done", "moves done", "moves between stores done", "jobs taken back", "transactions committed",
		"transactions aborted", "transactions joint", "decisions resumed", "cutovers with locks", "calls to a wrong group",
		"store crash", "process crash", "clock jump", "stores that died of a failed sync", "commits that a full disk refused",
		"pre-splits done", "drains done", "undrains done", "regroups done", "groups added", "groups removed", "jobs paused", "jobs throttled",
		"jobs stopped by others", "transactions that locked first ok", "leases given", "roll calls", "ranges taken over", "records not stored",
		"parts of one shard", "parts of several shards")
}

// withoutRaceTests are the tests that are played without the race detector, the last two with it as well: in
// a world there is one goroutine, and the engine below is ten times as slow with it. A soak has the
// time for most.
var withoutRaceTests = []string{
	"TestARunCanBeRepeated", "TestEachFaultInEachPhaseIsSurvived", "TestSagasEndWholeOrUndoneWhateverHappens",
	"TestSplitCountersAreExactWhateverHappens", "TestQueuesKeepWhatTheyPromiseWhateverHappens", "TestTransactionsSeeWhoHasComeWhateverHappens",
	"TestPromisesAreKeptWhileHeatIsRelieved",
	"TestPromisesAreKeptWhateverHappens", "TestTransactionsInEachOthersWayHappenOneAfterTheOther",
}

func TestWithoutTheRaceDetector(t *testing.T) {
	if !raceEnabled || testing.Short() {
		t.Skip("they are played as they are")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go tool to build with")
	}
	c := exec.Command(goTool, "test", "-count=1", "-v", "-vet=off", "-timeout=30m", "-run", "^("+strings.Join(withoutRaceTests, "|")+")$", ".")
	c.Env = append(os.Environ(), "CLEAVE_SOAK=")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, name := range withoutRaceTests {
		if !strings.Contains(string(out), "--- PASS: "+name) && !t.Failed() {
			t.Errorf("%s was not played", name)
		}
	}
}

// skipUnderRace leaves a test to TestWithoutTheRaceDetector, unless it is asked for a world.
func skipUnderRace(t *testing.T) {
	if !slices.Contains(withoutRaceTests, t.Name()) {
		t.Errorf("nobody plays %s without the race detector", t.Name())
	}
	if _, one := seedFromEnv(t); raceEnabled && !one && !testing.Short() {
		t.Skip("TestWithoutTheRaceDetector plays it")
	}
}

// runUntilHit plays worlds until a fault has happened in a phase that chance has missed.
func runUntilHit(t *testing.T, cell Cell, cells map[Cell]int, counts *tally.Counts) {
	for seed := uint64(1000); cells[cell] == 0 && seed < 1030 && !t.Failed(); seed++ {
		cfg := worldConfig(8) // two stores
		cfg.Seed, cfg.Aim, cfg.Ops = seed, cell, 30
		cfg.Faults = cell.Fault
		cfg.SkipRecords = strings.HasSuffix(cell.Phase, notStoredSuffix)
		addCells(cells, runWorld(t, cfg, counts))
		counts.Add("worlds with an aim", 1)
	}
}

func addCells(cells map[Cell]int, r Result) {
	for cell, n := range r.Cells {
		cells[cell] += n
	}
}

// The same seed is the same run, to the last reply.
func TestARunCanBeRepeated(t *testing.T) {
	skipUnderRace(t)
	first, _ := seedFromEnv(t)
	for seed := first; seed < first+2; seed++ {
		for _, config := range []func(uint64) Config{worldConfig, heatConfig} {
			a, b := Run(config(seed)), Run(config(seed))
			if a.Hash != b.Hash || a.Events != b.Events {
				t.Errorf("%+v: %x after %d events, and then %x after %d", config(seed), a.Hash, a.Events, b.Hash, b.Events)
			}
			if c := Run(config(seed + 8)); c.Hash == a.Hash {
				t.Errorf("seeds %d and %d give the same run", seed, seed+8)
			}
		}
	}
}

// patternConfig makes a world whose clients use a pattern on the store: with all faults and
// jobs, or undisturbed and in each other's way.
func patternConfig(load string, seed uint64) Config {
	c := worldConfig(seed)
	if seed%4 == 1 {
		c = contendedConfig(seed)
	}
	c.Workload, c.Ops = load, 40
	if load == "rounds" && seed%4 != 1 {
		c.Stores, c.Groups, c.Jobs = 1, 4, true // most moves are within a store
	}
	return c
}

// runPattern plays worlds of a pattern.
func runPattern(t *testing.T, load string, want ...string) {
	runWorlds(t, func(seed uint64) Config { return patternConfig(load, seed) }, 4, want...)
}

// runWorlds plays worlds, two of them if short, checks that what is wanted has happened, and returns what has.
func runWorlds(t *testing.T, config func(seed uint64) Config, worlds uint64, want ...string) *tally.Counts {
	t.Helper()
	first, one := seedFromEnv(t)
	counts := new(tally.Counts)
	switch {
	case one:
		worlds = 1
	case os.Getenv("CLEAVE_PLANT") != "":
		worlds = 80
	case os.Getenv("CLEAVE_SOAK") == "1":
		worlds = 100
	case testing.Short():
		worlds = 2
	default:
		skipUnderRace(t)
	}
	for seed := first; seed < first+worlds && !t.Failed(); seed++ {
		runWorld(t, config(seed), counts)
	}
	if one {
		want = nil
	}
	counts.Log(t, want...)
	return counts
}

// heatConfig makes a world with hot keys, which the heat loop relieves at its fastest, alone or beside the operator.
func heatConfig(seed uint64) Config {
	c := worldConfig(seed)
	c.Heat = []string{"zipf", "edge"}[seed%2]
	c.Jobs, c.Ops = seed%4 < 2, 30
	return c
}

// While what is hot is split, moved and merged as fast as the planner can be made to, all promises are kept.
func TestPromisesAreKeptWhileHeatIsRelieved(t *testing.T) {
	counts := runWorlds(t, heatConfig, 4, "rounds of the heat loop")
	begun := []string{"splits by heat admitted", "moves by heat admitted", "merges by heat admitted"}
	if _, one := seedFromEnv(t); !one && !t.Failed() && !counts.Has(begun...) {
		t.Errorf("not all of %q have happened: the test shows nothing", begun) // short or not: the first worlds have them
	}
}

// Sums of a split counter are exact while it grows, shrinks and moves, whatever happens.
func TestSplitCountersAreExactWhateverHappens(t *testing.T) {
	runPattern(t, "counter", "resizes of a split counter", "adds to a part that was closed")
}

// What is put into a queue comes until it is acknowledged, in the order of its key, while
// the number of shards changes and they move, whatever happens.
func TestQueuesKeepWhatTheyPromiseWhateverHappens(t *testing.T) {
	runPattern(t, "queue", "messages published", "messages delivered", "messages acknowledged", "resizes of a queue", "buckets drained")
}

// What a transaction has scanned stays so until it has happened, also if a part of it moves
// in between: a visitor that came before it and saw nothing of it is seen by it.
func TestTransactionsSeeWhoHasComeWhateverHappens(t *testing.T) {
	runPattern(t, "rounds", "rounds", "visitors", "parts of several shards")
}
