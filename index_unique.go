package cleave

import (
	"bytes"
	"fmt"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/index"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/key"
)

// UniqueError says which row has the entry of a unique index that another one was to
// get. It matches [ErrUnique].
type UniqueError struct {
	Keyspace, Index string
	// Entry is what both have.
	Entry key.Tuple
	// Key is the row that has it, and Row the one that was refused: in a transaction, or
	// while the index is built, that is not clear from the call.
	Key, Row []byte
}

// Error names the index and both rows.
func (e *UniqueError) Error() string {
	return fmt.Sprintf("%v: index %q of keyspace %q: %v of key %q is that of key %q", ErrUnique, e.Index, e.Keyspace, e.Entry,
		e.Row[:min(len(e.Row), shownBytes)], e.Key[:min(len(e.Key), shownBytes)])
}

// Is matches [ErrUnique].
func (e *UniqueError) Is(target error) bool { return target == ErrUnique }

// checkUnique refuses entries of unique indexes that two rows would have. What it looks
// at counts as read: of two transactions that bring the same one meets a conflict.
func (tx *Txn) checkUnique() error {
	var dead []uniqueEntry
	for _, u := range tx.uniques {
		entries := &Keyspace{db: tx.db, space: u.index.Entries, inner: true}
		_, stands, err := tx.env.Get(effect.Rows.AppendKey(nil, entries.space.AppendPosition(nil, u.key)), nil)
		if err != nil {
			return public(err)
		}
		if !stands {
			continue // the row was written again and has given it up: another may have it
		}
		t, _, err := index.SplitKey(u.key)
		if err != nil {
			return public(err)
		}
		prefix, err := index.Same(t)
		if err != nil {
			return err
		}
		for item, err := range tx.Scan(entries, ScanOptions{Prefix: prefix}) {
			if err != nil {
				return tx.without(u.index, err)
			}
			if bytes.Equal(item.Key, u.key) {
				continue
			}
			_, other, err := index.SplitKey(item.Key)
			if err != nil {
				return public(err)
			}
			counts, err := tx.counts(u.index, u.row.at.k, item, other)
			if err != nil {
				return err
			}
			if counts {
				return &UniqueError{Keyspace: u.index.Keyspace, Index: u.index.Name, Entry: t, Key: other, Row: bytes.Clone(u.row.key)}
			}
			dead = append(dead, uniqueEntry{u.row, u.index, item.Key})
		}
	}
	return tx.sweep(dead)
}

const (
	// sweepKeys and sweepBytes are up to what size of a transaction entries are swept: none
	// may become too large by it.
	sweepKeys  = command.MaxTxnKeys * 9 / 10
	sweepBytes = command.MaxTxnBytes / 2
)

// sweep deletes entries that were found not to count, as far as there is room. If they stayed
// for their hour, a tuple that one row has after the other would cost each of them a read
// more. Their rows count as read: none of them is there at the commit with that expiry, nor
// ever again.
func (tx *Txn) sweep(dead []uniqueEntry) error {
	for _, e := range dead {
		effects := tx.env.Effects()
		if len(tx.reads)+len(tx.ranges)+max(len(tx.writes), effects.Len()) >= sweepKeys || effects.Size() >= sweepBytes {
			return nil
		}
		if err := tx.apply(e.row, e.index, index.Change{Delete: [][]byte{e.key}}, 0); err != nil {
			return err
		}
	}
	return nil
}

// counts tells whether an entry is of the row that there is. One without expiry always
// is. One with expiry outlives its row, see entryGraceMS; and when the row is written
// anew after it had expired, nobody knows which entries it had, so they are still
// there. But the expiry of the row that is there now is later than that of the one that
// had expired: an entry counts if the row is there and expires when the entry says.
func (tx *Txn) counts(x *node.Index, rows *Keyspace, entry Item, row []byte) (bool, error) {
	if entry.Expires.IsZero() || x.Mode != index.Transactional {
		return true, nil
	}
	p, err := tx.locate(rows, row, false)
	if err != nil {
		return false, err
	}
	found, _, err := tx.loadRow(place{rows, p}, row, nil, false)
	return found != nil && found.ExpiryMS != 0 && entryMS(x, found.ExpiryMS) == entry.Expires.UnixMilli(), err
}
