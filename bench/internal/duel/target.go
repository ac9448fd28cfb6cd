package duel

import (
	"fmt"
	"slices"
)

// Target is a promise about one contestant in one cell.
type Target struct {
	Cell string
	// Metric is the name of the metric, or empty for the cell's first.
	Metric string
	Ours   string
	// Versus names the only peers that count. Empty means the best one of
	// Ours' family.
	Versus []string
	// AtLeast is the ratio to reach against the best of them.
	AtLeast float64
	// AtMost, where there is no AtLeast, is the largest figure allowed, in
	// the metric's own unit.
	AtMost float64
	// Every makes AtMost hold for the worst round, not for the median: what is
	// promised of all but one in a hundred is promised of each of a few.
	Every bool
	// Source says where the target comes from.
	Source string
}

// Outcome is a target with what became of it.
type Outcome struct {
	Target  Target
	Verdict Verdict
	// Against is the peer that Got was taken against, empty for AtMost.
	Against string
	// Got is the ratio; for AtMost it is the limit divided by the figure, so
	// that 1 reaches it.
	Got Estimate
	// Why explains a target that could not be judged.
	Why string
}

// Check judges t by the results, which may lack its cell.
func (t Target) Check(results []*Result) Outcome {
	out := Outcome{Target: t, Verdict: NotRun}
	res := find(results, t.Cell)
	if res == nil {
		return out
	}
	ours, m := res.Line(t.Ours), res.Metric(t.Metric)
	switch {
	case ours == nil || m < 0:
		out.Why = fmt.Sprintf("no %s %s in this cell", t.Ours, t.Metric)
		return out
	case ours.Failed != "":
		out.Verdict, out.Why = NotMet, ours.Failed
		return out
	}
	if t.AtLeast == 0 {
		limit := make([]float64, len(ours.Samples[m]))
		for i := range limit {
			limit[i] = t.AtMost
		}
		got := ratios(limit, ours.Samples[m])
		out.Got = Bootstrap(got, 1)
		if t.Every && len(got) > 0 {
			worst := slices.Min(got)
			out.Got.Median, out.Got.Lo, out.Got.Hi = worst, worst, worst
		}
		out.Verdict = Judge(out.Got, 1)
		return out
	}
	peer := Best(t.peers(res, ours), m)
	if peer == nil {
		out.Why = "no peer finished"
		return out
	}
	out.Against = peer.Contestant
	out.Got = Ratio(peer, ours, m)
	out.Verdict = Judge(out.Got, t.AtLeast)
	return out
}

// peers returns the lines that count for the target. A name in Versus may be
// one of ours: then two of ours are compared.
func (t Target) peers(res *Result, ours *Line) []*Line {
	if len(t.Versus) == 0 {
		return res.Peers(ours)
	}
	var named []*Line
	for _, name := range t.Versus {
		if l := res.Line(name); l != nil && l.Failed == "" {
			named = append(named, l)
		}
	}
	return named
}

func find(results []*Result, id string) *Result {
	for _, r := range results {
		if r.ID == id {
			return r
		}
	}
	return nil
}
