package advisor

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/advisor/internal/sketch"
)

// storedRow is a row of the sample. Its values lie in data, one behind the other.
type storedRow struct {
	place uint64 // its number among all rows
	bytes int
	data  string
	ends  []uint32 // of the values; the highest bit marks a null
}

const nullBit = 1 << 31

// value returns a value of the row, and false for a null.
func (r *storedRow) value(column int) (string, bool) {
	if column >= len(r.ends) || r.ends[column]&nullBit != 0 {
		return "", false
	}
	start := uint32(0)
	if column > 0 {
		start = r.ends[column-1] &^ nullBit
	}
	return r.data[start:r.ends[column]], true
}

// burst is a number of rows that came one after the other.
type burst struct {
	number uint64
	rows   []storedRow
}

// collector takes all records of a source in and keeps what bounded memory allows.
type collector struct {
	columns []*column
	named   columnRegistry
	taken   map[string]bool // identifiers in use
	rows    uint64
	bytes   uint64 // of all rows in the input
	input   int64
	sample  *sketch.Sample[storedRow]
	bursts  []burst
	choice  sketch.Bursts
	// burstBytes is the size of all bursts.
	burstBytes int
	skipped    int64
	problems   []Problem
	// ordered is the sample in the order of a column; nil if that of the input is kept.
	ordered []storedRow
}

// sampleRows returns the sample in the order in which rows were written.
func (c *collector) sampleRows() []storedRow {
	if c.ordered != nil {
		return c.ordered
	}
	return c.sample.Items()
}

func newCollector(seed uint64) *collector {
	return &collector{
		named:  columnRegistry{byName: map[string]*column{}},
		taken:  map[string]bool{},
		sample: sketch.NewSample[storedRow](maxSampleRows, maxSampleBytes, seed),
		choice: sketch.Bursts{Length: burstRows, Limit: maxBursts},
	}
}

// addPart takes in a part that was counted. Parts come in the order of the input.
func (c *collector) addPart(p *part) {
	r := &p.records
	c.input += r.input
	c.skipped += r.skipped
	c.addProblems(r.problems...)
	for i, col := range p.columns {
		if col == nil {
			continue // there are enough
		}
		if col.number < 0 && len(c.columns) < MaxColumns {
			col.number = len(c.columns)
			col.ident = identifierOf(col.name, c.taken)
			c.columns = append(c.columns, col)
			if len(c.columns) == MaxColumns {
				c.named.close(c.columns)
			}
		}
		if col.number < 0 {
			c.addProblems(Problem{Column: col.name, What: fmt.Sprintf("left out, like all columns after the first %d", MaxColumns)})
			p.columns[i] = nil
		}
	}
	for _, f := range p.frequent {
		if col := p.columns[f.column]; col != nil {
			col.heavy.AddMissed(uint64(f.missed))
			for _, v := range f.values {
				col.heavy.Add(v.Hash, uint64(v.Count), r.textOf(r.values[v.Ref]))
			}
		}
	}
	c.addRows(p)
}

func (c *collector) addProblems(found ...Problem) {
	c.problems = append(c.problems, found[:min(len(found), maxNamedProblems-len(c.problems))]...)
}

// addRows counts rows, and keeps those that chance or their burst wants.
func (c *collector) addRows(p *part) {
	first := 0
	for _, end := range p.records.ends {
		place := c.rows
		c.rows++
		c.bytes += uint64(end.bytes)
		number, inBurst := c.choice.BurstOf(place)
		if chosen := c.sample.Chooses(place); chosen || inBurst {
			row := p.newStoredRow(first, end, place)
			size := len(row.data) + 4*len(row.ends) + 80
			if chosen {
				c.sample.Add(place, row, size)
			}
			if inBurst {
				c.addToBurst(number, row, size)
			}
		}
		first = int(end.end)
	}
}

