package cleave

import (
	"context"
)

// IndexReport is what Verify has found.
type IndexReport struct {
	// Rows and Entries are how many were compared.
	Rows, Entries uint64
	// Missing counts entries that rows should have and have not, or not with what
	// should be stored, and Stray entries that no row has. Both are 0 if all is well;
	// otherwise they are of the first 10,000 rows that something is wrong with.
	Missing, Stray uint64
	// Unsettled counts rows that changed each time they were looked at, so that an
	// asynchronous index could not be held against them.
	Unsettled uint64
	// Keys are the first rows that Missing and Stray are about.
	Keys [][]byte
}

// Clean reports whether the index is what its rows say, but for those that are Unsettled.
func (r *IndexReport) Clean() bool { return r.Missing == 0 && r.Stray == 0 }

// Verify makes the entries of all rows again and compares them with those that there
// are, by digest and then, if that is not the same, one by one. It works on one state,
// which it keeps as long as it takes, while writes go on. What an asynchronous index
// lacks is looked at again when it has caught up.
func (ix *Index) Verify(ctx context.Context) (IndexReport, error) {
	r, err := ix.index.Verify(ctx)
	return IndexReport(r), toPublicError(err)
}
