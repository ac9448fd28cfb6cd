package heat

import (
	"fmt"
	"slices"
	"time"
)

// mapVersion is the first byte of an encoded map. A change of the format takes another.
const mapVersion = 2

// leastColumnBytes is what an encoded column takes at least, one cell of each metric included.
const leastColumnBytes = 5 + int(metrics)

// AppendBinary appends an encoding of the map, for [Map.Load] after a restart. What was asked since its newest column has
// ended is not in it.
func (m *Map) AppendBinary(b []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b = append(b, mapVersion)
	numbers := map[*axis]int{}
	var axes []*axis
	for i := range m.layers {
		for j := range m.layers[i].columns {
			if a := m.layers[i].columns[j].axis; numbers[a] == 0 {
				axes = append(axes, a)
				numbers[a] = len(axes) // from 1 on
			}
		}
	}
	b = appendInt(b, len(axes))
	for _, a := range axes {
		b = appendInt(b, len(a.keys))
		for _, k := range a.keys {
			b = appendString(b, k)
		}
	}
	b = appendInt(b, len(m.layers))
	for i := range m.layers {
		l := &m.layers[i]
		b = appendInt(appendInt(appendInt(b, int(l.Step)), int(l.Keep)), len(l.columns))
		for j := range l.columns {
			c := &l.columns[j]
			b = appendInt(appendInt(b, int(c.from/l.Step)), numbers[c.axis]-1)
			b = appendInt(appendString(appendString(b, c.low), c.high), len(c.bounds))
			for _, r := range c.bounds {
				b = appendString(appendString(appendInt(b, r.row), r.low), r.high)
			}
			b = append(b, c.cells...)
		}
	}
	return b, nil
}

// Load gives a new map the columns of an encoding that end before now. It fails with [ErrEncoding], and then changes nothing,
// for bytes that [Map.AppendBinary] did not write, or did for other layers.
func (m *Map) Load(b []byte, now time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.started || m.bytes > 0 {
		return fmt.Errorf("%w: a heat map is loaded into one that is in use", ErrOptions)
	}
	d := &decoder{rest: b}
	if version := d.readByte(); d.err == nil && version != mapVersion {
		d.fail("a heat map of version %d, this is version %d", version, mapVersion)
	}
	axes := d.readAxes()
	if n := d.readInt(len(m.layers)); d.err == nil && n != len(m.layers) {
		d.fail("it has %d layers, not %d", n, len(m.layers))
	}
	layers := make([][]column, len(m.layers))
	for i := range m.layers {
		layers[i] = d.readColumns(&m.layers[i], axes)
	}
	if err := d.end(); err != nil {
		return err
	}
	for i, columns := range layers {
		for _, c := range columns {
			if c.to > now {
				continue // a clock was put back
			}
			m.keep(&c)
			m.layers[i].columns = append(m.layers[i].columns, c)
			if i == 0 {
				m.axis, m.axisAge = c.axis, 0
			}
		}
	}
	for m.bytes > m.o.MaxBytes-m.pending.Bytes()-m.recent.Bytes() && m.shrinkOldest() {
	}
	return nil
}

// readAxes reads all axes.
func (d *decoder) readAxes() []*axis {
	axes := make([]*axis, 0, d.readInt(len(d.rest)))
	for range cap(axes) {
		a := &axis{}
		for range d.readInt(min(maxMapRows, len(d.rest))) {
			a.keys = append(a.keys, d.readString(len(d.rest)))
		}
		if !slices.IsSorted(a.keys) {
			d.fail("rows are not in order")
		}
		axes = append(axes, a)
	}
	return axes
}

// readColumns reads the columns of a layer.
func (d *decoder) readColumns(l *mapLayer, axes []*axis) (columns []column) {
	const maxTime = 1<<63 - 1
	step, keep := d.readInt(maxTime), d.readInt(maxTime)
	if d.err == nil && (step != int(l.Step) || keep != int(l.Keep)) {
		d.fail("it keeps steps of %v for %v, not of %v for %v", time.Duration(step), time.Duration(keep), l.Step, l.Keep)
	}
	n := d.readInt(len(d.rest) / leastColumnBytes)
	for range n {
		number, at := d.readInt(maxTime/int(l.Step)-1), d.readInt(max(len(axes)-1, 0))
		low, high := d.readString(len(d.rest)), d.readString(len(d.rest))
		if d.err != nil || len(axes) == 0 {
			d.fail("a column has no rows")
			return nil
		}
		c := column{from: time.Duration(number) * l.Step, axis: axes[at], low: low, high: high}
		c.to = c.from + l.Step
		c.bounds = d.readBounds(c.axis.rows())
		if size := c.axis.rows() * int(metrics); size <= len(d.rest) {
			c.cells, d.rest = slices.Clone(d.rest[:size]), d.rest[size:]
		} else {
			d.fail("it ends too early")
		}
		if len(columns) > 0 && c.from < columns[len(columns)-1].to {
			d.fail("columns are not in order")
		}
		columns = append(columns, c)
	}
	return columns
}

// readBounds reads those of the rows of a column.
func (d *decoder) readBounds(rows int) (all []rowBounds) {
	for range d.readInt(maxBounds) {
		b := rowBounds{row: d.readInt(rows - 1), low: d.readString(len(d.rest)), high: d.readString(len(d.rest))}
		if n := len(all); b.low > b.high || n > 0 && b.row <= all[n-1].row {
			d.fail("bounds of rows are not in order")
		}
		all = append(all, b)
	}
	return all
}
