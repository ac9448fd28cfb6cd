package heat

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// PatternKind is a shape in a heat map that has a reason.
type PatternKind uint8

const (
	// Diagonal is a hot place that moves to larger or smaller keys: keys that are written, or scanned, in order.
	Diagonal PatternKind = iota + 1
	// Horizontal is a hot place that stays: a hot key, or a few neighbours.
	Horizontal
	// Vertical is a short time in which most keys are asked far more: a burst.
	Vertical
)

// String is diagonal, horizontal or vertical.
func (k PatternKind) String() string {
	switch k {
	case Diagonal:
		return "diagonal"
	case Horizontal:
		return "horizontal"
	case Vertical:
		return "vertical"
	}
	return fmt.Sprintf("PatternKind(%d)", uint8(k))
}

// Pattern is a shape in a box of a view.
type Pattern struct {
	Kind PatternKind
	// The box, both ends included.
	FirstRow, LastRow, FirstColumn, LastColumn int
	// Strength is how much there is of it, above 0: of a diagonal and of a line the share of all that is asked in the
	// columns of the box, of a burst how many times as much as is usual.
	Strength float64
	// Rate is the mean of a column in what the pattern is made of.
	Rate float64
	// Steps is by how many rows a diagonal moves in a column, negative towards smaller keys, and Lines of how many that
	// are alike a diagonal is made: keys that are in order for each tenant are one for each.
	Steps float64
	Lines int
}

// FindPatterns returns the shapes in a view of rates, the strongest of each kind first: diagonals, lines, bursts. Of even
// load, and of a skew that many keys share, there are none. Columns that are not known are left out.
func FindPatterns(v View) []Pattern {
	p := newPatternFinder(v)
	if p.known < minPatternColumns {
		return nil
	}
	var all []Pattern
	for _, of := range [][]Pattern{p.findDiagonals(), p.findLines(), p.findBursts()} {
		slices.SortStableFunc(of, func(a, b Pattern) int { return cmp.Compare(b.Strength, a.Strength) })
		all = append(all, of[:min(len(of), maxPatterns)]...)
	}
	return all
}

// patternFinder is a view, and what was found in it.
type patternFinder struct {
	rows, columns, known int
	cells                [][]float64 // by column and row, 0 for what is not known
	isKnown              []bool      // by column
	totals               []float64   // of columns
	usual                float64     // the median of totals
	means                []float64   // of rows: see rowMean
	taken                [][]bool    // by column and row: cells that are in a pattern
}

func newPatternFinder(v View) *patternFinder {
	p := &patternFinder{rows: len(v.Cells), columns: len(v.Columns)}
	p.isKnown, p.totals = make([]bool, p.columns), make([]float64, p.columns)
	p.cells, p.taken = make([][]float64, p.columns), make([][]bool, p.columns)
	for c := range p.columns {
		p.cells[c], p.taken[c] = make([]float64, p.rows), make([]bool, p.rows)
	}
	for r, cells := range v.Cells {
		for c, n := range cells[:min(len(cells), p.columns)] {
			if n >= 0 && n <= math.MaxFloat64/float64(p.rows) {
				p.cells[c][r], p.isKnown[c] = n, true
				p.totals[c] += n
			}
		}
	}
	var totals []float64
	for c, n := range p.totals {
		if p.isKnown[c] {
			p.known++
			totals = append(totals, n)
		}
	}
	p.usual = median(totals)
	return p
}

// median is the middle of some numbers, 0 of none.
func median(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}

// shareOf is the part of a column that a cell has. What is little beside the other columns has no shares: three requests of
// a night show nothing.
func (p *patternFinder) shareOf(r, c int) float64 {
	if p.totals[c] <= 0 || p.totals[c] < quietShare*p.usual {
		return 0
	}
	return p.cells[c][r] / p.totals[c]
}

