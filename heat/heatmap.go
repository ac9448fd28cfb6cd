package heat

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
	"unsafe"
)

// Metric is what the cells of a heat map show, by second.
type Metric uint8

const (
	// MetricReads is operations that change nothing.
	MetricReads Metric = iota
	// MetricWrites is those that may.
	MetricWrites
	// MetricBytesIn is the bytes of requests, MetricBytesOut those of replies.
	MetricBytesIn
	// MetricBytesOut is the bytes of replies.
	MetricBytesOut
	// MetricConflicts is operations that were refused because of others.
	MetricConflicts
	// MetricP99 is the service time that one operation of a hundred exceeds, in microseconds.
	MetricP99
	metrics
)

// Layer is how finely a heat map knows some stretch of the past.
type Layer struct {
	// Step is the width of a column, and Keep for how long there are such columns. Keep is a multiple of Step, and so
	// is the Step of the next layer.
	Step, Keep time.Duration
}

// DefaultLayers returns the layers of a map if it is given none: they reach back 35 days.
func DefaultLayers() []Layer {
	const day = 24 * time.Hour
	return []Layer{
		{10 * time.Second, 30 * time.Minute},
		{time.Minute, time.Hour},
		{2 * time.Minute, 7 * time.Hour},
		{6 * time.Minute, 16 * time.Hour},
		{30 * time.Minute, 6 * day},
		{4 * time.Hour, 28 * day},
	}
}

// MapOptions configure a [Map]. The zero value works.
type MapOptions struct {
	// Layers are from the present to the past. Default DefaultLayers.
	Layers []Layer
	// Rows is how many ranges of keys a column distinguishes at most. Default 512. 8 to 4096.
	Rows int
	// MaxBytes is what the map takes at most. Default 3 MiB, at least 1 MiB. When it is reached, the oldest columns
	// lose half of their rows, down to 16, and then go.
	MaxBytes int
	// Seed is that of the random numbers.
	Seed uint64
}

func (o MapOptions) withDefaults() (MapOptions, error) {
	if len(o.Layers) == 0 {
		o.Layers = DefaultLayers()
	}
	o.Rows, o.MaxBytes = cmp.Or(o.Rows, 512), cmp.Or(o.MaxBytes, 3<<20)
	if o.Rows < 8 || o.Rows > maxMapRows {
		return o, fmt.Errorf("%w: Rows is %d: use 8 to %d", ErrOptions, o.Rows, maxMapRows)
	}
	if o.MaxBytes < minMapBytes {
		return o, fmt.Errorf("%w: MaxBytes is %d: use at least %d", ErrOptions, o.MaxBytes, minMapBytes)
	}
	for i, l := range o.Layers {
		if l.Step <= 0 || l.Keep < l.Step || l.Keep%l.Step != 0 {
			return o, fmt.Errorf("%w: layer %d keeps steps of %v for %v: use a positive step and a multiple of it", ErrOptions, i, l.Step, l.Keep)
		}
		if i > 0 && l.Step%o.Layers[i-1].Step != 0 {
			return o, fmt.Errorf("%w: the step of layer %d, %v, is no multiple of %v", ErrOptions, i, l.Step, o.Layers[i-1].Step)
		}
	}
	return o, nil
}

// Map is a heat map: time across, key ranges down. What is older is coarser, first in time, then in keys. Rows follow
// the keys that are asked for: a range that many operations hit has many rows, and a hot key has one of its own.
//
// It is no clock; its methods may be called by any goroutine.
type Map struct {
	o MapOptions

	mu      sync.Mutex
	pending *Ranges       // of the column that is being filled
	step    time.Duration // the begin of that column
	started bool
	recent  *Ranges // of the last columns: rows are made by it
	axis    *axis   // of the next column
	axisAge int     // for how many columns it has been used
	layers  []mapLayer
	bytes   int // of columns and their axes
	samples int // the bytes of pending and recent when the last column ended
}

type mapLayer struct {
	Layer
	horizon time.Duration // how old its columns may be
	columns []column      // the oldest first
}

