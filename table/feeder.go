package table

// entry is a row with what it is ordered by.
type entry struct {
	row  Row
	rest []byte
}

const (
	// firstRows is how many rows of a stretch are read at first if there is no limit:
	// enough to see how large they are.
	firstRows = 16
	// mostRows is how many are read at a time later: a seek is then a small part of
	// what a page costs.
	mostRows = 256
	// aheadBytes is about how much is read ahead for all stretches of a read.
	aheadBytes = 8 << 20
	// spareRows is how many more rows than its share of the limit are read of a
	// stretch, since salts do not divide rows exactly.
	spareRows = 8
)

// feeder reads the rows of a stretch in pages.
type feeder struct {
	*reading
	stretch
	size, bytes int
	done        bool
}

// begin says how many stretches share the memory, and the limit.
func (f *feeder) begin(stretches int) {
	f.size, f.bytes = firstRows, aheadBytes/stretches
	if f.left > 0 {
		f.size = f.left
		if stretches > 1 {
			f.size = f.left/stretches + spareRows
		}
		f.size = min(f.size, f.left, mostRows)
	}
}

// next returns the next rows that are wanted, none at the end.
func (f *feeder) next() (page []entry, err error) {
	for !f.done && len(page) == 0 {
		items, err := f.from(f.start, f.end, pageOptions{reverse: f.reverse, keysOnly: f.keysOnly, limit: f.size})
		if err != nil {
			return nil, err
		}
		read := 0
		for _, item := range items {
			read += len(item.Key) + len(item.Value)
			row, ok, err := f.t.row(item)
			if err != nil {
				return nil, err
			}
			if ok && f.wanted(row.Columns) {
				page = append(page, entry{row, item.Key[f.common:]})
			}
		}
		if f.done = len(items) < f.size; !f.done {
			f.start, f.end = f.past(f.start, f.end, items[len(items)-1].Key)
			f.size = max(1, min(2*f.size, mostRows, f.bytes*len(items)/max(read, 1)))
		}
	}
	return page, nil
}
