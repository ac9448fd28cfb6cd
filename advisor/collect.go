package advisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

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
}

func newCollector(seed uint64) *collector {
	return &collector{
		taken:  map[string]bool{},
		sample: sketch.NewSample[storedRow](maxSampleRows, maxSampleBytes, seed),
		choice: sketch.Bursts{Length: burstRows, Limit: maxBursts},
	}
}

// readAll reads a source to its end, or until the context ends, which is no error: what is known by
// then counts. It reads the next batch while it takes one in.
func (c *collector) readAll(ctx context.Context, src Source, progress func(Progress)) (interrupted bool, err error) {
	type filled struct {
		batch *Batch
		err   error
	}
	free, full := make(chan *Batch, 3), make(chan filled)
	for range cap(free) {
		free <- &Batch{}
	}
	stop := make(chan struct{})
	var reading sync.WaitGroup
	defer reading.Wait()
	defer close(stop)
	reading.Go(func() {
		for b := range free {
			b.Reset()
			err := src.Next(b)
			select {
			case full <- filled{b, err}:
			case <-stop:
				return
			}
			if err != nil {
				return
			}
		}
	})
	for {
		select {
		case <-ctx.Done():
			return true, nil
		case f := <-full:
			if addErr := c.addBatch(f.batch); addErr != nil {
				return false, addErr
			}
			if progress != nil {
				progress(Progress{Rows: c.rows, Input: c.input})
			}
			switch {
			case errors.Is(f.err, io.EOF):
				return false, nil
			case f.err != nil:
				return false, f.err
			}
			free <- f.batch
		}
	}
}

// addBatch takes a batch in: the values column by column on two goroutines, rows for the sample
// after that.
func (c *collector) addBatch(b *Batch) error {
	c.input += b.input
	c.skipped += b.skipped
	c.problems = append(c.problems, b.problems[:min(len(b.problems), maxNamedProblems-len(c.problems))]...)
	if len(b.columns) > MaxColumns {
		return fmt.Errorf("advise: %d columns: at most %d are analysed: leave out what is no key", len(b.columns), MaxColumns)
	}
	for _, name := range b.columns[min(len(b.columns), len(c.columns)):] {
		c.columns = append(c.columns, newColumn(name, identifierOf(name, c.taken)))
	}
	c.addValues(b)
	first := 0
	for _, r := range b.records {
		c.addRow(b, first, r)
		first = r.end
	}
	return nil
}

func (c *collector) addValues(b *Batch) {
	half := len(c.columns) / 2
	var other sync.WaitGroup
	if half > 0 {
		other.Go(func() { c.addColumns(b, 0, half) })
	}
	c.addColumns(b, half, len(c.columns))
	other.Wait()
}

// addColumns takes in the values of some columns.
func (c *collector) addColumns(b *Batch, from, to int) {
	first := 0
	for _, r := range b.records {
		values := b.values[first:r.end]
		for i := from; i < min(to, len(values)); i++ {
			if v := values[i]; v.kind != Null {
				c.columns[i].add(v.kind, b.data[v.start:v.end], r.line)
			}
		}
		first = r.end
	}
}

// addRow counts a row, and keeps it if chance or its burst wants it.
func (c *collector) addRow(b *Batch, first int, r batchRecord) {
	place := c.rows
	c.rows++
	c.bytes += uint64(r.bytes)
	number, inBurst := c.choice.BurstOf(place)
	chosen := c.sample.Chooses(place)
	if !chosen && !inBurst {
		return
	}
	row := newStoredRow(b, first, r, place)
	size := len(row.data) + 4*len(row.ends) + 80
	if chosen {
		c.sample.Add(place, row, size)
	}
	if inBurst {
		c.addToBurst(number, row, size)
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

func newStoredRow(b *Batch, first int, r batchRecord, place uint64) storedRow {
	values := b.values[first:r.end]
	row := storedRow{place: place, bytes: r.bytes, ends: make([]uint32, len(values))}
	data := make([]byte, 0, min(r.bytes, 4096))
	for i, v := range values {
		if v.kind == Null {
			row.ends[i] = uint32(len(data)) | nullBit
			continue
		}
		text := b.data[v.start:v.end]
		data = append(data, text[:min(len(text), maxKeptValue)]...)
		row.ends[i] = uint32(len(data))
	}
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
	rows := c.sample.Items()
	if len(rows) <= limit {
		return rows
	}
	spread := make([]storedRow, limit)
	for i := range spread {
		spread[i] = rows[i*len(rows)/limit]
	}
	return spread
}
