package duel

import (
	"slices"
	"testing"
)

// lines builds a result in which every contestant costs the same each round.
func lines(rounds int, costs ...Line) *Result {
	res := &Result{ID: "cell", Metrics: []Metric{Wall}, Lines: costs}
	for i := range res.Lines {
		if l := &res.Lines[i]; l.Failed == "" {
			l.Samples = [][]float64{slices.Repeat(l.Samples[0], rounds)}
		}
	}
	return res
}

func costs(name string, ours bool, family string, cost float64) Line {
	return Line{Contestant: name, Ours: ours, Family: family, Samples: [][]float64{{cost}}}
}

func field(rounds int) []*Result {
	return []*Result{lines(rounds,
		costs("mine", true, "ring", 10),
		costs("mine too", true, "ring", 40),
		costs("slow peer", false, "ring", 90),
		costs("best peer", false, "ring", 30),
		costs("other game", false, "jump", 1),
		Line{Contestant: "broken", Family: "ring", Failed: "panic"},
	)}
}

func TestTargetsAreJudgedAgainstTheBestPeerOfTheFamily(t *testing.T) {
	for _, c := range []struct {
		why     string
		target  Target
		rounds  int
		want    Verdict
		against string
		got     float64
	}{
		{"reached", Target{Cell: "cell", Ours: "mine", AtLeast: 3}, 10, Met, "best peer", 3},
		{"missed", Target{Cell: "cell", Ours: "mine", AtLeast: 3.1}, 10, NotMet, "best peer", 3},
		{"named peer", Target{Cell: "cell", Ours: "mine", AtLeast: 9, Versus: []string{"slow peer"}}, 10, Met, "slow peer", 9},
		{"named one of ours", Target{Cell: "cell", Ours: "mine", AtLeast: 4, Versus: []string{"mine too"}}, 10, Met, "mine too", 4},
		{"few rounds", Target{Cell: "cell", Ours: "mine", AtLeast: 3}, 9, Undecided, "best peer", 3},
		{"limit kept", Target{Cell: "cell", Ours: "mine", AtMost: 10}, 10, Met, "", 1},
		{"limit broken", Target{Cell: "cell", Ours: "mine", AtMost: 9}, 10, NotMet, "", 0.9},
	} {
		got := c.target.Check(field(c.rounds))
		if got.Verdict != c.want || got.Against != c.against || got.Got.Median != c.got {
			t.Errorf("%s: %q against %q with %v, want %q against %q with %v",
				c.why, got.Verdict, got.Against, got.Got.Median, c.want, c.against, c.got)
		}
	}
}

func TestTargetsThatCannotBeJudgedSayWhy(t *testing.T) {
	if got := (Target{Cell: "elsewhere", Ours: "mine", AtLeast: 1}).Check(field(10)); got.Verdict != NotRun {
		t.Errorf("cell that did not run: %q", got.Verdict)
	}
	if got := (Target{Cell: "cell", Ours: "nobody", AtLeast: 1}).Check(field(10)); got.Verdict != NotRun || got.Why == "" {
		t.Errorf("unknown contestant: %q, %q", got.Verdict, got.Why)
	}
	if got := (Target{Cell: "cell", Ours: "broken", AtLeast: 1}).Check(field(10)); got.Verdict != NotMet || got.Why != "panic" {
		t.Errorf("failed contestant: %q, %q", got.Verdict, got.Why)
	}
	if got := (Target{Cell: "cell", Ours: "mine", AtLeast: 1, Versus: []string{"broken"}}).Check(field(10)); got.Verdict != NotRun || got.Why == "" {
		t.Errorf("failed peer: %q, %q", got.Verdict, got.Why)
	}
}
