package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"strings"
	"time"
)

// aim is when a child is to be killed.
type aim struct {
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
const longestLife = 700 * time.Millisecond

// life starts a child, listens to it, and kills it. An aim at nothing lets it end by
// itself.
func (r *run) life(c config, a aim) error {
	within, cancel := context.WithTimeout(context.Background(), 2*longPatience)
	defer cancel()
	proc := exec.CommandContext(within, r.self)
	proc.Env = append(proc.Environ(), childVariable+"=1")
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
	l := &listener{run: r, aim: a, kill: proc.Process.Kill}
	err = json.NewEncoder(in).Encode(c)
	for lines := bufio.NewReader(out); err == nil; {
		line, end := lines.ReadBytes('\n')
		if end != nil {
			break // what is left is half a line, which was not said
		}
		err = l.hear(line)
	}
	if err != nil {
		cancel()
	}
	ended := proc.Wait()
	l.over()
	switch {
	case err != nil:
		return err
	case l.killed:
		return nil
	case ended != nil || !l.ended:
		return fmt.Errorf("%w: %v: %s", errDied, ended, strings.TrimSpace(complaint.String()))
	}
	return nil
}

// errDied means that a child ended that nobody has killed.
var errDied = errors.New("a child died by itself")

// listener hears one child.
type listener struct {
	*run
	aim  aim
	kill func() error
	// timers are kills to come.
	timers []*time.Timer
	killed bool
	ended  bool
	met    bool
	counts map[string]uint64
}

func (l *listener) hear(line []byte) error {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("a child says %q: %w", line, err)
	}
	l.history.tick++
	switch e.Say {
	case sayOpening:
		l.moment("start")
	case sayOpen:
		l.made = true
		l.found(e.Jobs)
		l.moment("random")
		l.killIn(longestLife)
	case sayCall:
		l.history.begin(e.Client, *e.Call)
		if e.Call.transacts() {
			l.moment("commit")
		}
	case sayAnswer:
		if e.Call.transacts() {
			l.moment("answer")
		}
		l.history.answer(e.Client, *e.Call)
		l.did[e.Call.Work]++
	case sayJob:
		l.heardJob(e.Jobs[0])
	case sayCounts:
		l.counts = e.Counts
	case sayTrouble:
		l.history.wrong = append(l.history.wrong, errors.New(e.Text))
	case sayEnd:
		l.ended = true
	default:
		return fmt.Errorf("a child says %q", line)
	}
	return nil
}

// moment kills the child if this is what was waited for.
func (l *listener) moment(at string) {
	if at != l.aim.At || l.met {
		return
	}
	if l.aim.Nth--; l.aim.Nth < 0 {
		l.met = true
		l.killIn(l.aim.Delay)
	}
}

func (l *listener) killIn(d time.Duration) {
	if l.aim.At == "" {
		return
	}
	if d == 0 {
		_ = l.kill() // it may be dead already
		l.killed = true
		return
	}
	l.timers = append(l.timers, time.AfterFunc(d, func() { _ = l.kill() }))
}

// over sums up a life that has ended.
func (l *listener) over() {
	for _, t := range l.timers {
		l.killed = !t.Stop() || l.killed
	}
	for what, n := range l.counts {
		l.did[what] += int(n)
	}
	l.did["lives"]++
	if !l.killed {
		return
	}
	l.did["kills"]++
	if l.met {
		l.did["kills aimed at "+l.aim.At]++
	}
	l.did["calls with unknown outcome"] += l.history.kill()
	for _, j := range l.jobs {
		if j.Between {
			l.did["moves killed while "+j.Phase]++
		}
	}
}

// heardJob notes how a job stands.
func (l *listener) heardJob(j job) {
	if j.Between || j.Kind != "move" {
		l.moment(j.Phase)
	} else {
		l.moment("local " + j.Phase)
	}
	if j.Ended {
		l.endedJob(j)
	} else if !l.overJobs[j.ID] {
		l.jobs[j.ID] = j
	}
}

// endedJob counts a job that has ended, once.
func (l *listener) endedJob(j job) {
	delete(l.jobs, j.ID)
	if l.overJobs[j.ID] {
		return
	}
	l.overJobs[j.ID] = true
	how := j.Kind
	if j.Between {
		how = "move between stores"
	}
	if j.Undone {
		how += " taken back"
	}
	l.did[how]++
}

// found compares the jobs that a child finds with those that were under way: each
// that was heard of is durable.
func (l *listener) found(jobs []job) {
	here := map[uint64]job{}
	for _, j := range jobs {
		here[j.ID] = j
		if !j.Ended && j.Between {
			l.did["moves found "+j.Phase]++
		}
	}
	for id, was := range l.jobs {
		j, ok := here[id]
		if !ok {
			l.history.wrong = append(l.history.wrong, fmt.Errorf("%s %d, last seen %s, is gone after a kill", was.Kind, id, was.Phase))
			delete(l.jobs, id)
			continue
		}
		l.did["jobs that went on after a kill"]++
		if j.Ended {
			l.endedJob(j)
		} else {
			l.jobs[id] = j
		}
	}
	for id, j := range here { // some began just before a kill, or for others
		if !j.Ended {
			l.jobs[id] = j
		}
	}
}

// between returns a duration between two: short ones are as likely as long ones.
func (r *run) between(shortest, longest time.Duration) time.Duration {
	return time.Duration(float64(shortest) * math.Pow(float64(longest)/float64(shortest), r.rng.Float64()))
}
