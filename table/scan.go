package table

import (
	"bytes"
	"iter"
	"slices"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/key"
)

// pageSource reads a page of each of several scans.
type pageSource func(scans ...cleave.ScanOptions) ([]cleave.Page, error)

// scanRows reads the rows of a plan in order: stem after stem, and for each the stretches
// of all salts as one.
func (p *queryPlan) scanRows(from pageSource) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		r := queryReader{queryPlan: p, readPages: from, yield: yield, remaining: p.limit}
		if bytes.Compare(p.lo, p.hi) >= 0 {
			return
		}
		var err error
		if stem, ok := p.oneStem(); ok {
			_, err = r.readStem(stem)
		} else {
			err = r.readStems()
		}
		if err != nil {
			yield(Row{}, err)
		}
	}
}

// queryReader is a plan that is carried out.
type queryReader struct {
	*queryPlan
	readPages pageSource
	yield     func(Row, error) bool
	remaining int // rows until the limit
}

// oneStem returns the stem of all rows, if the bounds leave only one.
func (p *queryPlan) oneStem() (stem []byte, ok bool) {
	if p.t.salt < 0 {
		return nil, true
	}
	lo, _, whole := p.t.splitAtSalt(p.lo)
	hi, rest, also := p.t.splitAtSalt(p.hi)
	return lo, whole && also && len(rest) > 0 && bytes.Equal(lo, hi)
}

// readStems finds one stem after the other by its first key. It costs one more read for
// each, whatever lies between them.
func (r *queryReader) readStems() error {
	lo, hi := r.seekBounds()
	for {
		found, err := r.readPages(cleave.ScanOptions{Start: fromStart(lo), End: hi, Reverse: r.reverse, KeysOnly: true, Limit: 1})
		if err != nil || len(found[0].Items) == 0 {
			return err
		}
		k := found[0].Items[0].Key
		stem, _, _ := r.t.splitAtSalt(k)
		if _, err := r.t.layout.Decode(k); err != nil {
			if err := r.t.handleForeignKey(k, err); err != nil {
				return err
			}
			lo, hi = r.findBoundsAfter(lo, hi, k)
			continue
		}
		if more, err := r.readStem(stem); !more {
			return err
		}
		if r.reverse {
			hi = stem
		} else {
			lo = append(stem, endByte)
		}
	}
}

// seekBounds returns between which keys stems are looked for.
func (r *queryReader) seekBounds() (lo, hi []byte) {
	lo, rest, _ := r.t.splitAtSalt(r.lo)
	if len(rest) > 0 && rest[0] == endByte { // behind all that have this stem
		lo = append(lo, endByte)
	}
	hi, rest, whole := r.t.splitAtSalt(r.hi)
	if whole && len(rest) > 0 {
		hi = append(hi, endByte)
	}
	if r.after != nil {
		stem, _, _ := r.t.splitAtSalt(r.after)
		if r.reverse {
			hi = append(stem, endByte)
		} else {
			lo = stem
		}
	}
	return lo, hi
}

// findBoundsAfter returns the bounds of what is left behind a key.
func (p *queryPlan) findBoundsAfter(lo, hi, k []byte) (newLo, newHi []byte) {
	if p.reverse {
		return lo, k
	}
	return append(slices.Clip(k), 0), hi
}

// readStem reads the rows of a stem, and reports whether to go on.
func (r *queryReader) readStem(stem []byte) (more bool, err error) {
	stretches := r.saltRanges(stem)
	readers := make([]*pageReader, len(stretches))
	for i, s := range stretches {
		readers[i] = &pageReader{queryReader: r, saltRange: s}
		readers[i].setPageSize(len(stretches))
	}
	merger, err := key.NewPageMerger(r.compareRows, len(readers), func(due []int) ([][]mergeRow, error) { return r.nextPages(readers, due) })
	if err != nil {
		return false, err
	}
	for {
		e, ok, err := merger.Next()
		if err != nil || !ok {
			return err == nil, err
		}
		if !r.yield(e.row, nil) {
			return false, nil
		}
		if r.remaining--; r.remaining == 0 { // without a limit it is below 0
			return false, nil
		}
	}
}

// compareRows orders rows of one stem. Equal ones stay in the order of the stretches.
func (p *queryPlan) compareRows(a, b mergeRow) int {
	if p.reverse {
		a, b = b, a
	}
	return bytes.Compare(a.sortKey, b.sortKey)
}

// saltRange is where the rows of one salt with one stem are: between two keys, which have
// the first bytes in common.
type saltRange struct {
	start, end  []byte
	prefixBytes int
}

// saltRanges returns those of a stem, in the order in which equal rows are to come.
func (p *queryPlan) saltRanges(stem []byte) []saltRange {
	if p.t.salt < 0 {
		s := saltRange{start: p.lo, end: p.hi}
		if p.after != nil {
			s.start, s.end = p.findBoundsAfter(s.start, s.end, p.after)
		}
		return []saltRange{s}
	}
	lo, hi := p.restBounds(stem)
	var list []saltRange
	for salt := range p.t.layout.Salts() {
		if p.onlySalt >= 0 && salt != p.onlySalt {
			continue
		}
		s := saltRange{start: joinKey(stem, salt, lo), end: joinKey(stem, salt, hi), prefixBytes: len(joinKey(stem, salt, nil))}
		p.skipReturned(&s, stem, salt)
		list = append(list, s)
	}
	if p.reverse {
		slices.Reverse(list)
	}
	return list
}

