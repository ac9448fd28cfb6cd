package duel

// Result holds what a cell's contestants did. It refers to no contestant, so
// that their memory is free for the next cell.
type Result struct {
	ID, Title string
	Metrics   []Metric
	Lines     []Line
}

// Line is one contestant's part of a result.
type Line struct {
	Contestant string
	Family     string
	Ours       bool
	// Samples holds for each metric the figure of each round.
	Samples [][]float64
	Facts   []Fact
	// Failed says why there are no samples, if there are none.
	Failed string
}

func newResult(c Cell) *Result {
	res := &Result{ID: c.ID, Title: c.Title, Metrics: c.metrics()}
	for _, k := range c.Contestants {
		res.Lines = append(res.Lines, Line{
			Contestant: k.Name, Family: k.Family, Ours: k.Ours,
			Samples: make([][]float64, len(res.Metrics)),
		})
	}
	return res
}

// add keeps the figures of one round, as many as the cell has metrics.
func (l *Line) add(figures []float64) {
	for m := range l.Samples {
		l.Samples[m] = append(l.Samples[m], figures[m])
	}
}

// Median returns the line's median of metric m, NaN if it failed.
func (l *Line) Median(m int) float64 {
	if l.Failed != "" {
		return Median(nil)
	}
	return Median(l.Samples[m])
}

// Line returns the line of that contestant, or nil.
func (res *Result) Line(contestant string) *Line {
	for i := range res.Lines {
		if res.Lines[i].Contestant == contestant {
			return &res.Lines[i]
		}
	}
	return nil
}

// Metric returns the index of the metric of that name, the first for "", and
// -1 if there is none.
func (res *Result) Metric(name string) int {
	for i, m := range res.Metrics {
		if name == "" || m.Name == name {
			return i
		}
	}
	return -1
}

// Peers returns the lines that ours is compared with.
func (res *Result) Peers(ours *Line) []*Line {
	var peers []*Line
	for i := range res.Lines {
		l := &res.Lines[i]
		if !l.Ours && l.Family == ours.Family && l.Failed == "" {
			peers = append(peers, l)
		}
	}
	return peers
}

// Best returns the line with the lowest median of metric m, nil for none.
func Best(lines []*Line, m int) *Line {
	var best *Line
	for _, l := range lines {
		if best == nil || l.Median(m) < best.Median(m) {
			best = l
		}
	}
	return best
}

// Ratio estimates how many times more peer costs than ours in metric m: above
// 1 ours is the better one. Rounds are paired.
func Ratio(peer, ours *Line, m int) Estimate {
	if peer == nil || ours.Failed != "" || peer.Failed != "" {
		return Bootstrap(nil, 0)
	}
	return Bootstrap(ratios(peer.Samples[m], ours.Samples[m]), 1)
}
