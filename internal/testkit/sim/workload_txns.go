package sim

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/index"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/testkit/check"
	tuple "github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/partition"
)

// spansToReserve are claims of keys, to read or to write.
func spansToReserve(write bool, keys ...string) (claims []txn.ReservedSpan) {
	for _, k := range keys {
		claims = append(claims, txn.ReservedSpan{Span: txn.KeySpan(positionOf(k)), Write: write})
	}
	return claims
}

// pickLetters returns n different letters in their order.
func (w *world) pickLetters(n int) []string {
	if w.cfg.Heat == "zipf" {
		return w.drawHotLetters(n)
	}
	list := slices.Clone(letters)
	if w.drawChance(500) || w.cfg.Contended {
		list = list[:3] // where all the others are too
	}
	w.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	list = list[:n]
	slices.Sort(list)
	return list
}

// appendLists reads lists and appends to some of them.
func (c *client) appendLists() {
	w := c.w
	var reads, writes []string
	for _, l := range w.pickLetters(1 + w.rng.IntN(3)) {
		k := makeKey(l, "list", 0)
		if w.drawChance(750) {
			reads = append(reads, k)
		}
		if w.drawChance(650) {
			writes = append(writes, k)
		}
	}
	if w.cfg.Contended && w.drawChance(600) { // one that is blind to what another reads
		two := slices.Clone(letters[:2])
		w.rng.Shuffle(2, func(i, j int) { two[i], two[j] = two[j], two[i] })
		reads, writes = []string{makeKey(two[0], "list", 0)}, []string{makeKey(two[1], "list", 0)}
	}
	if len(reads)+len(writes) == 0 {
		c.beginNext()
		return
	}
	c.runTxn(append(spansToReserve(false, reads...), spansToReserve(true, writes...)...), 0, func(x *tx) (func(), func(check.Call)) {
		var t check.Txn
		return func() {
				x.readKeys(reads, func() {
					for _, k := range reads {
						t.Ops = append(t.Ops, check.Read(k, decodeElements(x.values[k])...))
					}
					for _, k := range writes {
						w.serial++
						n := w.serial
						x.writes = append(x.writes, keyWrite{k, func() command.Command { return &command.Append{Key: positionOf(k), Suffix: encodeUint64(n)} }})
						t.Ops = append(t.Ops, check.Append(k, n))
					}
					w.runAfterThinkTime(x.commit)
				})
			}, func(at check.Call) {
				t.Call = at
				w.history.txns = append(w.history.txns, t)
			}
	})
}

// openingBalance is what each account has at first.
const openingBalance = 100

func parseBalance(b []byte) int64 {
	if len(b) == 0 {
		return openingBalance
	}
	return parseDecimal(b)
}

// transferMoney moves money from one account to another.
func (c *client) transferMoney() {
	w := c.w
	two := w.pickLetters(2)
	from, to := makeKey(two[0], "bank", 0), makeKey(two[1], "bank", 0)
	if w.drawChance(500) {
		from, to = to, from
	}
	c.runTxn(spansToReserve(true, from, to), 0, func(x *tx) (func(), func(check.Call)) {
		return func() {
			x.readKeys([]string{from, to}, func() {
				sum := min(1+w.rng.Int64N(20), parseBalance(x.values[from]))
				x.writeBalance(from, parseBalance(x.values[from])-sum)
				x.writeBalance(to, parseBalance(x.values[to])+sum)
				x.commit()
			})
		}, func(check.Call) {}
	})
}

// writeBalance writes a balance.
func (x *tx) writeBalance(k string, b int64) {
	value := strconv.AppendInt(nil, b, 10)
	x.writes = append(x.writes, keyWrite{k, func() command.Command {
		if isHashAccount(k) {
			return &command.HSet{Key: positionOf(k), Fields: []command.FieldValue{{Field: hashFields[0], Value: value}, {Field: hashFields[1], Value: value}}}
		}
		return &command.Set{Key: positionOf(k), Value: value}
	}})
}

// auditBank reads all accounts at one moment.
func (c *client) auditBank() {
	w := c.w
	var keys []string
	for _, l := range letters {
		keys = append(keys, makeKey(l, "bank", 0))
	}
	c.runTxn(spansToReserve(false, keys...), 0, func(x *tx) (func(), func(check.Call)) {
		call := check.Balances{Of: map[string]int64{}}
		return func() {
				x.readKeys(keys, func() {
					for _, k := range keys {
						call.Of[k] = parseBalance(x.values[k])
					}
					x.commit()
				})
			}, func(at check.Call) {
				call.Call = at
				w.history.balances = append(w.history.balances, call)
			}
	})
}

// bookingsKey counts bookings.
const bookingsKey = "c/booked"

