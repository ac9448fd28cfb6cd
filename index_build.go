package cleave

import (
	"errors"
	"time"

	"github.com/cleavekv/cleave/internal/index"
	"github.com/cleavekv/cleave/internal/node"
)

// buildPage is how many rows one transaction of a build is about: so few that writers
// whom it meets wait for milliseconds.
const buildPage = 64

// progress is where a build goes on: the Next of the last page, empty behind all of them.
var progress = index.Meta("progress")

// build gives the rows that were there before a transactional index their entries, page
// by page, each in a transaction that reads the rows again. Writes maintain the index
// meanwhile, so a row that was looked at stays right, and one that is written is right
// whether it was looked at or not. It goes on where the last one ended.
func (k *keeper) build(x *node.Index) error {
	// Whoever made the index has waited for this too, unless their context had ended.
	if err := k.ix.db.node.Barrier(k.ctx); err != nil {
		return err
	}
	after, err := k.ix.entries.Get(k.ctx, progress)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if err == nil && len(after) == 0 { // there was no next page: only the note is missing
		return k.ix.db.node.MarkIndex(k.ctx, x, true)
	}
	for limit := buildPage; ; {
		began := time.Now()
		page, err := k.ix.rows.Scan(k.ctx, ScanOptions{After: after, Limit: limit, KeysOnly: true})
		if err == nil {
			// What is not in the page because it was deleted must not come back in a crash that
			// leaves the build behind it.
			err = public(k.ix.db.node.SyncApart())
		}
		if err == nil {
			err = k.ix.db.Update(k.ctx, func(tx *Txn) error { return k.buildPage(tx, page) })
		}
		if errors.Is(err, ErrTooLarge) && limit > 1 {
			limit /= 2 // rows with many entries
			continue
		}
		if err != nil {
			return err
		}
		k.note(func(s *keeperStatus) { s.err, s.built = nil, s.built+uint64(len(page.Items)) })
		if after = page.Next; after == nil {
			break
		}
		k.rest(time.Since(began))
	}
	return k.ix.db.node.MarkIndex(k.ctx, x, true)
}

// buildPage gives rows their entries.
func (k *keeper) buildPage(tx *Txn, page Page) error {
	x, err := k.ix.now()
	if err != nil {
		return err
	}
	if x.Extract == nil {
		return undeclared(x)
	}
	set := node.IndexesOf(x)
	tx.use(k.ix.entries, false) // they must still be there at the commit
	for _, item := range page.Items {
		p, err := tx.locate(k.ix.rows, item.Key, false)
		if err != nil {
			return err
		}
		r := &indexedRow{at: place{k.ix.rows, p}, key: item.Key, with: set}
		row, err := tx.rowAt(r)
		if err != nil {
			return err
		}
		if row == nil {
			continue // deleted meanwhile
		}
		entries, err := x.Extract.Entries(row)
		if err != nil {
			return indexRefuses(x, r.at, err)
		}
		if err := tx.apply(r, x, index.Change{Put: entries}, row.ExpiryMS); err != nil {
			return err
		}
	}
	return tx.Set(k.ix.entries, progress, page.Next)
}
