package cleave

import (
	"bytes"
	"context"
	"errors"

	"github.com/cleavekv/cleave/internal/index"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/plant"
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

// Clean tells that the index is what its rows say, but for those that are Unsettled.
func (r *IndexReport) Clean() bool { return r.Missing == 0 && r.Stray == 0 }

const (
	reportKeys    = 10     // in a report
	verifyRounds  = 5      // how often rows that change are looked at again
	verifySuspect = 10_000 // rows that are looked at again, at most
	// verifyClocksMS is by how much the clocks of groups may differ: a few seconds after a
	// crash, when each goes on from the time that it has promised not to go back behind.
	verifyClocksMS = 10_000
)

// Verify makes the entries of all rows again and compares them with those that there
// are, by digest and then, if that is not the same, one by one. It works on one state,
// which it keeps as long as it takes, while writes go on. What an asynchronous index
// lacks is looked at again when it has caught up.
func (ix *Index) Verify(ctx context.Context) (report IndexReport, err error) {
	x, err := ix.readable(false)
	if err != nil {
		return report, public(err)
	}
	if x.Extract == nil {
		return report, undeclared(x)
	}
	if err := ix.waitNow(ctx); err != nil {
		return report, err
	}
	v := verifier{ix: ix, x: x, set: node.IndexesOf(x), report: &report}
	var found suspects
	err = ix.db.View(ctx, func(tx *Txn) error {
		same, err := v.digests(tx)
		if err == nil && !same {
			if err = v.suspect(tx, &found); err == nil && x.Mode == index.Transactional {
				err = v.judge(tx, &found)
			}
		}
		return err
	})
	if err == nil && x.Mode == index.Asynchronous && len(found.list) > 0 {
		err = v.judgeLater(ctx, &found)
	}
	return report, ix.gone(err)
}

// verifier compares an index with its rows.
type verifier struct {
	ix     *Index
	x      *node.Index
	set    *node.Indexes
	report *IndexReport
}

// suspect is a row that may not have the right entries.
type suspect struct {
	row   []byte
	extra [][]byte // entries that it has and perhaps should not
	// missing and stray are how many there are, as of a version of the row.
	missing, stray uint64
	version        uint64
}

// suspects are some of them, by row.
type suspects struct {
	list []*suspect
	by   map[string]*suspect
}

func (s *suspects) of(row []byte) *suspect {
	if s.by == nil {
		s.by = map[string]*suspect{}
	}
	x := s.by[string(row)]
	if x == nil && len(s.list) < verifySuspect {
		x = &suspect{row: bytes.Clone(row)}
		s.by[string(row)], s.list = x, append(s.list, x)
	}
	return x
}

// eachRow visits all rows with the entries that they should have.
func (v *verifier) eachRow(tx *Txn, visit func(row *index.Row, key []byte, entries []index.Entry) error) error {
	for item, err := range tx.Scan(v.ix.rows, ScanOptions{KeysOnly: true}) {
		if err != nil {
			return err
		}
		row, entries, _, err := v.should(tx, item.Key)
		if err == nil && row != nil {
			err = visit(row, item.Key, entries)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// should returns a row, nil if there is none, and the entries that it should have: none
// if there is a mistake in it.
func (v *verifier) should(tx *Txn, key []byte) (*index.Row, []index.Entry, uint64, error) {
	p, err := tx.locate(v.ix.rows, key, false)
	if err != nil {
		return nil, nil, 0, err
	}
	row, version, err := tx.loadRow(place{v.ix.rows, p}, key, v.set.Needs, v.set.Whole)
	if err != nil || row == nil {
		return nil, nil, 0, err
	}
	entries, err := v.x.Extract.Entries(row)
	if errors.Is(err, index.ErrEntry) {
		entries, err = nil, nil
	}
	return row, entries, version, err
}

// eachEntry visits all entries that count.
func (v *verifier) eachEntry(tx *Txn, visit func(entry Item, row []byte) error) error {
	o := ScanOptions{}
	o.Start, o.End = index.Entries()
	for entry, err := range tx.Scan(v.ix.entries, o) {
		if err != nil {
			return err
		}
		_, row, err := index.SplitKey(entry.Key)
		if err != nil {
			return public(err)
		}
		counts, err := tx.counts(v.x, v.ix.rows, entry, row)
		if err == nil && counts {
			err = visit(entry, row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// expiry is when an entry expires, 0 for never.
func (v *verifier) expiry(entry Item) int64 {
	if entry.Expires.IsZero() {
		return 0
	}
	return entry.Expires.UnixMilli()
}

// digests compares all at once.
func (v *verifier) digests(tx *Txn) (same bool, err error) {
	var want, got index.Digest
	err = v.eachRow(tx, func(row *index.Row, _ []byte, entries []index.Entry) error {
		v.report.Rows++
		for _, e := range entries {
			want.Add(e, entryMS(v.x, row.ExpiryMS))
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	err = v.eachEntry(tx, func(entry Item, _ []byte) error {
		got.Add(index.Entry{Key: entry.Key, Value: entry.Value}, v.expiry(entry))
		return nil
	})
	v.report.Entries = got.Entries()
	return want.Equal(&got), err
}

// suspect finds the rows whose entries are not what they should be.
func (v *verifier) suspect(tx *Txn, found *suspects) error {
	err := v.eachRow(tx, func(row *index.Row, key []byte, entries []index.Entry) error {
		missing, err := v.missing(tx, row, entries)
		if err == nil && missing > 0 {
			found.of(key)
		}
		return err
	})
	if err != nil {
		return err
	}
	return v.eachEntry(tx, func(entry Item, key []byte) error {
		_, entries, _, err := v.should(tx, key)
		if err == nil && !has(entries, entry.Key) {
			if s := found.of(key); s != nil {
				s.extra = append(s.extra, bytes.Clone(entry.Key))
			}
		}
		return err
	})
}

func has(entries []index.Entry, key []byte) bool {
	for _, e := range entries {
		if bytes.Equal(e.Key, key) {
			return true
		}
	}
	return false
}

// missing counts entries that a row should have and has not.
func (v *verifier) missing(tx *Txn, row *index.Row, entries []index.Entry) (n uint64, err error) {
	for _, e := range entries {
		item, err := tx.Item(v.ix.entries, e.Key)
		switch {
		case errors.Is(err, ErrNotFound):
			n++
		case err != nil:
			return n, err
		case !bytes.Equal(item.Value, e.Value) || v.expiry(item) != entryMS(v.x, row.ExpiryMS):
			n++
		}
	}
	return n, nil
}

// look looks at a suspect again.
func (v *verifier) look(tx *Txn, s *suspect) error {
	row, entries, version, err := v.should(tx, s.row)
	if err != nil {
		return err
	}
	s.missing, s.stray, s.version = 0, 0, version
	if row != nil && !v.passing(tx, row.ExpiryMS) {
		if s.missing, err = v.missing(tx, row, entries); err != nil {
			return err
		}
	}
	for _, key := range s.extra {
		entry, err := tx.Item(v.ix.entries, key)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		counts := false
		if err == nil {
			counts, err = tx.counts(v.x, v.ix.rows, entry, s.row)
		}
		if err != nil {
			return err
		}
		if counts && !has(entries, key) && !v.passing(tx, v.expiry(entry)) {
			s.stray++
		}
	}
	return nil
}

// passing tells whether what expires at a time may be there for one clock and gone for
// another: the entries of an asynchronous index are judged by their own.
func (v *verifier) passing(tx *Txn, expiryMS int64) bool {
	return !plant.Bug("cleave-index-verify-one-clock") && v.x.Mode == index.Asynchronous && expiryMS != 0 && expiryMS <= tx.env.NowMS()+verifyClocksMS
}

// judge reports suspects on the state on which they were found.
func (v *verifier) judge(tx *Txn, found *suspects) error {
	for _, s := range found.list {
		if err := v.look(tx, s); err != nil {
			return err
		}
		v.tell(s)
	}
	return nil
}

// tell adds a suspect to the report.
func (v *verifier) tell(s *suspect) {
	v.report.Missing, v.report.Stray = v.report.Missing+s.missing, v.report.Stray+s.stray
	if s.missing+s.stray > 0 && len(v.report.Keys) < reportKeys {
		v.report.Keys = append(v.report.Keys, s.row)
	}
}

// judgeLater reports suspects of an asynchronous index that are wrong still when the
// index has caught up with the version of the row that they were held against.
func (v *verifier) judgeLater(ctx context.Context, found *suspects) error {
	for round := 0; len(found.list) > 0; round++ {
		before := map[string]uint64{}
		if err := v.lookAll(ctx, found, func(s *suspect) { before[string(s.row)] = s.version }); err != nil {
			return err
		}
		if err := v.ix.waitNow(ctx); err != nil {
			return err
		}
		var again []*suspect
		err := v.lookAll(ctx, found, func(s *suspect) {
			if s.missing+s.stray > 0 && s.version != before[string(s.row)] {
				again = append(again, s)
			} else {
				v.tell(s)
			}
		})
		if err != nil {
			return err
		}
		if found.list = again; round == verifyRounds {
			v.report.Unsettled = uint64(len(again))
			return nil
		}
	}
	return nil
}

// lookAll looks at all suspects on one state.
func (v *verifier) lookAll(ctx context.Context, found *suspects, each func(*suspect)) error {
	return v.ix.db.View(ctx, func(tx *Txn) error {
		for _, s := range found.list {
			if err := v.look(tx, s); err != nil {
				return err
			}
			each(s)
		}
		return nil
	})
}