// column is what was asked in a stretch of time. A cell is a level: see levelOf.
type column struct {
	from, to time.Duration
	axis     *axis
	cells    []uint8 // metric by metric
	// low and high are the smallest and the largest key that were seen. They bound the first and the last row.
	low, high string
	// bounds are of the rows that have many times their share, such as the one with the moving edge of keys in the order
	// of time.
	bounds []rowBounds
}

func (c *column) row(metric Metric) []uint8 {
	n := c.axis.rows()
	return c.cells[int(metric)*n : int(metric+1)*n]
}

func (c *column) bytes() int {
	n := len(c.cells) + len(c.low) + len(c.high) + int(unsafe.Sizeof(*c))
	for i := range c.bounds {
		n += int(unsafe.Sizeof(c.bounds[i])) + len(c.bounds[i].low) + len(c.bounds[i].high)
	}
	return n
}

// levelOf is a rate in 8 bits: each level is 9 % above the one below, from about a tenth a second to 4 billion.
func levelOf(rate float64) uint8 { return uint8(min(math.Round(8*math.Log2(1+max(rate, 0))), 255)) }

// rateOf is the rate of a level.
func rateOf(level uint8) float64 { return math.Exp2(float64(level)/8) - 1 }

// NewMap returns an empty map.
func NewMap(o MapOptions) (*Map, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &Map{o: o, axis: &axis{}}
	horizon := time.Duration(0)
	for _, l := range o.Layers {
		horizon += l.Keep
		m.layers = append(m.layers, mapLayer{Layer: l, horizon: horizon})
	}
	if m.pending, err = NewRanges(mapSamples, o.Seed); err != nil {
		return nil, err
	}
	m.recent, err = NewRanges(mapSamples, o.Seed+1)
	return m, err
}

// Record adds what was asked up to a time since any beginning, and after the last time that Record was called with. A
// time before the last counts as that.
func (m *Map) Record(at time.Duration, seen *Ranges) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(at)
	m.pending.Merge(seen)
}

// advance ends the column that is being filled if a time is behind it.
func (m *Map) advance(at time.Duration) {
	width := m.layers[0].Step
	step := max(at-1, 0) / width * width
	if m.started && step <= m.step {
		return
	}
	if m.started {
		m.finishColumn()
	}
	m.step, m.started = step, true
}

func (m *Map) finishColumn() {
	m.axisAge++
	isCoarse := m.axisAge >= minAxisColumns && (m.axis.isCoarseFor(m.pending, m.o.Rows) || m.axis.isCoarseFor(m.recent, m.o.Rows))
	m.recent.Scale(recentFactor)
	if isCoarse {
		m.recent.Scale(staleFactor)
	}
	m.recent.Merge(m.pending)
	if isCoarse || m.axisAge == 1 && m.axis.rows() == 1 {
		m.axis, m.axisAge = newAxis(m.recent, m.o.Rows), 0
	}
	width := m.layers[0].Step
	m.push(0, newColumn(m.step, m.step+width, m.axis, m.pending), m.step+width)
	m.samples = m.pending.Bytes() + m.recent.Bytes()
	m.pending.Reset()
	for m.bytes > m.o.MaxBytes-m.pending.Bytes()-m.recent.Bytes() && m.shrinkOldest() {
	}
}

// newColumn makes a column of what was seen in a stretch of time.
func newColumn(from, to time.Duration, on *axis, seen *Ranges) column {
	n, seconds := on.rows(), (to - from).Seconds()
	loads, times := make([]RangeLoad, n), make([]timeHistogram, n)
	for i := range seen.entries {
		e := &seen.entries[i]
		row, stands := on.rowOf(e.key), seen.standsFor(e)
		loads[row].add(e.load, stands/seconds)
		if e.service > 0 {
			times[row][timeBin(e.service)] += float32(e.load.Ops() * stands)
		}
	}
	c := column{from: from, to: to, axis: on, cells: make([]uint8, n*int(metrics))}
	for i, l := range loads {
		p99 := float64(times[i].quantile(0.99)) / float64(time.Microsecond)
		for metric, rate := range [metrics]float64{l.Reads, l.Writes, l.BytesIn, l.BytesOut, l.Conflicts, p99} {
			c.row(Metric(metric))[i] = levelOf(rate)
		}
	}
	if keys := seen.weighKeys(nil, nil, weighCost); len(keys) > 0 {
		c.low, c.high = string(keys[0].key), string(keys[len(keys)-1].key)
		c.findBounds(func(row int) (pieces []loadPiece) {
			for _, k := range keys {
				if on.rowOf(k.key) == row {
					pieces = append(pieces, loadPiece{string(k.key), string(k.key), k.weight})
				}
			}
			return pieces
		})
	}
	return c
}

