package sim

import (
	"bytes"
	"slices"

	"github.com/cleavekv/cleave/internal/check"
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/txn"
	keys "github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/partition"
)

// A salted log has rows by number, each under the salt that its number gives, and each
// salt is with another letter. It is written and read as package table does it, by the
// layout, its ranges and the merge of package key. Which rows there are is also kept in
// one key elsewhere, as bits: an ordered read of all salts must show just these, in order.

// saltedRows is how many rows there can be.
const saltedRows = 12

// saltedBits is where it is kept which there are.
const saltedBits = "e/saltedbits"

var saltedLayout = func() *keys.Layout {
	l, err := keys.ParseLayout("salt(3, n) | n:int")
	if err != nil {
		panic(err)
	}
	return l
}()

// salted puts a key of the layout where its salt is.
func salted(salt int, k []byte) string { return letters[salt] + "/salted" + string(k) }

// saltedKey is the key of a row.
func saltedKey(n int) string {
	k, err := saltedLayout.AppendValues(nil, n)
	if err != nil {
		panic(err)
	}
	v, err := saltedLayout.Decode(k)
	if err != nil {
		panic(err)
	}
	salt, _ := v.Element(0).Int()
	return salted(int(salt), k)
}

// saltedSpans are where the rows of each salt are.
func saltedSpans() (spans []partition.Span) {
	ranges, err := saltedLayout.FanOut(nil)
	if err != nil {
		panic(err)
	}
	for salt, r := range ranges {
		spans = append(spans, partition.Span{Start: at(salted(salt, r.Begin)), End: at(salted(salt, r.End))})
	}
	return spans
}

// writeSalted adds a row to the salted log, or takes it away.
func (c *client) writeSalted() {
	w := c.w
	n := w.rng.IntN(saltedRows)
	k := saltedKey(n)
	c.transact(claimsOf(true, k, saltedBits), 0, func(x *tx) (func(), func(check.Call)) {
		return func() {
			x.readAll([]string{saltedBits}, func() {
				bits := number(x.values[saltedBits]) ^ 1<<n
				row := func() command.Command { return &command.Delete{Keys: positions(k)} }
				if bits&(1<<n) != 0 {
					row = func() command.Command { return &command.Set{Key: at(k), Value: []byte("row")} }
				}
				x.writes = []write{{k, row}, {saltedBits, func() command.Command { return &command.Set{Key: at(saltedBits), Value: encode(bits)} }}}
				x.commit()
			})
		}, func(check.Call) {}
	})
}

// readSalted reads the salted log in order, all salts at one moment, and compares.
func (c *client) readSalted() {
	w := c.w
	claims := claimsOf(false, saltedBits)
	for _, s := range saltedSpans() {
		claims = append(claims, txn.Claim{Span: s})
	}
	c.transact(claims, 0, func(x *tx) (func(), func(check.Call)) {
		found := make([][]string, saltedLayout.Salts())
		return func() {
				x.scanAll(saltedSpans(), found, func() {
					w.later(func() { x.readAll([]string{saltedBits}, x.commit) })
				})
			}, func(at check.Call) {
				if at.Status != check.OK {
					return
				}
				w.count("ordered reads of salts")
				w.judgeSalted(found, number(x.values[saltedBits]))
			}
	})
}

// scanAll scans spans one after the other, and goes on then.
func (x *tx) scanAll(spans []partition.Span, found [][]string, then func()) {
	if len(spans) == 0 {
		then()
		return
	}
	x.scan(spans[0], &found[0], func() { x.scanAll(spans[1:], found[1:], then) })
}

// judgeSalted checks that the rows of all salts, merged, are those that the bits tell.
func (w *world) judgeSalted(found [][]string, bits uint64) {
	var sources []keys.Cursor[[]byte]
	for salt, list := range found {
		var rows [][]byte
		for _, k := range list {
			rows = append(rows, bytes.TrimPrefix([]byte(k), []byte(salted(salt, nil))))
		}
		sources = append(sources, keys.SliceCursor(rows))
	}
	merged, err := keys.Merge(saltedLayout.CompareUnsalted, sources...)
	w.must(err, "merge salts")
	var got, want []int64
	for k, err := range merged.All() {
		w.must(err, "merge salts")
		v, err := saltedLayout.Decode(k)
		w.must(err, "a salted key")
		n, _ := v.Element(1).Int()
		got = append(got, n)
	}
	for n := range saltedRows {
		if bits&(1<<n) != 0 {
			want = append(want, int64(n))
		}
	}
	if !slices.Equal(got, want) {
		w.failf("an ordered read of salts has %d, and there are %d", got, want)
	}
}

// lastSalted reads the salted log at rest.
func (w *world) lastSalted(get func(string) []byte) {
	bits := number(get(saltedBits))
	for n := range saltedRows {
		if there := get(saltedKey(n)) != nil; there != (bits&(1<<n) != 0) {
			w.failf("at rest row %d of the salted log is there: %t, and the bits are %b", n, there, bits)
		}
	}
}
