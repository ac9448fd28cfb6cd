package duel

import "math"

// The rule for targets and ties, in one place.
const (
	// MinRounds is how many interleaved rounds a verdict needs.
	MinRounds = 10
	// Slack is how far below a target the lower bound may lie.
	Slack = 0.9
	// TieBelow is the ratio under which two contestants are called equal:
	// between runs on a shared machine medians differ by that much.
	TieBelow = 1.2
)

// Verdict says whether a target was reached.
type Verdict string

// The verdicts.
const (
	Met       Verdict = "met"
	NotMet    Verdict = "NOT MET"
	Undecided Verdict = "undecided" // too few rounds
	NotRun    Verdict = "not run"
)

// Judge applies the rule: a target is met when the median of at least
// MinRounds rounds reaches it and the lower end of the interval is at least
// Slack times the target.
func Judge(ratio Estimate, target float64) Verdict {
	switch {
	case ratio.Rounds < MinRounds:
		return Undecided
	case ratio.Median >= target && ratio.Lo >= Slack*target:
		return Met
	}
	return NotMet
}

// Call says in a word what a ratio means.
func Call(ratio float64) string {
	switch {
	case math.IsNaN(ratio):
		return "–"
	case ratio >= TieBelow:
		return "better"
	case ratio > 1/TieBelow:
		return "tie"
	}
	return "worse"
}