// push appends a column to a layer. What is older than the layer keeps becomes a column of the next.
func (m *Map) push(i int, c column, now time.Duration) {
	l := &m.layers[i]
	m.keep(&c)
	l.columns = append(l.columns, c)
	for len(l.columns) > 0 && l.columns[0].from < now-l.horizon {
		if i+1 == len(m.layers) {
			m.release(&l.columns[0])
			l.columns = slices.Delete(l.columns, 0, 1)
			continue
		}
		width := m.layers[i+1].Step
		begin := l.columns[0].from / width * width
		n := 0
		for n < len(l.columns) && l.columns[n].from < begin+width {
			n++
		}
		older := joinColumns(begin, begin+width, l.columns[:n])
		for j := range n {
			m.release(&l.columns[j])
		}
		l.columns = slices.Delete(l.columns, 0, n)
		m.push(i+1, older, now)
	}
}

// keep and release count the memory of a column and of its axis.
func (m *Map) keep(c *column) {
	m.bytes += c.bytes()
	if c.axis.uses++; c.axis.uses == 1 {
		m.bytes += c.axis.bytes()
	}
}

func (m *Map) release(c *column) {
	m.bytes -= c.bytes()
	if c.axis.uses--; c.axis.uses == 0 {
		m.bytes -= c.axis.bytes()
	}
}

// joinColumns makes one column of several, on the rows of the last. Rates are means over its whole width, times the
// highest.
func joinColumns(from, to time.Duration, columns []column) column {
	return bringColumns(from, to, columns, columns[len(columns)-1].axis)
}

// bringColumns makes one column of several, on an axis.
func bringColumns(from, to time.Duration, columns []column, on *axis) column {
	last := &columns[len(columns)-1]
	joined := column{from: from, to: to, axis: on, cells: make([]uint8, on.rows()*int(metrics)), low: last.low, high: last.high}
	for i := range columns {
		c := &columns[i]
		if c.high != "" {
			joined.low, joined.high = min(cmp.Or(joined.low, c.low), c.low), max(joined.high, c.high)
		}
	}
	sum := make([]float64, on.rows())
	for metric := range metrics {
		clear(sum)
		for i := range columns {
			c := &columns[i]
			share := float64(c.to-c.from) / float64(to-from)
			c.addTo(sum, on.keys, metric, share)
		}
		for row, rate := range sum {
			joined.row(metric)[row] = levelOf(rate)
		}
	}
	joined.findBounds(func(row int) (pieces []loadPiece) {
		for i := range columns {
			pieces = columns[i].appendPieces(pieces, on, row)
		}
		return pieces
	})
	return joined
}

// addTo adds the rates of a column to rows that begin at other keys, times a factor. A row that lies in several of
// them is shared evenly among them. Of times the highest is kept.
func (c *column) addTo(sum []float64, keys []string, metric Metric, factor float64) {
	from := 0
	for i, level := range c.row(metric) {
		begin, last := c.extent(i)
		for from < len(keys) && keys[from] <= begin {
			from++
		}
		if level == 0 {
			continue
		}
		to := from
		for to < len(keys) && keys[to] <= last && (i == len(c.axis.keys) || keys[to] < c.axis.keys[i]) {
			to++
		}
		rate := rateOf(level)
		for row := from; row <= to; row++ {
			if metric == MetricP99 {
				sum[row] = max(sum[row], rate)
			} else {
				sum[row] += rate * factor / float64(to-from+1)
			}
		}
	}
}

// shrinkOldest halves the rows of the oldest column that has many, or forgets the oldest if none has. It reports
// whether there is something left to forget.
func (m *Map) shrinkOldest() bool {
	for i := len(m.layers) - 1; i >= 0; i-- {
		for j := range m.layers[i].columns {
			if c := &m.layers[i].columns[j]; c.axis.rows() > fewRows {
				coarse := bringColumns(c.from, c.to, []column{*c}, c.axis.halve())
				m.keep(&coarse)
				m.release(c)
				*c = coarse
				return true
			}
		}
	}
	for i := len(m.layers) - 1; i >= 0; i-- {
		if l := &m.layers[i]; len(l.columns) > 0 {
			m.release(&l.columns[0])
			l.columns = slices.Delete(l.columns, 0, 1)
			return true
		}
	}
	return false
}

