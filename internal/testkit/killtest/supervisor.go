package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// childEnv is set in the environment of a child.
const childEnv = "CLEAVE_ORDEAL_CHILD"

// options are the parameters of a run.
type options struct {
	Seed           uint64
	Stores, Groups int
	Durability     string
	// Lives is how many children are killed.
	Lives int
	// Patient and Contended are passed to each.
	Patient, Contended bool
}

// killTest is several lives of one store.
type killTest struct {
	options
	exePath, dir string
	rng          *rand.Rand
	history      *history
	// isCreated reports whether the store was open once.
	isCreated bool
	// openJobs are those whose end was not reported yet, endedJobs those with one.
	openJobs  map[uint64]jobState
	endedJobs map[uint64]bool
	totals    map[string]int
}

// jobPhases are those of a move between stores that are stored, and so can be seen, in
// their order; those between them last as long as a kill takes to arrive.
var jobPhases = []string{
	"planned", "preparing", "clearing", "locating", "opening", "copying", "catching up", "verifying", "freezing",
	"releasing", "publishing", "dropping", "forgetting", "done",
	"thawing", "abandoning", "wiping", "dismissing", "marking", "hosting", "surveying", "retiring",
}

// planKills returns the moments of a run.
func (r *killTest) planKills() (aims []killPoint) {
	targets := slices.Clone(jobPhases)
	if r.Stores == 1 {
		targets = []string{"local planned", "local releasing", "local done", "planned", "releasing", "done"}
	}
	r.rng.Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
	for i := range r.Lives {
		a := killPoint{Nth: r.rng.IntN(4), Delay: r.drawDuration(10*time.Microsecond, 2*time.Millisecond)}
		switch i % 8 {
		case 0:
			a = killPoint{At: "random", Delay: r.drawDuration(20*time.Millisecond, 400*time.Millisecond)}
		case 2:
			a.At, a.Nth = "commit", 20+r.rng.IntN(100)
		case 4, 6:
			a.At, a.Nth, a.Delay = "answer", 20+r.rng.IntN(100), 0
		default:
			a.At = targets[i/2%len(targets)]
			if r.rng.IntN(2) == 0 {
				a.Delay = 0
			}
		}
		if i > 0 && r.rng.IntN(8) == 0 {
			a = killPoint{At: "start", Delay: r.drawDuration(time.Millisecond, 400*time.Millisecond)}
		}
		aims = append(aims, a)
	}
	return aims
}

// newKillTest makes a run in a new directory.
func newKillTest(self, dir string, o options) *killTest {
	return &killTest{
		options: o, exePath: self, dir: dir, rng: rand.New(rand.NewPCG(o.Seed, 1)), history: newHistory(),
		openJobs: map[uint64]jobState{}, endedJobs: map[uint64]bool{}, totals: map[string]int{},
	}
}

// runLives goes through all lives and judges them.
func (r *killTest) runLives() error {
	lives := append(r.planKills(), killPoint{}) // the last one ends by itself
	for i, a := range lives {
		c := config{
			Dir: r.dir, Stores: r.Stores, Durability: r.Durability, Seed: r.rng.Uint64(), Life: i,
			Last: a.At == "", Patient: r.Patient, Contended: r.Contended,
		}
		if !r.isCreated {
			c.Groups = r.Groups // later there may be more, or fewer
		}
		c.Pending, c.Answered = r.history.listRequests()
		if err := r.runLife(c, a); err != nil {
			return errors.Join(fmt.Errorf("life %d of %d, to be killed at %+v: %w", i, len(lives), a, err), errors.Join(r.history.failures...))
		}
		if len(r.history.failures) > 0 {
			return fmt.Errorf("life %d of %d: %w", i, len(lives), errors.Join(r.history.failures...))
		}
	}
	for id, j := range r.openJobs {
		if j.Phase != "retiring" && j.Phase != "surveying" {
			r.history.failures = append(r.history.failures, fmt.Errorf("nobody heard of the end of %s %d: it is %s", j.Kind, id, j.Phase))
		}
	}
	keys := slices.Collect(maps.Keys(r.history.finalRows))
	err := r.runLife(config{Dir: r.dir, Stores: r.Stores, Inspect: true, Keys: keys}, killPoint{})
	return errors.Join(err, r.history.checkHistories())
}

// runKillTest makes a run in a directory of its own, and returns what it did.
func runKillTest(self string, o options) (map[string]int, error) {
	dir, err := os.MkdirTemp("", "ordeal")
	if err != nil {
		return nil, err
	}
	r := newKillTest(self, dir, o)
	if err := r.runLives(); err != nil {
		return r.totals, fmt.Errorf("%w\nthe store is in %s", err, dir)
	}
	return r.totals, os.RemoveAll(dir)
}

// killPoint is when a child is to be killed.
type killPoint struct {
	// At is "random", "start", "commit", which is when a transaction is about to begin,
	// "answer", when one was acknowledged and its locks are still there, or the phase of
	// a job.
	At string
	// Nth is how many such moments pass before.
	Nth int
	// Delay is from the moment to the kill.
	Delay time.Duration
}

// The longest life of a child that never comes to the moment at which it is to be
// killed.
const maxLifeTime = 700 * time.Millisecond

