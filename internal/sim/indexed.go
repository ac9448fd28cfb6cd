package sim

import (
	"bytes"

	"github.com/cleavekv/cleave/internal/check"
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/index"
	"github.com/cleavekv/cleave/partition"

	tuple "github.com/cleavekv/cleave/key"
)

// Rows have entries in an index, each in the shard of another letter. The workload follows
// what package cleave does for a transactional index: read the row, and write it with the
// difference between its old entries and its new ones. Entries and differences are made by
// package index.

// indexed are the values that rows have. The digit says which letter has the entry.
var indexed = []string{"0", "1", "2", "3"}

var byValue = index.Func(func(r *index.Row) ([]index.Made, error) {
	if len(r.Value) == 0 {
		return nil, nil
	}
	return []index.Made{{Tuple: tuple.Tuple{string(r.Value)}}}, nil
})

// entriesOf returns the entries that a row should have.
func (w *world) entriesOf(row string, value []byte) []index.Entry {
	entries, err := byValue.Entries(&index.Row{Key: []byte(row), Value: value})
	w.must(err, "make entries")
	return entries
}

// entryKey is the key of an entry.
func (w *world) entryKey(entry []byte) string {
	t, row, err := index.SplitKey(entry)
	w.must(err, "take an entry apart")
	value := t[0].(string)
	return letters[int(value[0]-'0')%len(letters)] + "/entry of " + string(row[:1]) + string(row[2:]) + " " + value
}

// allEntries are the keys of all entries that a row can have.
func (w *world) allEntries(row string) (keys []string) {
	for _, value := range indexed {
		keys = append(keys, w.entryKey(w.entriesOf(row, []byte(value))[0].Key))
	}
	return keys
}

// writeIndexed gives a row another value, or deletes it.
func (c *client) writeIndexed() {
	w := c.w
	row := key(pick(w, letters), "idx", w.rng.IntN(2))
	var value []byte
	if w.chance(800) {
		value = []byte(pick(w, indexed))
	}
	claims := append(claimsOf(true, row), claimsOf(true, w.allEntries(row)...)...)
	c.transact(claims, 0, func(x *tx) (func(), func(check.Call)) {
		set := func(k string, value []byte) {
			x.writes = append(x.writes, write{k, func() command.Command {
				if value == nil {
					return &command.Delete{Keys: []partition.Position{at(k)}}
				}
				return &command.Set{Key: at(k), Value: value}
			}})
		}
		return func() {
			x.readAll([]string{row}, func() {
				change := index.Diff(w.entriesOf(row, x.values[row]), w.entriesOf(row, value), false)
				set(row, value)
				for _, k := range change.Delete {
					set(w.entryKey(k), nil)
				}
				for _, e := range change.Put {
					set(w.entryKey(e.Key), []byte(row))
				}
				x.commit()
			})
		}, func(check.Call) {}
	})
}

// readIndexed reads a row and all entries that it can have, and compares them.
func (c *client) readIndexed() {
	w := c.w
	row := key(pick(w, letters), "idx", w.rng.IntN(2))
	entries := w.allEntries(row)
	keys := append([]string{row}, entries...)
	c.transact(claimsOf(false, keys...), 0, func(x *tx) (func(), func(check.Call)) {
		return func() { x.readAll(keys, x.commit) }, func(call check.Call) {
			if call.Status != check.OK {
				return
			}
			for i, k := range entries {
				there, should := len(x.values[k]) > 0, bytes.Equal(x.values[row], []byte(indexed[i]))
				if there != should {
					w.failf("row %s is %q, and its entry for %s is there: %v", row, x.values[row], indexed[i], there)
				}
			}
			w.count("rows compared with their entries")
		}
	})
}

// lastIndexed compares all rows with all entries at rest, both ways.
func (w *world) lastIndexed(get func(string) []byte, listed func(prefix string) map[string]string) {
	want := map[string]string{}
	for _, l := range letters {
		for i := range 2 {
			row := key(l, "idx", i)
			for _, e := range w.entriesOf(row, get(row)) {
				want[w.entryKey(e.Key)] = row
			}
		}
	}
	for _, l := range letters {
		for k, row := range listed(l + "/entry of ") {
			if want[k] != row {
				w.failf("at rest %q of row %s is stray", k, row)
			}
			delete(want, k)
		}
	}
	for k, row := range want {
		w.failf("at rest row %s lacks %q", row, k)
	}
}