// addToBurst keeps a row of a burst, and drops bursts that are no longer kept.
func (c *collector) addToBurst(number uint64, row storedRow, size int) {
	if n := len(c.bursts); n == 0 || c.bursts[n-1].number != number {
		kept := c.bursts[:0]
		for _, old := range c.bursts {
			if c.choice.Keeps(old.number) {
				kept = append(kept, old)
				continue
			}
			for _, r := range old.rows {
				c.burstBytes -= len(r.data) + 4*len(r.ends) + 80
			}
		}
		clear(c.bursts[len(kept):])
		c.bursts = append(kept, burst{number: number})
	}
	if c.burstBytes+size > maxBurstBytes {
		return // the burst is shorter then
	}
	c.burstBytes += size
	last := &c.bursts[len(c.bursts)-1]
	last.rows = append(last.rows, row)
}

// newStoredRow copies a row, its values in the order of the collector's columns.
func (p *part) newStoredRow(first int, end recordEnd, place uint64) storedRow {
	r := &p.records
	values := r.values[first:end.end]
	width := 0
	for i := range values {
		if col := p.columns[i]; col != nil {
			width = max(width, col.number+1)
		}
	}
	row := storedRow{place: place, bytes: int(end.bytes), ends: make([]uint32, width)}
	order := p.scratch[:0]
	for range width {
		order = append(order, -1)
	}
	for i := range values {
		if col := p.columns[i]; col != nil {
			order[col.number] = int32(first + i)
		}
	}
	p.scratch = order
	data := p.row[:0]
	for i, n := range order {
		if n < 0 || r.values[n].kind() == Null {
			row.ends[i] = uint32(len(data)) | nullBit
			continue
		}
		text := r.textOf(r.values[n])
		data = append(data, text[:min(len(text), maxKeptValue)]...)
		row.ends[i] = uint32(len(data))
	}
	p.row = data
	row.data = string(data)
	return row
}

// valuesOf returns values of a column in the order of arrival, at most so many: whole bursts first,
// because a counter shows in neighbours.
func (c *collector) valuesOf(index, limit int) []string {
	var values []string
	for _, r := range c.spreadRows(limit) {
		if v, ok := r.value(index); ok {
			values = append(values, v)
		}
	}
	return values
}

// spreadRows returns at most limit rows of the sample, evenly over the stream and in its order.
func (c *collector) spreadRows(limit int) []storedRow {
	rows := c.sampleRows()
	if len(rows) <= limit {
		return rows
	}
	spread := make([]storedRow, limit)
	for i := range spread {
		spread[i] = rows[i*len(rows)/limit]
	}
	return spread
}

// arrivalRows is how many rows show the order of arrival.
const arrivalRows = 200

// ranksOf returns the ranks of values of a column in the order of arrival, from 0 to 1.
func (c *collector) ranksOf(col *column) []float64 {
	values := c.valuesOf(col.number, arrivalRows)
	sorted := slices.Clone(values)
	slices.SortFunc(sorted, col.compare)
	sorted = slices.CompactFunc(sorted, func(x, y string) bool { return col.compare(x, y) == 0 })
	ranks := make([]float64, len(values))
	for i, v := range values {
		n, _ := slices.BinarySearchFunc(sorted, v, col.compare)
		ranks[i] = float64(n) / float64(max(1, len(sorted)-1))
	}
	return ranks
}

// compare orders values as keys are ordered.
func (c *column) compare(x, y string) int {
	switch c.typ {
	case typeInt, typeFloat:
		// What is no number comes as 0, and text decides between equal ones.
		a, _ := parseFloat(x)
		b, _ := parseFloat(y)
		return cmp.Or(cmp.Compare(a, b), cmp.Compare(x, y))
	case typeTime:
		a, _ := c.timeOf(x)
		b, _ := c.timeOf(y)
		return cmp.Or(a.Compare(b), cmp.Compare(x, y))
	}
	return cmp.Compare(x, y)
}
