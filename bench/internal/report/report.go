// Package report turns results into tables, the same for the terminal and for
// the results file. It computes no figure of its own and knows none.
package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cleavekv/cleave/bench/internal/duel"
)

// Run is everything that a report says.
type Run struct {
	Machine Machine
	Commit  string
	Command string
	Date    time.Time
	Took    time.Duration
	Rounds  int
	// LongRounds is Rounds of cells with a fixed piece of work.
	LongRounds int
	Window     time.Duration
	// Others is the share of the machine that other processes used during
	// the run, negative if it is not known.
	Others float64
	// Quick marks a run whose figures are only a hint.
	Quick    bool
	Modules  []string
	Sections []Section
	Targets  []duel.Target
}

// Section holds the results of one subject.
type Section struct {
	Title   string
	Results []*duel.Result
}

// Write prints the whole report.
func (r *Run) Write(w io.Writer) {
	fmt.Fprintf(w, "# Results\n\n")
	r.writeHeader(w)
	r.writeTargets(w)
	for _, s := range r.Sections {
		s.Write(w)
	}
	r.writeModules(w)
}

// busyAbove is the share of the machine that others may use before a report
// warns: what they take varies from round to round, and ratios with it.
const busyAbove = 0.1

func others(share float64) string {
	if share < 0 {
		return "unknown"
	}
	return fmt.Sprintf("%.1f %% of the machine during the run", 100*share)
}

func (r *Run) writeHeader(w io.Writer) {
	m := r.Machine
	if r.Quick {
		fmt.Fprintf(w, "**Quick run, not for verdicts.**\n\n")
	}
	if r.Others > busyAbove {
		fmt.Fprintf(w, "**The machine was busy: other processes used %.0f %% of it. Repeat on an idle one.**\n\n", 100*r.Others)
	}
	t := table{text: 2, head: []string{"", "this run"}}
	t.add("commit", r.Commit)
	t.add("date", r.Date.UTC().Format("2006-01-02 15:04 UTC"))
	t.add("command", "`"+r.Command+"` in bench/")
	t.add("machine", fmt.Sprintf("%s, %d cores, %s, load %s at the start", m.CPU, m.Cores, m.OS, m.Load))
	t.add("other work", others(r.Others))
	t.add("Go", m.Go)
	t.add("rounds", fmt.Sprintf("%d interleaved, windows of %v; %d where the work is fixed", r.Rounds, r.Window, r.LongRounds))
	t.add("took", r.Took.Round(time.Second).String())
	t.write(w)
	fmt.Fprintf(w, "Figures are medians over the rounds. A ratio is the peer's cost divided by ours, taken in each round and then as the median: "+
		"above 1 ours is better. The interval is the 95 %% bootstrap one. Under %.1fx either way is a tie.\n\n", duel.TieBelow)
}

func (r *Run) writeTargets(w io.Writer) {
	fmt.Fprintf(w, "## Targets\n\nMet means: the median of at least %d interleaved rounds reaches the target, and the lower end of its interval is at least %.1fx of it.\n\n",
		duel.MinRounds, duel.Slack)
	var results []*duel.Result
	for _, s := range r.Sections {
		results = append(results, s.Results...)
	}
	t := table{text: 3, head: []string{"cell", "ours", "against", "target", "got", "95 %", "verdict"}}
	count := map[duel.Verdict]int{}
	var judged []duel.Target
	for _, target := range r.Targets {
		out := target.Check(results)
		count[out.Verdict]++
		if out.Verdict == duel.NotRun && out.Why == "" {
			continue // its subject was left out of this run
		}
		judged = append(judged, target)
		t.add(outcome(out, results)...)
	}
	fmt.Fprintf(w, "%d met, %d not met, %d undecided (too few rounds), %d not run.\n\n",
		count[duel.Met], count[duel.NotMet], count[duel.Undecided], count[duel.NotRun])
	t.write(w)
	writeSources(w, judged)
}

func outcome(out duel.Outcome, results []*duel.Result) []string {
	t := out.Target
	cell := t.Cell
	if t.Metric != "" {
		cell += ", " + t.Metric
	}
	verdict := string(out.Verdict)
	if out.Why != "" {
		verdict += ": " + out.Why
	}
	if t.AtLeast > 0 {
		return []string{cell, t.Ours, out.Against, "≥ " + ratio(t.AtLeast), ratio(out.Got.Median), interval(out.Got), verdict}
	}
	unit := duel.Nanoseconds
	for _, res := range results {
		if m := res.Metric(t.Metric); res.ID == t.Cell && m >= 0 {
			unit = res.Metrics[m].Unit
		}
	}
	// Got is the limit divided by the figure; print the figure.
	return []string{cell, t.Ours, "", "≤ " + figure(t.AtMost, unit), figure(t.AtMost/out.Got.Median, unit),
		figure(t.AtMost/out.Got.Hi, unit) + "–" + figure(t.AtMost/out.Got.Lo, unit), verdict}
}

// writeSources lists why the targets are what they are, each reason once.
func writeSources(w io.Writer, targets []duel.Target) {
	fmt.Fprintf(w, "Where they come from:\n\n")
	said := map[string]bool{}
	for _, t := range targets {
		if !said[t.Source] {
			said[t.Source] = true
			fmt.Fprintf(w, "- %s\n", t.Source)
		}
	}
	fmt.Fprintln(w)
}

func (r *Run) writeModules(w io.Writer) {
	fmt.Fprintf(w, "## Versions\n\n")
	for _, m := range r.Modules {
		fmt.Fprintf(w, "- %s\n", strings.ReplaceAll(m, "@", " "))
	}
}