// findLines returns the rows that have a large share of several columns, with gaps, and joins neighbours. A line goes on while
// it has half of what makes one, so that it does not break where it wavers.
func (p *patternFinder) findLines() (lines []Pattern) {
	wanted := max(lineShare, lineTimes/float64(max(p.rows, 1)))
	for r := range p.rows {
		from, last, n, sum, rate := -1, -1, 0, 0.0, 0.0
		end := func() {
			if n >= minPatternColumns && sum >= wanted*float64(n) {
				lines = p.joinLine(lines, Pattern{Kind: Horizontal, FirstRow: r, LastRow: r, FirstColumn: from, LastColumn: last, Strength: sum / float64(n), Rate: rate / float64(n)})
			}
			from, n, sum, rate = -1, 0, 0, 0
		}
		for c := range p.columns {
			if !p.isKnown[c] {
				continue
			}
			least := wanted
			if from >= 0 {
				least /= 2
			}
			if share := p.shareOf(r, c); share >= least && !p.taken[c][r] {
				if from < 0 {
					from = c
				}
				last = c
				n, sum, rate = n+1, sum+share, rate+p.cells[c][r]
			} else if from >= 0 && p.knownBetween(last, c) > max(maxPatternGap, n/4) {
				end()
			}
		}
		end()
	}
	for _, l := range lines {
		p.take(l)
	}
	return lines
}

// joinLine adds a line to the one above it, if they are neighbours at about the same time.
func (p *patternFinder) joinLine(lines []Pattern, l Pattern) []Pattern {
	for i := range lines {
		at := &lines[i]
		overlap := min(at.LastColumn, l.LastColumn) - max(at.FirstColumn, l.FirstColumn) + 1
		if l.FirstRow-at.LastRow <= 2 && 3*overlap > max(at.LastColumn-at.FirstColumn, l.LastColumn-l.FirstColumn)+1 {
			at.FirstColumn, at.LastColumn, at.LastRow = min(at.FirstColumn, l.FirstColumn), max(at.LastColumn, l.LastColumn), l.LastRow
			at.Strength, at.Rate = min(1, at.Strength+l.Strength), at.Rate+l.Rate
			return lines
		}
	}
	return append(lines, l)
}

// knownBetween is how many columns are known behind one up to another.
func (p *patternFinder) knownBetween(from, to int) (n int) {
	for c := from + 1; c <= to; c++ {
		if p.isKnown[c] {
			n++
		}
	}
	return n
}

// take keeps the cells of a box out of other patterns.
func (p *patternFinder) take(b Pattern) {
	for r := b.FirstRow; r <= b.LastRow; r++ {
		for c := b.FirstColumn; c <= b.LastColumn; c++ {
			p.taken[c][r] = true
		}
	}
}

// findBursts returns the runs of columns, shorter than what is usual, with many times the usual load in most rows.
func (p *patternFinder) findBursts() (bursts []Pattern) {
	usual := make([]float64, p.rows) // of rows, without what is in other patterns
	var of []float64
	for r := range p.rows {
		of = of[:0]
		for c := 0; c < p.columns; c += 1 + p.columns/medianColumns {
			if p.isKnown[c] && !p.taken[c][r] {
				of = append(of, p.cells[c][r])
			}
		}
		usual[r] = median(of)
	}
	all := 0.0
	for _, n := range usual {
		all += n
	}
	floor := all / float64(max(p.rows, 1)) / 4 // a row with next to nothing is many times as busy by one request
	isBurst, times := make([]bool, p.columns), make([]float64, p.columns)
	n := 0
	for c := range p.columns {
		rows, busier, sum := 0, 0, 0.0
		for r := range p.rows {
			if p.taken[c][r] {
				continue
			}
			rows++
			sum += p.cells[c][r]
			if p.cells[c][r] > burstTimes*max(usual[r], floor) {
				busier++
			}
		}
		if all > 0 {
			times[c] = min(sum/all, maxBurstTimes)
		}
		isBurst[c] = p.isKnown[c] && rows > 1 && times[c] > burstTimes && float64(busier) >= burstRows*float64(rows)
		if isBurst[c] {
			n++
		}
	}
	if 3*n > p.known { // it is no burst that lasts
		return nil
	}
	for c := 0; c < p.columns; c++ {
		if !isBurst[c] {
			continue
		}
		b := Pattern{Kind: Vertical, LastRow: p.rows - 1, FirstColumn: c, LastColumn: c}
		n := 0.0
		for ; c < p.columns && (isBurst[c] || !p.isKnown[c] || c+1 < p.columns && isBurst[c+1]); c++ {
			if p.isKnown[c] {
				b.Strength, b.Rate, n = b.Strength+times[c], b.Rate+p.totals[c], n+1
			}
			if isBurst[c] {
				b.LastColumn = c
			}
		}
		b.Strength, b.Rate = b.Strength/n, b.Rate/n
		bursts = append(bursts, b)
	}
	return bursts
}