// restBounds returns between which rests the rows of a stem lie.
func (p *queryPlan) restBounds(stem []byte) (lo, hi []byte) {
	hi = []byte{endByte}
	if s, rest, whole := p.t.splitAtSalt(p.lo); whole && bytes.Equal(s, stem) {
		lo = rest
	}
	if s, rest, whole := p.t.splitAtSalt(p.hi); whole && bytes.Equal(s, stem) {
		hi = rest
	}
	return lo, hi
}

// skipReturned cuts off what comes up to the row to continue behind. Rows of the same place
// with another salt may still be to come.
func (p *queryPlan) skipReturned(s *saltRange, stem []byte, salt int) {
	if p.after == nil {
		return
	}
	last, rest := p.t.cutSalt(p.after)
	if !bytes.Equal(last, stem) {
		return
	}
	at, same := joinKey(stem, salt, rest), p.t.saltOf(p.after)
	switch {
	case p.reverse && salt >= same:
		s.end = at
	case p.reverse:
		s.end = append(at, 0)
	case salt <= same:
		s.start = append(at, 0)
	default:
		s.start = at
	}
}

// mergeRow is a row with what it is ordered by.
type mergeRow struct {
	row     Row
	sortKey []byte
}

const (
	// firstPageRows is how many rows of a stretch are read at first if there is no limit:
	// enough to see how large they are.
	firstPageRows = 16
	// maxPageRows is how many are read at a time later: a seek is then a small part of
	// what a page costs.
	maxPageRows = 256
	// readAheadBytes is about how much is read ahead for all stretches of a read. Half of a page
	// may be left when the next is read.
	readAheadBytes = 8 << 20
	// extraPageRows is how many more rows than its share of the limit are read of a
	// stretch, since salts do not divide rows exactly.
	extraPageRows = 8
)

// pageReader reads the rows of a stretch in pages.
type pageReader struct {
	*queryReader
	saltRange
	pageRows, pageBytes int
	done                bool
}

// setPageSize sets how many stretches share the memory, and the limit.
func (f *pageReader) setPageSize(stretches int) {
	f.pageRows, f.pageBytes = firstPageRows, readAheadBytes*2/3/stretches
	if f.remaining > 0 {
		f.pageRows = f.remaining
		if stretches > 1 {
			f.pageRows = f.remaining/stretches + extraPageRows
		}
		f.pageRows = min(f.pageRows, f.remaining, maxPageRows)
	}
}

// fromStart is where a scan begins: nil would be no bound, and an empty bound is one.
func fromStart(start []byte) []byte {
	if start == nil {
		return []byte{}
	}
	return start
}

// nextPages returns the next rows that are wanted of some stretches, none of one that is at its end. It
// reads them together, and again those of which it has found no row that is wanted.
func (r *queryReader) nextPages(readers []*pageReader, due []int) ([][]mergeRow, error) {
	pages := make([][]mergeRow, len(due))
	for {
		var scans []cleave.ScanOptions
		var waiting []int
		for n, i := range due {
			if f := readers[i]; !f.done && len(pages[n]) == 0 {
				scans, waiting = append(scans, f.scan()), append(waiting, n)
			}
		}
		if len(scans) == 0 {
			return pages, nil
		}
		found, err := r.readPages(scans...)
		if err != nil {
			return nil, err
		}
		for at, n := range waiting {
			if pages[n], err = readers[due[n]].takePage(found[at]); err != nil {
				return nil, err
			}
		}
	}
}

// scan is that of the next page.
func (f *pageReader) scan() cleave.ScanOptions {
	return cleave.ScanOptions{Start: fromStart(f.start), End: f.end, Reverse: f.reverse, KeysOnly: f.keysOnly, Limit: f.pageRows}
}

// takePage returns the rows of a page that are wanted, and goes on behind it.
func (f *pageReader) takePage(page cleave.Page) (rows []mergeRow, err error) {
	rows = make([]mergeRow, 0, len(page.Items))
	read := 0
	for _, item := range page.Items {
		read += len(item.Key) + len(item.Value)
		row, ok, err := f.t.decodeRow(item)
		if err != nil {
			return nil, err
		}
		if ok && f.matchesFilters(row.Columns) {
			rows = append(rows, mergeRow{row, item.Key[f.prefixBytes:]})
		}
	}
	if f.done = page.Next == nil; !f.done {
		n := len(page.Items)
		f.start, f.end = f.findBoundsAfter(f.start, f.end, page.Items[n-1].Key)
		f.pageRows = max(1, min(2*f.pageRows, maxPageRows, f.pageBytes*n/max(read, 1)))
	}
	return rows, nil
}
