package engine

import (
	"bytes"
	"context"
	"errors"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/index"
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

const (
	maxReportKeys   = 10     // in a report
	maxVerifyRounds = 5      // how often rows that change are looked at again
	maxSuspectRows  = 10_000 // rows that are looked at again, at most
	// maxClockSkewMS is by how much the clocks of groups may differ: a few seconds after a
	// crash, when each goes on from the time that it has promised not to go back behind.
	maxClockSkewMS = 10_000
)

// Verify makes the entries of all rows again and compares them with those that there
// are, by digest and then, if that is not the same, one by one. It works on one state,
// which it keeps as long as it takes, while writes go on. What an asynchronous index
// lacks is looked at again when it has caught up.
func (ix *Index) Verify(ctx context.Context) (report IndexReport, err error) {
	x, err := ix.Readable(false)
	if err != nil {
		return report, err
	}
	if x.Extract == nil {
		return report, newUndeclaredError(x)
	}
	if err := ix.WaitCaughtUp(ctx); err != nil {
		return report, err
	}
	v := indexVerifier{ix: ix, x: x, indexes: node.NewIndexSet(x), report: &report}
	var found suspectRows
	err = ix.db.View(ctx, func(tx *Txn) error {
		same, err := v.compareDigests(tx)
		if err == nil && !same {
			if err = v.collectSuspects(tx, &found); err == nil && x.Mode == index.Transactional {
				err = v.verifySuspects(tx, &found)
			}
		}
		return err
	})
	if err == nil && x.Mode == index.Asynchronous && len(found.rows) > 0 {
		err = v.verifySuspectsLater(ctx, &found)
	}
	return report, ix.AsDroppedError(err)
}

// indexVerifier compares an index with its rows.
type indexVerifier struct {
	ix      *Index
	x       *node.IndexInfo
	indexes *node.IndexSet
	report  *IndexReport
}

// suspectRow is a row that may not have the right entries.
type suspectRow struct {
	row          []byte
	extraEntries [][]byte // entries that it has and perhaps should not
	// missing and stray are how many there are, as of a version of the row.
	missing, stray uint64
	version        uint64
}

// suspectRows are some of them, by row.
type suspectRows struct {
	rows  []*suspectRow
	byKey map[string]*suspectRow
}

func (s *suspectRows) findOrAdd(row []byte) *suspectRow {
	if s.byKey == nil {
		s.byKey = map[string]*suspectRow{}
	}
	x := s.byKey[string(row)]
	if x == nil && len(s.rows) < maxSuspectRows {
		x = &suspectRow{row: bytes.Clone(row)}
		s.byKey[string(row)], s.rows = x, append(s.rows, x)
	}
	return x
}

// visitRows visits all rows with the entries that they should have.
func (v *indexVerifier) visitRows(tx *Txn, visit func(row *index.Row, key []byte, entries []index.Entry) error) error {
	for item, err := range tx.Scan(v.ix.rows, ScanOptions{Span: KeyspaceSpan(v.ix.rows), KeysOnly: true}) {
		if err != nil {
			return err
		}
		row, entries, _, err := v.loadExpected(tx, item.Key)
		if err == nil && row != nil {
			err = visit(row, item.Key, entries)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// loadExpected returns a row, nil if there is none, and the entries that it should have: none
// if there is a mistake in it.
func (v *indexVerifier) loadExpected(tx *Txn, key []byte) (*index.Row, []index.Entry, uint64, error) {
	at, err := tx.locateKey(v.ix.rows, key)
	if err != nil {
		return nil, nil, 0, err
	}
	row, version, err := tx.loadRow(at, key, v.indexes.Needs, v.indexes.Whole)
	if err != nil || row == nil {
		return nil, nil, 0, err
	}
	entries, err := v.x.Extract.ExtractEntries(row)
	if errors.Is(err, index.ErrEntry) {
		entries, err = nil, nil
	}
	return row, entries, version, err
}

// visitEntries visits all entries that count.
func (v *indexVerifier) visitEntries(tx *Txn, visit func(entry ScanItem, row []byte) error) error {
	start, end := index.EntriesSpan()
	o := ScanOptions{Span: KeyRange(v.ix.entries, start, end)}
	for entry, err := range tx.Scan(v.ix.entries, o) {
		if err != nil {
			return err
		}
		_, row, err := index.SplitKey(entry.Key)
		if err != nil {
			return err
		}
		counts, err := tx.isLiveEntry(v.x, v.ix.rows, entry, row)
		if err == nil && counts {
			err = visit(entry, row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// compareDigests compares all at once.
func (v *indexVerifier) compareDigests(tx *Txn) (same bool, err error) {
	var want, got index.Digest
	err = v.visitRows(tx, func(row *index.Row, _ []byte, entries []index.Entry) error {
		v.report.Rows++
		for _, e := range entries {
			want.Add(e, entryExpiryMS(v.x, row.ExpiryMS))
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	err = v.visitEntries(tx, func(entry ScanItem, _ []byte) error {
		got.Add(index.Entry{Key: entry.Key, Value: entry.Value}, entry.ExpiryMS)
		return nil
	})
	v.report.Entries = got.EntryCount()
	return want.Equal(&got), err
}

// collectSuspects finds the rows whose entries are not what they should be.
func (v *indexVerifier) collectSuspects(tx *Txn, found *suspectRows) error {
	err := v.visitRows(tx, func(row *index.Row, key []byte, entries []index.Entry) error {
		missing, err := v.countMissing(tx, row, entries)
		if err == nil && missing > 0 {
			found.findOrAdd(key)
		}
		return err
	})
	if err != nil {
		return err
	}
	return v.visitEntries(tx, func(entry ScanItem, key []byte) error {
		_, entries, _, err := v.loadExpected(tx, key)
		if err == nil && !hasEntry(entries, entry.Key) {
			if s := found.findOrAdd(key); s != nil {
				s.extraEntries = append(s.extraEntries, bytes.Clone(entry.Key))
			}
		}
		return err
	})
}

func hasEntry(entries []index.Entry, key []byte) bool {
	for _, e := range entries {
		if bytes.Equal(e.Key, key) {
			return true
		}
	}
	return false
}

// countMissing counts entries that a row should have and has not.
func (v *indexVerifier) countMissing(tx *Txn, row *index.Row, entries []index.Entry) (n uint64, err error) {
	for _, e := range entries {
		item, found, err := tx.getEntryItem(v.ix.entries, e.Key)
		switch {
		case err != nil:
			return n, err
		case !found:
			n++
		case !bytes.Equal(item.Value, e.Value) || item.ExpiryMS != entryExpiryMS(v.x, row.ExpiryMS):
			n++
		}
	}
	return n, nil
}

// checkSuspect looks at a suspect again.
func (v *indexVerifier) checkSuspect(tx *Txn, s *suspectRow) error {
	row, entries, version, err := v.loadExpected(tx, s.row)
	if err != nil {
		return err
	}
	s.missing, s.stray, s.version = 0, 0, version
	if row != nil && !v.isExpiryInDoubt(tx, row.ExpiryMS) {
		if s.missing, err = v.countMissing(tx, row, entries); err != nil {
			return err
		}
	}
	for _, key := range s.extraEntries {
		entry, found, err := tx.getEntryItem(v.ix.entries, key)
		if err == nil && !found {
			continue
		}
		counts := false
		if err == nil {
			counts, err = tx.isLiveEntry(v.x, v.ix.rows, entry, s.row)
		}
		if err != nil {
			return err
		}
		if counts && !hasEntry(entries, key) && !v.isExpiryInDoubt(tx, entry.ExpiryMS) {
			s.stray++
		}
	}
	return nil
}

// isExpiryInDoubt reports whether what expires at a time may be there for one clock and gone for
// another: the entries of an asynchronous index are judged by their own.
func (v *indexVerifier) isExpiryInDoubt(tx *Txn, expiryMS int64) bool {
	return v.x.Mode == index.Asynchronous && expiryMS != 0 && expiryMS <= tx.env.NowMS()+maxClockSkewMS
}

// verifySuspects reports suspects on the state on which they were found.
func (v *indexVerifier) verifySuspects(tx *Txn, found *suspectRows) error {
	for _, s := range found.rows {
		if err := v.checkSuspect(tx, s); err != nil {
			return err
		}
		v.reportSuspect(s)
	}
	return nil
}

// reportSuspect adds a suspect to the report.
func (v *indexVerifier) reportSuspect(s *suspectRow) {
	v.report.Missing, v.report.Stray = v.report.Missing+s.missing, v.report.Stray+s.stray
	if s.missing+s.stray > 0 && len(v.report.Keys) < maxReportKeys {
		v.report.Keys = append(v.report.Keys, s.row)
	}
}

// verifySuspectsLater reports suspects of an asynchronous index that are wrong still when the
// index has caught up with the version of the row that they were held against.
func (v *indexVerifier) verifySuspectsLater(ctx context.Context, found *suspectRows) error {
	for round := 0; len(found.rows) > 0; round++ {
		before := map[string]uint64{}
		if err := v.checkSuspects(ctx, found, func(s *suspectRow) { before[string(s.row)] = s.version }); err != nil {
			return err
		}
		if err := v.ix.WaitCaughtUp(ctx); err != nil {
			return err
		}
		var again []*suspectRow
		err := v.checkSuspects(ctx, found, func(s *suspectRow) {
			if s.missing+s.stray > 0 && s.version != before[string(s.row)] {
				again = append(again, s)
			} else {
				v.reportSuspect(s)
			}
		})
		if err != nil {
			return err
		}
		if found.rows = again; round == maxVerifyRounds {
			v.report.Unsettled = uint64(len(again))
			return nil
		}
	}
	return nil
}

// checkSuspects looks at all suspects on one state.
func (v *indexVerifier) checkSuspects(ctx context.Context, found *suspectRows, each func(*suspectRow)) error {
	return v.ix.db.View(ctx, func(tx *Txn) error {
		for _, s := range found.rows {
			if err := v.checkSuspect(tx, s); err != nil {
				return err
			}
			each(s)
		}
		return nil
	})
}