// bookCabin tries to get a cabin, and counts it elsewhere.
func (c *client) bookCabin() {
	w := c.w
	cabin := makeKey(pickOne(w, letters), "cab", w.rng.IntN(20))
	c.runTxn(spansToReserve(true, cabin, bookingsKey), 0, func(x *tx) (func(), func(check.Call)) {
		w.serial++
		call := check.Claim{Cabin: cabin, Customer: w.serial, Won: true}
		return func() {
				x.readKeys([]string{cabin}, func() {
					if len(x.values[cabin]) > 0 {
						call.Won = false
						x.o.finish(check.OK)
						return
					}
					x.writes = []keyWrite{
						{cabin, func() command.Command {
							return &command.Set{Key: positionOf(cabin), Value: encodeUint64(call.Customer)}
						}},
						{bookingsKey, func() command.Command { return &command.Add{Key: positionOf(bookingsKey), Delta: 1} }},
					}
					x.commit()
				})
			}, func(at check.Call) {
				call.Call = at
				w.history.claims = append(w.history.claims, call)
			}
	})
}

// scanLetters lists the keys between two letters, at one moment or piece by piece.
func (c *client) scanLetters() {
	w := c.w
	two := w.pickLetters(2)
	start, end := two[0]+"/scan", two[1]+"/scan"
	span := partition.Span{Start: dataKeyspace.PrefixSpan([]byte(start)).Start, End: dataKeyspace.PrefixSpan([]byte(end)).Start}
	c.runTxn([]txn.ReservedSpan{{Span: span}}, 0, func(x *tx) (func(), func(check.Call)) {
		call := check.Scan{Start: start, End: end}
		return func() {
				x.scanSpan(span, &call.Keys, func() {
					if w.drawChance(500) {
						x.o.finish(check.OK)
						return
					}
					x.commit()
				})
			}, func(at check.Call) {
				call.Call = at
				call.Keys = slices.DeleteFunc(call.Keys, func(k string) bool { return !strings.Contains(k, "/scan") })
				w.history.scans = append(w.history.scans, call)
			}
	})
}

// Rows have entries in an index, each in the shard of another letter. The workload follows
// what package cleave does for a transactional index: read the row, and write it with the
// difference between its old entries and its new ones. Entries and differences are made by
// package index.

// indexedValues are the values that rows have. The digit says which letter has the entry.
var indexedValues = []string{"0", "1", "2", "3"}

var valueIndex = index.ExtractFunc(func(r *index.Row) ([]index.FuncEntry, error) {
	if len(r.Value) == 0 {
		return nil, nil
	}
	return []index.FuncEntry{{Tuple: tuple.Tuple{string(r.Value)}}}, nil
})

// makeEntries returns the entries that a row should have.
func (w *world) makeEntries(row string, value []byte) []index.Entry {
	entries, err := valueIndex.ExtractEntries(&index.Row{Key: []byte(row), Value: value})
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

// listEntryKeys are the keys of all entries that a row can have.
func (w *world) listEntryKeys(row string) (keys []string) {
	for _, value := range indexedValues {
		keys = append(keys, w.entryKey(w.makeEntries(row, []byte(value))[0].Key))
	}
	return keys
}

// writeIndexedRow gives a row another value, or deletes it.
func (c *client) writeIndexedRow() {
	w := c.w
	row := makeKey(pickOne(w, letters), "idx", w.rng.IntN(2))
	var value []byte
	if w.drawChance(800) {
		value = []byte(pickOne(w, indexedValues))
	}
	claims := append(spansToReserve(true, row), spansToReserve(true, w.listEntryKeys(row)...)...)
	c.runTxn(claims, 0, func(x *tx) (func(), func(check.Call)) {
		set := func(k string, value []byte) {
			x.writes = append(x.writes, keyWrite{k, func() command.Command {
				if value == nil {
					return &command.Delete{Keys: []partition.Position{positionOf(k)}}
				}
				return &command.Set{Key: positionOf(k), Value: value}
			}})
		}
		return func() {
			x.readKeys([]string{row}, func() {
				change := index.Diff(w.makeEntries(row, x.values[row]), w.makeEntries(row, value), false)
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

// compareIndexedRow reads a row and all entries that it can have, and compares them.
func (c *client) compareIndexedRow() {
	w := c.w
	row := makeKey(pickOne(w, letters), "idx", w.rng.IntN(2))
	entries := w.listEntryKeys(row)
	keys := append([]string{row}, entries...)
	c.runTxn(spansToReserve(false, keys...), 0, func(x *tx) (func(), func(check.Call)) {
		return func() { x.readKeys(keys, x.commit) }, func(call check.Call) {
			if call.Status != check.OK {
				return
			}
			for i, k := range entries {
				there, should := len(x.values[k]) > 0, bytes.Equal(x.values[row], []byte(indexedValues[i]))
				if there != should {
					w.failf("row %s is %q, and its entry for %s is there: %v", row, x.values[row], indexedValues[i], there)
				}
			}
			w.addCount("rows compared with their entries")
		}
	})
}

// checkIndex compares all rows with all entries at rest, both ways.
func (w *world) checkIndex(get func(string) []byte, listed func(prefix string) map[string]string) {
	want := map[string]string{}
	for _, l := range letters {
		for i := range 2 {
			row := makeKey(l, "idx", i)
			for _, e := range w.makeEntries(row, get(row)) {
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