// runLife starts a child, listens to it, and kills it. An aim at nothing lets it end by
// itself.
func (r *killTest) runLife(c config, a killPoint) error {
	within, cancel := context.WithTimeout(context.Background(), 2*patientTimeout)
	defer cancel()
	proc := exec.CommandContext(within, r.exePath)
	proc.Env = append(proc.Environ(), childEnv+"=1")
	var complaint strings.Builder
	proc.Stderr = &complaint
	in, err := proc.StdinPipe()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := proc.StdoutPipe()
	if err != nil {
		return err
	}
	if err := proc.Start(); err != nil {
		return err
	}
	l := &listener{killTest: r, target: a, kill: proc.Process.Kill}
	err = json.NewEncoder(in).Encode(c)
	for lines := bufio.NewReader(out); err == nil; {
		line, end := lines.ReadBytes('\n')
		if end != nil {
			break // what is left is half a line, which was not said
		}
		err = l.handleLine(line)
	}
	if err != nil {
		cancel()
	}
	ended := proc.Wait()
	l.finishLife()
	switch {
	case err != nil:
		return err
	case l.killed:
		return nil
	case ended != nil || !l.ended:
		return fmt.Errorf("%w: %v: %s", errChildDied, ended, strings.TrimSpace(complaint.String()))
	}
	return nil
}

// errChildDied means that a child ended without being killed.
var errChildDied = errors.New("a child died by itself")

// listener reads the output of one child.
type listener struct {
	*killTest
	target killPoint
	kill   func() error
	// timers are kills to come.
	timers     []*time.Timer
	killed     bool
	ended      bool
	hasReached bool
	lastCounts map[string]uint64
}

func (l *listener) handleLine(line []byte) error {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("a child says %q: %w", line, err)
	}
	l.history.lastTick++
	switch e.Say {
	case eventOpening:
		l.onMoment("start")
	case eventOpen:
		l.isCreated = true
		l.compareFoundJobs(e.Jobs)
		l.onMoment("random")
		l.scheduleKill(maxLifeTime)
	case eventCall:
		l.history.recordCall(e.Client, *e.Call)
		if e.Call.isTxn() {
			l.onMoment("commit")
		}
	case eventAnswer:
		if e.Call.isTxn() {
			l.onMoment("answer")
		}
		l.history.recordAnswer(e.Client, *e.Call)
		l.totals[e.Call.Work]++
	case eventJob:
		l.recordJob(e.Jobs[0])
	case eventCounts:
		l.lastCounts = e.Counts
	case eventTrouble:
		l.history.failures = append(l.history.failures, errors.New(e.Text))
	case eventEnd:
		l.ended = true
	default:
		return fmt.Errorf("a child says %q", line)
	}
	return nil
}

// onMoment kills the child if this is what was waited for.
func (l *listener) onMoment(at string) {
	if at != l.target.At || l.hasReached {
		return
	}
	if l.target.Nth--; l.target.Nth < 0 {
		l.hasReached = true
		l.scheduleKill(l.target.Delay)
	}
}

func (l *listener) scheduleKill(d time.Duration) {
	if l.target.At == "" {
		return
	}
	if d == 0 {
		_ = l.kill() // it may be dead already
		l.killed = true
		return
	}
	l.timers = append(l.timers, time.AfterFunc(d, func() { _ = l.kill() }))
}

// finishLife sums up a life that has ended.
func (l *listener) finishLife() {
	for _, t := range l.timers {
		l.killed = !t.Stop() || l.killed
	}
	for what, n := range l.lastCounts {
		l.totals[what] += int(n)
	}
	l.totals["lives"]++
	if !l.killed {
		return
	}
	l.totals["kills"]++
	if l.hasReached {
		l.totals["kills aimed at "+l.target.At]++
	}
	l.totals["calls with unknown outcome"] += l.history.recordKill()
	for _, j := range l.openJobs {
		if j.Between {
			l.totals["moves killed while "+j.Phase]++
		}
	}
}

// recordJob notes how a job stands.
func (l *listener) recordJob(j jobState) {
	if j.Between || j.Kind != "move" {
		l.onMoment(j.Phase)
	} else {
		l.onMoment("local " + j.Phase)
	}
	if j.Ended {
		l.recordJobEnd(j)
	} else if !l.endedJobs[j.ID] {
		l.openJobs[j.ID] = j
	}
}

// recordJobEnd counts a job that has ended, once.
func (l *listener) recordJobEnd(j jobState) {
	delete(l.openJobs, j.ID)
	if l.endedJobs[j.ID] {
		return
	}
	l.endedJobs[j.ID] = true
	how := j.Kind
	if j.Between {
		how = "move between stores"
	}
	if j.Undone {
		how += " taken back"
	}
	l.totals[how]++
}

// compareFoundJobs compares the jobs that a child finds with those that were under way: each
// that was reported is durable.
func (l *listener) compareFoundJobs(jobs []jobState) {
	here := map[uint64]jobState{}
	for _, j := range jobs {
		here[j.ID] = j
		if !j.Ended && j.Between {
			l.totals["moves found "+j.Phase]++
		}
	}
	for id, was := range l.openJobs {
		j, ok := here[id]
		if !ok {
			l.history.failures = append(l.history.failures, fmt.Errorf("%s %d, last seen %s, is gone after a kill", was.Kind, id, was.Phase))
			delete(l.openJobs, id)
			continue
		}
		l.totals["jobs that went on after a kill"]++
		if j.Ended {
			l.recordJobEnd(j)
		} else {
			l.openJobs[id] = j
		}
	}
	for id, j := range here { // some began just before a kill, or for others
		if !j.Ended {
			l.openJobs[id] = j
		}
	}
}

// drawDuration returns a duration between two: short ones are as likely as long ones.
func (r *killTest) drawDuration(shortest, longest time.Duration) time.Duration {
	return time.Duration(float64(shortest) * math.Pow(float64(longest)/float64(shortest), r.rng.Float64()))
}
