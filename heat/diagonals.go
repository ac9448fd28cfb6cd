package heat

import (
	"math"
	"slices"
)

// hotRun is a run of rows of a column that have far more than they have at other times.
type hotRun struct {
	column, first, last int
	weight              float64
}

// center is the row in the middle.
func (h hotRun) center() float64 { return float64(h.first+h.last) / 2 }

// track is what was seen of a place that may move.
type track struct {
	runs  []hotRun
	moves []float64 // from run to run
}

func (t *track) last() hotRun { return t.runs[len(t.runs)-1] }

// findDiagonals returns the hot places that move in one direction. Each row of such a place is hot for a short time, where
// one of a line is always.
func (p *patternFinder) findDiagonals() []Pattern {
	if p.rows < minDiagonalRows {
		return nil
	}
	var open, ended []*track
	for c := range p.columns {
		if !p.isKnown[c] {
			continue
		}
		runs := p.hotRuns(c)
		slices.SortFunc(runs, func(a, b hotRun) int { return cmpFloats(b.weight, a.weight) })
		used := make([]bool, len(runs))
		still := open[:0]
		for _, t := range open {
			if best := p.nextOf(t, runs, used); best >= 0 {
				used[best] = true
				t.moves = append(t.moves, runs[best].center()-t.last().center())
				t.runs = append(t.runs, runs[best])
			}
			if p.knownBetween(t.last().column, c) > maxPatternGap {
				ended = append(ended, t)
			} else {
				still = append(still, t)
			}
		}
		open = still
		for i, r := range runs {
			if !used[i] {
				open = append(open, &track{runs: []hotRun{r}})
			}
		}
	}
	var found []Pattern
	for _, t := range append(ended, open...) {
		if d, ok := p.diagonalOf(t); ok {
			found = joinDiagonal(found, d)
			for _, r := range t.runs {
				for row := r.first; row <= r.last; row++ {
					p.taken[r.column][row] = true
				}
			}
		}
	}
	return found
}

func cmpFloats(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// hotRuns are the runs of a column whose rows have many times the share that they have on average over time. A gap of a row
// is none.
func (p *patternFinder) hotRuns(c int) (runs []hotRun) {
	begun := hotRun{first: -1}
	end := func() {
		if begun.first >= 0 && begun.weight >= diagonalShare*p.totals[c] {
			runs = append(runs, begun)
		}
		begun = hotRun{first: -1}
	}
	means := p.meanShares()
	for r, n := range p.cells[c] {
		if share := p.shareOf(r, c); share > 0 && share >= diagonalTimes*means[r] {
			if begun.first < 0 {
				begun = hotRun{column: c, first: r}
			}
			begun.last = r
			begun.weight += n
		} else if begun.first >= 0 && r-begun.last > 2 {
			end()
		}
	}
	end()
	return runs
}

// meanShares are the shares of rows on average over the columns that are known.
func (p *patternFinder) meanShares() []float64 {
	if p.means == nil {
		p.means = make([]float64, p.rows)
		for c, cells := range p.cells {
			for r := range cells {
				p.means[r] += p.shareOf(r, c) / float64(p.known)
			}
		}
	}
	return p.means
}

// nextOf is the run that a track goes on with, -1 if there is none: the nearest one to where it would be.
func (p *patternFinder) nextOf(t *track, runs []hotRun, used []bool) int {
	last := t.last()
	reach := max(float64(p.rows)/8, 3)
	step := 0.0
	if n := len(t.moves); n > 0 {
		step = median(t.moves[max(0, n-stepMoves):])
	}
	best, nearest := -1, math.Inf(1)
	for i, r := range runs {
		if used[i] || r.column == last.column {
			continue
		}
		wanted := last.center() + step*float64(p.knownBetween(last.column, r.column))
		gap := math.Max(0, math.Max(float64(r.first-last.last), float64(last.first-r.last)))
		if off := math.Abs(r.center() - wanted); gap <= reach && off < nearest && off <= 2*reach {
			best, nearest = i, off
		}
	}
	return best
}

// diagonalOf is a track as a pattern, if it moves in one direction.
func (p *patternFinder) diagonalOf(t *track) (Pattern, bool) {
	first, last := t.runs[0], t.last()
	d := Pattern{Kind: Diagonal, FirstRow: first.first, LastRow: first.last, FirstColumn: first.column, LastColumn: last.column, Lines: 1}
	if len(t.runs) < minDiagonalColumns {
		return d, false
	}
	up, down, share := 0, 0, 0.0
	for _, m := range t.moves {
		switch {
		case m > 0:
			up++
		case m < 0:
			down++
		}
	}
	for _, r := range t.runs {
		share += r.weight / p.totals[r.column]
		d.FirstRow, d.LastRow = min(d.FirstRow, r.first), max(d.LastRow, r.last)
		d.Rate += r.weight / float64(len(t.runs))
	}
	d.Strength = share / float64(len(t.runs))
	span := p.knownBetween(first.column, last.column)
	d.Steps = (last.center() - first.center()) / float64(max(span, 1))
	moved := math.Abs(last.center() - first.center())
	isSteady := float64(max(up, down)) >= diagonalSteady*float64(up+down)
	return d, isSteady && moved >= minDiagonalRows && moved >= 2*float64(widthOf(t.runs))
}

// widthOf is the median of how many rows runs have.
func widthOf(runs []hotRun) int {
	var widths []float64
	for _, r := range runs {
		widths = append(widths, float64(r.last-r.first+1))
	}
	return int(median(widths))
}

// joinDiagonal adds a diagonal to one that goes the same way at the same time, or goes on with it right after: keys in the
// order of time within each tenant, or a scan that begins again, have one reason.
func joinDiagonal(found []Pattern, d Pattern) []Pattern {
	for i := range found {
		at := &found[i]
		isNear := d.FirstColumn <= at.LastColumn+1+maxPatternGap && at.FirstColumn <= d.LastColumn+1+maxPatternGap
		if at.Steps*d.Steps <= 0 || !isNear {
			continue
		}
		weight, more := float64(at.LastColumn-at.FirstColumn+1), float64(d.LastColumn-d.FirstColumn+1)
		overlap := max(0, float64(min(at.LastColumn, d.LastColumn)-max(at.FirstColumn, d.FirstColumn)+1))
		at.FirstRow, at.LastRow = min(at.FirstRow, d.FirstRow), max(at.LastRow, d.LastRow)
		at.FirstColumn, at.LastColumn = min(at.FirstColumn, d.FirstColumn), max(at.LastColumn, d.LastColumn)
		at.Strength = math.Min(1, (at.Strength*weight+d.Strength*more)/(weight+more-overlap))
		at.Rate = (at.Rate*weight + d.Rate*more) / (weight + more - overlap)
		at.Steps = (at.Steps*weight + d.Steps*more) / (weight + more)
		at.Lines += d.Lines
		return found
	}
	return append(found, d)
}
