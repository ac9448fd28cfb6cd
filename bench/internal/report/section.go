package report

import (
	"fmt"
	"io"
	"slices"

	"github.com/cleavekv/cleave/bench/internal/duel"
)

// Write prints one subject: ratios first, then the figures behind them.
func (s *Section) Write(w io.Writer) {
	fmt.Fprintf(w, "## %s\n\n", s.Title)
	for _, res := range s.Results {
		fmt.Fprintf(w, "- `%s`: %s\n", res.ID, res.Title)
	}
	fmt.Fprintf(w, "\n### Ours against the best peer\n\n")
	writeRatios(w, s.Results)
	fmt.Fprintf(w, "### All figures\n\n")
	for _, group := range alike(s.Results) {
		if hasFacts(group[0]) {
			for _, res := range group {
				writeTall(w, res)
			}
			continue
		}
		for m := range group[0].Metrics {
			writeMatrix(w, group, m)
		}
	}
	writeFailures(w, s.Results)
}

// writeRatios prints a line for each of ours, metric by metric. Where there are several peers, CPU is left
// to the figures below: the best peer in time need not be the best in CPU, and
// two answers to one question help nobody.
func writeRatios(w io.Writer, results []*duel.Result) {
	t := table{text: 2, head: []string{"cell", "ours", "figure", "best peer", "its figure", "ratio", "95 %", "so"}}
	for _, res := range results {
		for m, metric := range res.Metrics {
			for i := range res.Lines {
				ours := &res.Lines[i]
				if !ours.Ours {
					continue
				}
				peers := res.Peers(ours)
				if len(peers) == 0 || metric == duel.CPU && len(peers) > 1 {
					continue
				}
				peer := duel.Best(peers, m)
				r := duel.Ratio(peer, ours, m)
				t.add(cellName(res, m), ours.Contestant, figure(ours.Median(m), metric.Unit),
					peer.Contestant, figure(peer.Median(m), metric.Unit), ratio(r.Median), interval(r), duel.Call(r.Median))
			}
		}
	}
	t.write(w)
}

// cellName is the cell's name, with the metric unless it is plain time.
func cellName(res *duel.Result, m int) string {
	if res.Metrics[m] == duel.Wall {
		return res.ID
	}
	return res.ID + ", " + res.Metrics[m].Name
}

// alike groups consecutive results that have the same contestants and
// metrics, so that they fit one table.
func alike(results []*duel.Result) [][]*duel.Result {
	same := func(a, b *duel.Result) bool {
		return slices.Equal(a.Metrics, b.Metrics) && slices.EqualFunc(a.Lines, b.Lines,
			func(x, y duel.Line) bool { return x.Contestant == y.Contestant })
	}
	var groups [][]*duel.Result
	for _, res := range results {
		if n := len(groups); n > 0 && same(groups[n-1][0], res) {
			groups[n-1] = append(groups[n-1], res)
			continue
		}
		groups = append(groups, []*duel.Result{res})
	}
	return groups
}

func hasFacts(res *duel.Result) bool {
	return slices.ContainsFunc(res.Lines, func(l duel.Line) bool { return len(l.Facts) > 0 })
}

// writeMatrix prints one metric of results alike: a row a cell, a column a
// contestant.
func writeMatrix(w io.Writer, group []*duel.Result, m int) {
	metric := group[0].Metrics[m]
	t := table{text: 1, head: []string{metric.Name}}
	for _, l := range group[0].Lines {
		t.head = append(t.head, l.Contestant)
	}
	for _, res := range group {
		row := []string{res.ID}
		for i := range res.Lines {
			row = append(row, figure(res.Lines[i].Median(m), metric.Unit))
		}
		t.add(row...)
	}
	t.write(w)
}

// writeTall prints one result: a row a contestant, its facts beside its
// figures.
func writeTall(w io.Writer, res *duel.Result) {
	var facts []string
	for _, l := range res.Lines {
		for _, f := range l.Facts {
			if !slices.Contains(facts, f.Name) {
				facts = append(facts, f.Name)
			}
		}
	}
	t := table{text: 1, head: []string{res.ID}}
	for _, metric := range res.Metrics {
		t.head = append(t.head, metric.Name)
	}
	t.head = append(t.head, facts...)
	for i := range res.Lines {
		l := &res.Lines[i]
		row := []string{l.Contestant}
		for m, metric := range res.Metrics {
			row = append(row, figure(l.Median(m), metric.Unit))
		}
		for _, name := range facts {
			row = append(row, factOf(l, name))
		}
		t.add(row...)
	}
	t.write(w)
}

func factOf(l *duel.Line, name string) string {
	for _, f := range l.Facts {
		if f.Name == name {
			return fmt.Sprintf("%.3g", f.Value)
		}
	}
	return "–"
}

// writeFailures names the contestants that did not finish.
func writeFailures(w io.Writer, results []*duel.Result) {
	for _, res := range results {
		for _, l := range res.Lines {
			if l.Failed != "" {
				fmt.Fprintf(w, "%s did not finish `%s`: %s\n\n", l.Contestant, res.ID, l.Failed)
			}
		}
	}
}
