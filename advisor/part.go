package advisor

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"sync"

	"github.com/cleavekv/cleave/advisor/internal/sketch"
	"github.com/cleavekv/cleave/hash"
)

// part is a part of the input: what a source fills at once. A worker parses and counts it; the
// collector takes parts in one after the other, so that the number of workers makes no difference.
type part struct {
	records Records
	readErr error // of the source behind this part
	err     error // of parsing it
	columns []*column
	// frequent are the frequent values of each column, for each block of rows.
	frequent []frequentValues
	counted  []sketch.Counted // the memory of them
	done     chan struct{}

	// Memory that is used again.
	types   []valueType
	scratch []int32
	row     []byte
}

// frequentValues are those of one column in one block of rows.
type frequentValues struct {
	column int
	missed uint32 // how often each of the others came at most
	values []sketch.Counted
}

// columnRegistry finds columns by name for all workers.
type columnRegistry struct {
	mu     sync.Mutex
	byName map[string]*column
	closed bool
}

// find returns the columns of the names; nil for those that come after enough others.
func (r *columnRegistry) find(dst []*column, names []string) []*column {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		id := name
		c := r.byName[id]
		for c != nil && slices.Contains(dst, c) { // two columns of one name
			id += "\x00"
			c = r.byName[id]
		}
		if c == nil && !r.closed {
			c = newColumn(name)
			c.id = id
			r.byName[id] = c
		}
		dst = append(dst, c)
	}
	return dst
}

// close keeps the columns given, and makes no others from then on.
func (r *columnRegistry) close(columns []*column) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.byName)
	for _, c := range columns {
		r.byName[c.id] = c
	}
	r.closed = true
}

// readAll reads a source to its end, or until the context ends, which is no error: what is known by
// then counts.
func (c *collector) readAll(ctx context.Context, src Source, workers int, progress func(Progress)) (interrupted bool, err error) {
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	workers = min(workers, maxWorkers)
	free, read, todo := make(chan *part, workers+2), make(chan *part), make(chan *part, workers+2)
	for range cap(free) {
		free <- &part{done: make(chan struct{}, 1)}
	}
	stop := make(chan struct{})
	defer close(stop)
	go readParts(src, free, read, stop)
	var work sync.WaitGroup
	defer work.Wait()
	defer close(todo)
	for range workers {
		work.Go(func() {
			block := sketch.NewBlock()
			for p := range todo {
				p.count(&c.named, block)
				p.done <- struct{}{}
			}
		})
	}
	return c.mergeParts(ctx, read, todo, free, progress)
}

// readParts hands over one part of the source after the other, until one has an error. It may outlast
// an analysis that was interrupted, by one call of a source that is slow.
func readParts(src Source, free <-chan *part, read chan<- *part, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case p := <-free:
			p.records.Reset()
			p.readErr = src.Next(&p.records)
			failed := p.readErr != nil
			select {
			case read <- p:
			case <-stop:
				return
			}
			if failed {
				return
			}
		}
	}
}

// mergeParts hands what was read to workers, and takes what they have counted in in the order of the
// input. It returns when no worker has anything left.
func (c *collector) mergeParts(ctx context.Context, read <-chan *part, todo chan<- *part, free chan<- *part, progress func(Progress)) (interrupted bool, err error) {
	var underWay []*part // in the order of the input
	done := ctx.Done()
	for read != nil || len(underWay) > 0 {
		var first chan struct{}
		if len(underWay) > 0 {
			first = underWay[0].done
		}
		select {
		case <-done:
			interrupted, read, done = true, nil, nil
		case p := <-read:
			todo <- p
			underWay = append(underWay, p)
			if p.readErr != nil {
				read = nil
			}
			if errors.Is(p.readErr, io.EOF) {
				done = nil // all was read
			}
		case <-first:
			p := underWay[0]
			underWay = underWay[1:]
			if err != nil {
				continue
			}
			c.addPart(p)
			if progress != nil {
				progress(Progress{Rows: c.rows, Input: c.input})
			}
			switch {
			case p.err != nil:
				err, read = p.err, nil
			case p.readErr != nil && ctx.Err() != nil:
				interrupted = true
			case p.readErr != nil && !errors.Is(p.readErr, io.EOF):
				err = p.readErr
			}
			free <- p
		}
	}
	return interrupted, err
}

// count parses the part and counts the values of its columns.
func (p *part) count(named *columnRegistry, block *sketch.Block) {
	p.columns, p.frequent, p.counted = p.columns[:0], p.frequent[:0], p.counted[:0]
	if p.err = p.records.Parse(); p.err != nil {
		p.records.ends = p.records.ends[:0]
		return
	}
	r := &p.records
	p.columns = named.find(p.columns, r.columns)
	for from := 0; from < len(r.ends); from += sketch.BlockRows {
		to := min(from+sketch.BlockRows, len(r.ends))
		for i, c := range p.columns {
			if c != nil {
				p.countColumn(i, from, to, block)
			}
		}
	}
}

// countColumn counts the values of a column in some rows.
func (p *part) countColumn(number, from, to int, block *sketch.Block) {
	r, c := &p.records, p.columns[number]
	var counts columnCounts
	p.types = p.types[:0]
	first := 0
	if from > 0 {
		first = int(r.ends[from-1].end)
	}
	for i := from; i < to; i++ {
		end := &r.ends[i]
		at := first + number
		first = int(end.end)
		if at >= first {
			continue
		}
		v := r.values[at]
		kind := v.kind()
		if kind == Null {
			continue
		}
		text := r.textOf(v)
		counts.values++
		counts.bytes += uint64(len(text))
		if len(text) > counts.longest {
			counts.longest = len(text)
		}
		if len(text) > maxKeptValue {
			counts.long++
		}
		h := hash.XXH3(text).Uint64()
		if kind >= Number {
			h ^= 0x9e3779b97f4a7c15 // is another value than a string of the same text
		}
		if block.Add(h, uint32(at)) {
			t := typeOf(kind, text)
			p.types = append(p.types, t)
			if counts.firstOf[t] == 0 {
				counts.firstOf[t] = end.line
			}
		}
	}
	if counts.values == 0 {
		return
	}
	before := len(p.counted)
	var missed uint32
	p.counted, missed = block.Reduce(p.counted)
	p.frequent = append(p.frequent, frequentValues{number, missed, p.counted[before:len(p.counted):len(p.counted)]})
	n := 0
	c.mu.Lock()
	for v := range block.Values {
		c.distinct.AddCount(v.Hash, uint64(v.Count))
		counts.types[p.types[n]] += uint64(v.Count)
		n++
	}
	c.columnCounts.add(&counts)
	c.mu.Unlock()
	block.Reset()
}