// Bytes is how much memory the map took when its last column ended, about. It stays below MapOptions.MaxBytes.
func (m *Map) Bytes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes + m.samples
}

// View is a part of a heat map.
type View struct {
	// Rows are the first keys of the rows, and Columns the begins of the columns. The last row ends where the view
	// does, and each column where the next begins.
	Rows    []string
	Columns []time.Duration
	// Cells are the values by row and column. NaN is not known.
	Cells [][]float64
}

// ViewOptions say which part of a map is wanted. The zero value is all of it, by reads.
type ViewOptions struct {
	Metric Metric
	// From and To are the times. To 0 is the present.
	From, To time.Duration
	// Start and End are the keys. End is not included; nil is the end of all keys.
	Start, End []byte
	// Rows and Columns are how many there are at most. Default 512 and 360.
	Rows, Columns int
}

// View returns a part of the map. Its rows are out of those of its columns. Columns begin at multiples of their width, so that
// a view of the last half hour has the same ones a minute later.
func (m *Map) View(o ViewOptions) (View, error) {
	o.Rows, o.Columns = cmp.Or(o.Rows, 512), cmp.Or(o.Columns, 360)
	if o.Metric >= metrics || o.Rows < 1 || o.Columns < 1 || o.From < 0 || o.To < 0 {
		return View{}, fmt.Errorf("%w: a view of metric %d from %v to %v with %d rows and %d columns", ErrOptions, o.Metric, o.From, o.To, o.Rows, o.Columns)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []*column
	for i := len(m.layers) - 1; i >= 0; i-- {
		for j := range m.layers[i].columns {
			if c := &m.layers[i].columns[j]; c.to > o.From && (o.To == 0 || c.from < o.To) {
				found = append(found, c)
			}
		}
	}
	if len(found) == 0 {
		return View{}, nil
	}
	last := found[len(found)-1]
	from, to := max(o.From, found[0].from), last.to
	if o.To > 0 {
		to = min(to, o.To)
	}
	keys := joinAxes(found, string(o.Start), o.End, o.Rows)
	v := View{Rows: keys}
	if o.End != nil {
		keys = append(slices.Clone(keys), string(o.End)) // what is behind it goes into a row that is cut off
	}
	below := 1 // the row of what is below the start
	if len(o.Start) == 0 {
		keys, below = keys[1:], 0
	}
	width := last.to - last.from
	if least := (to - from + time.Duration(o.Columns) - 1) / time.Duration(o.Columns); width < least {
		width = (least + m.layers[0].Step - 1) / m.layers[0].Step * m.layers[0].Step
	}
	if to-from/width*width > time.Duration(o.Columns)*width { // the first begins before from
		width += m.layers[0].Step
	}
	from = from / width * width
	n := min(int((to-from+width-1)/width), o.Columns)
	for i := range n {
		v.Columns = append(v.Columns, from+time.Duration(i)*width)
	}
	sums, covered := make([][]float64, n), make([]time.Duration, n)
	for _, c := range found {
		for i := max(0, int((c.from-from)/width)); i < n && v.Columns[i] < c.to; i++ {
			overlap := min(c.to, v.Columns[i]+width) - max(c.from, v.Columns[i])
			if overlap <= 0 {
				continue
			}
			if sums[i] == nil {
				sums[i] = make([]float64, len(keys)+1)
			}
			c.addTo(sums[i], keys, o.Metric, float64(overlap))
			covered[i] += overlap
		}
	}
	for row := range v.Rows {
		cells := make([]float64, n)
		for i := range cells {
			switch {
			case covered[i] == 0:
				cells[i] = math.NaN()
			case o.Metric == MetricP99:
				cells[i] = sums[i][row+below]
			default:
				cells[i] = sums[i][row+below] / float64(covered[i])
			}
		}
		v.Cells = append(v.Cells, cells)
	}
	return v, nil
}
