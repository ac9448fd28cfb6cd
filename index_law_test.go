package cleave

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/internal/tally"
	"github.com/cleavekv/cleave/key"
)

// A keyspace with a transactional index answers as one without, whatever is done and by
// which way, and the index is what the rows say at every moment.
func TestAStoreWithIndexesAnswersAsTheModelDoes(t *testing.T) {
	var did tally.Counts
	for range soaking(1) {
		rapid.Check(t, func(t *rapid.T) {
			l := newLaw(t, true, &did)
			defer func() { _ = l.db.Close() }()
			t.Repeat(l.actions())
		})
	}
	did.Log(t, "restarts", "transactions", "keyspaces dropped", "keys expired", "batches", "batches refused", "batches repeated", "entries compared")
}

// everything is a function that makes entries of all that a row has.
func everything(r IndexRow) (entries []IndexEntry, _ error) {
	if r.Value != nil {
		entries = append(entries, IndexEntry{key.Tuple{"value", string(r.Value[:min(len(r.Value), 2)])}, r.Value})
	}
	for _, f := range r.Fields {
		entries = append(entries, IndexEntry{key.Tuple{"field", string(f.Name), len(f.Value)}, f.Value})
	}
	return entries, nil
}

// index makes the index of a keyspace, or declares it again.
func (l *law) index(t *rapid.T, name string) {
	if !l.indexed {
		return
	}
	ks, err := l.db.Keyspace(name)
	if err != nil {
		t.Fatal(err)
	}
	ix, err := l.db.OpenIndex(ctx, IndexOptions{Name: "all", Keyspace: ks, Function: "everything", Extract: everything})
	if err == nil {
		err = ix.Wait(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// compareIndex compares an index with what the rows of the same moment say.
func (l *law) compareIndex(t *rapid.T, name string) {
	if !l.indexed {
		return
	}
	ix, err := l.db.Index(name, "all")
	if err == nil {
		var n int
		n, err = saysAsRows(l.db, ix, everything)
		l.did.Add("entries compared", n)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// saysAsRows tells why an index is not what a function makes of the rows of the same moment,
// and how many entries it has.
func saysAsRows(db *DB, ix *Index, f func(IndexRow) ([]IndexEntry, error)) (n int, err error) {
	err = db.View(ctx, func(tx *Txn) error {
		want, err := recomputed(tx, ix.Keyspace(), f)
		if err != nil {
			return err
		}
		var got []string
		for item, err := range tx.ScanIndex(ix, IndexScanOptions{}) {
			if err != nil {
				return err
			}
			got = append(got, sayEntry(item.Entry, item.Key, item.Value))
		}
		if n = len(got); !slices.Equal(got, want) {
			return fmt.Errorf("index %s of %s has\n%q, its rows say\n%q", ix.Name(), ix.Keyspace().Name(), got, want)
		}
		return nil
	})
	return n, err
}

// recomputed returns the entries that rows should have, in their order.
func recomputed(tx *Txn, ks *Keyspace, f func(IndexRow) ([]IndexEntry, error)) ([]string, error) {
	type entry struct{ sorts, says string }
	var all []entry
	for item, err := range tx.Scan(ks, ScanOptions{}) {
		if err != nil {
			return nil, err
		}
		row := IndexRow{Key: item.Key, Value: item.Value, Expires: item.Expires}
		if item.Value == nil {
			if row.Fields, err = tx.HGetAll(ks, item.Key); err != nil {
				return nil, err
			}
		}
		made, err := f(row)
		if err != nil {
			return nil, err
		}
		for _, e := range made {
			sorts, err := key.Encode(key.Tuple{e.Entry, item.Key})
			if err != nil {
				return nil, err
			}
			t, _ := key.Decode(sorts)
			all = append(all, entry{string(sorts), sayEntry(t[0], item.Key, e.Value)})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.sorts, b.sorts) })
	var says []string
	for _, e := range all {
		says = append(says, e.says)
	}
	return says, nil
}

func sayEntry(entry any, row, value []byte) string {
	return fmt.Sprintf("%v %q %d %.10q", entry, row, len(value), value)
}
