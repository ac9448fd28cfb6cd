package sim

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/testkit/check"
	keys "github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/partition"
)

// rosterSizeKey is where the size of a letter's roster is kept: in another shard.
func rosterSizeKey(letter string) string {
	i := slices.Index(letters, letter)
	return makeKey(letters[(i+2)%len(letters)], "size", i)
}

// toggleMember puts a member on a roster or takes it off, and counts.
func (c *client) toggleMember(letter string) {
	w := c.w
	k, size := makeKey(letter, "ros", w.rng.IntN(3)), rosterSizeKey(letter)
	c.runTxn(spansToReserve(true, k, size), 0, func(x *tx) (func(), func(check.Call)) {
		return func() {
			x.readKeys([]string{k}, func() {
				delta := int64(1)
				member := func() command.Command { return &command.Set{Key: positionOf(k), Value: []byte("member")} }
				if len(x.values[k]) > 0 {
					delta = -1
					member = func() command.Command { return &command.Delete{Keys: positionsOf(k)} }
				}
				x.writes = []keyWrite{{k, member}, {size, func() command.Command { return &command.Add{Key: positionOf(size), Delta: delta} }}}
				w.runAfterThinkTime(x.commit)
			})
		}, func(check.Call) {}
	})
}

// compareRoster counts a roster and compares: both at one moment.
func (c *client) compareRoster(letter string) {
	w := c.w
	size, span := rosterSizeKey(letter), dataKeyspace.PrefixSpan([]byte(letter+"/ros"))
	c.runTxn(append(spansToReserve(false, size), txn.ReservedSpan{Span: span}), 0, func(x *tx) (func(), func(check.Call)) {
		var members []string
		return func() {
				x.scanSpan(span, &members, func() {
					w.runAfterThinkTime(func() { x.readKeys([]string{size}, x.commit) })
				})
			}, func(at check.Call) {
				if at.Status != check.OK {
					return
				}
				w.addCount("roll calls")
				if n := parseDecimal(x.values[size]); n != int64(len(members)) {
					w.failf("the roster of %s has %q, and its size is %d", letter, members, n)
				}
			}
	})
}

// A watchman makes rounds: a transaction that scans which visitors are there, across the boundary of
// two letters, and appends that to a log in another shard. Visitors come, each by a plain
// write, and never leave. A visitor that has come, and sees then how long the log is, must be in all
// that is appended later: nothing but the lock of a round on what it has scanned keeps a
// visitor from coming between its prepare and its decision, and from seeing the old log.

const (
	maxVisitors = 64
	roundLogKey = "a/rounds" // in the first part: that is done when it is decided, and never locked
)

// visitorKey is the key of one: the last ones of a letter, or the first ones of the next.
func visitorKey(i int) string {
	if i < maxVisitors/2 {
		return fmt.Sprintf("b/~visitor%02d", i)
	}
	return fmt.Sprintf("c/!visitor%02d", i)
}

// visitorSpan has the keys of all visitors, and no others.
func visitorSpan() partition.Span {
	return partition.Span{Start: positionOf("b/~"), End: positionOf("c/!~")}
}

// runRoundsOp makes a round, or lets a visitor come.
func (c *client) runRoundsOp() {
	if c.w.drawChance(500) {
		c.recordRound()
	} else {
		c.addVisitor(len(c.w.history.visitorRounds) % maxVisitors) // the next one
	}
}

// addVisitor lets a visitor come, and look at the log.
func (c *client) addVisitor(i int) {
	w := c.w
	k := visitorKey(i)
	o := c.startOp(func(check.Call) {})
	o.sendVisit(positionOf(k), true, w.makeVisit(c.makeRequest(k, true, func() command.Command {
		return &command.Set{Key: positionOf(k), Value: []byte("here"), Condition: command.IfAbsent}
	})), func(r command.Reply) {
		if r.Err != nil {
			o.finishWith(r)
			return
		}
		o.sendVisit(positionOf(roundLogKey), true, makeReadVisit(roundLogKey), func(r command.Reply) {
			n := len(decodeElements(r.Bytes))
			if known, ok := w.history.visitorRounds[i]; !ok || n < known {
				w.history.visitorRounds[i] = n
			}
			w.addCount("visitors")
			o.finishWith(r)
		})
	})
}

// recordRound notes which visitors are there.
func (c *client) recordRound() {
	w := c.w
	span := visitorSpan()
	c.runTxn(append(spansToReserve(true, roundLogKey), txn.ReservedSpan{Span: span}), 0, func(x *tx) (func(), func(check.Call)) {
		var there []string
		return func() {
				x.scanSpan(span, &there, func() {
					x.writes = []keyWrite{{roundLogKey, func() command.Command {
						return &command.Append{Key: positionOf(roundLogKey), Suffix: encodeUint64(encodeRound(there))}
					}}}
					x.commit()
				})
			}, func(at check.Call) {
				if at.Status == check.OK {
					w.addCount("rounds")
				}
			}
	})
}

// encodeRound is a set of visitors.
func encodeRound(there []string) (set uint64) {
	for i := range maxVisitors {
		for _, k := range there {
			if k == visitorKey(i) {
				set |= 1 << i
			}
		}
	}
	return set
}

// checkRounds checks at rest that all rounds saw the visitors that were there.
func (w *world) checkRounds(get func(string) []byte) {
	log := decodeElements(get(roundLogKey))
	for n, set := range log {
		if n > 0 && log[n-1]&^set != 0 {
			w.failf("round %d has seen %b, and the one before %b", n, set, log[n-1])
		}
		for i, since := range w.history.visitorRounds {
			if n >= since && set&(1<<i) == 0 {
				w.failf("round %d has not seen visitor %d, who had come when there were %d rounds", n, i, since)
			}
		}
	}
}

// A salted log has rows by number, each under the salt that its number gives, and each
// salt is with another letter. It is written and read as package table does it, by the
// layout, its ranges and the merge of package key. Which rows there are is also kept in
// one key elsewhere, as bits: an ordered read of all salts must show just these, in order.

// maxSaltedRows is how many rows there can be.
const maxSaltedRows = 12

// saltedBitsKey is where it is kept which there are.
const saltedBitsKey = "e/saltedbits"

var saltedLayout = func() *keys.Layout {
	l, err := keys.ParseLayout("salt(3, n) | n:int")
	if err != nil {
		panic(err)
	}
	return l
}()

// saltedKey puts a key of the layout where its salt is.
func saltedKey(salt int, k []byte) string { return letters[salt] + "/salted" + string(k) }

// saltedRowKey is the key of a row.
func saltedRowKey(n int) string {
	k, err := saltedLayout.AppendValues(nil, n)
	if err != nil {
		panic(err)
	}
	v, err := saltedLayout.Decode(k)
	if err != nil {
		panic(err)
	}
	salt, _ := v.Element(0).Int()
	return saltedKey(int(salt), k)
}

// saltedSpans are where the rows of each salt are.
func saltedSpans() (spans []partition.Span) {
	ranges, err := saltedLayout.FanOut(nil)
	if err != nil {
		panic(err)
	}
	for salt, r := range ranges {
		spans = append(spans, partition.Span{Start: positionOf(saltedKey(salt, r.Begin)), End: positionOf(saltedKey(salt, r.End))})
	}
	return spans
}

// toggleSaltedRow adds a row to the salted log, or takes it away.
func (c *client) toggleSaltedRow() {
	w := c.w
	n := w.rng.IntN(maxSaltedRows)
	k := saltedRowKey(n)
	c.runTxn(spansToReserve(true, k, saltedBitsKey), 0, func(x *tx) (func(), func(check.Call)) {
		return func() {
			x.readKeys([]string{saltedBitsKey}, func() {
				bits := decodeUint64(x.values[saltedBitsKey]) ^ 1<<n
				row := func() command.Command { return &command.Delete{Keys: positionsOf(k)} }
				if bits&(1<<n) != 0 {
					row = func() command.Command { return &command.Set{Key: positionOf(k), Value: []byte("row")} }
				}
				x.writes = []keyWrite{{k, row}, {saltedBitsKey, func() command.Command { return &command.Set{Key: positionOf(saltedBitsKey), Value: encodeUint64(bits)} }}}
				x.commit()
			})
		}, func(check.Call) {}
	})
}

// readSaltedLog reads the salted log in order, all salts at one moment, and compares.
func (c *client) readSaltedLog() {
	w := c.w
	claims := spansToReserve(false, saltedBitsKey)
	for _, s := range saltedSpans() {
		claims = append(claims, txn.ReservedSpan{Span: s})
	}
	c.runTxn(claims, 0, func(x *tx) (func(), func(check.Call)) {
		found := make([][]string, saltedLayout.Salts())
		return func() {
				x.scanSpans(saltedSpans(), found, func() {
					w.runAfterThinkTime(func() { x.readKeys([]string{saltedBitsKey}, x.commit) })
				})
			}, func(at check.Call) {
				if at.Status != check.OK {
					return
				}
				w.addCount("ordered reads of salts")
				w.compareSaltedRows(found, decodeUint64(x.values[saltedBitsKey]))
			}
	})
}

// scanSpans scans spans one after the other, and goes on then.
func (x *tx) scanSpans(spans []partition.Span, found [][]string, then func()) {
	if len(spans) == 0 {
		then()
		return
	}
	x.scanSpan(spans[0], &found[0], func() { x.scanSpans(spans[1:], found[1:], then) })
}

// compareSaltedRows checks that the rows of all salts, merged, are those that the bits tell.
func (w *world) compareSaltedRows(found [][]string, bits uint64) {
	var sources []keys.Cursor[[]byte]
	for salt, list := range found {
		var rows [][]byte
		for _, k := range list {
			rows = append(rows, bytes.TrimPrefix([]byte(k), []byte(saltedKey(salt, nil))))
		}
		sources = append(sources, keys.NewSliceCursor(rows))
	}
	merged, err := keys.NewMerger(saltedLayout.CompareUnsalted, sources...)
	w.must(err, "merge salts")
	var got, want []int64
	for k, err := range merged.All() {
		w.must(err, "merge salts")
		v, err := saltedLayout.Decode(k)
		w.must(err, "a salted key")
		n, _ := v.Element(1).Int()
		got = append(got, n)
	}
	for n := range maxSaltedRows {
		if bits&(1<<n) != 0 {
			want = append(want, int64(n))
		}
	}
	if !slices.Equal(got, want) {
		w.failf("an ordered read of salts has %d, and there are %d", got, want)
	}
}

// checkSaltedRows reads the salted log at rest.
func (w *world) checkSaltedRows(get func(string) []byte) {
	bits := decodeUint64(get(saltedBitsKey))
	for n := range maxSaltedRows {
		if there := get(saltedRowKey(n)) != nil; there != (bits&(1<<n) != 0) {
			w.failf("at rest row %d of the salted log is there: %t, and the bits are %b", n, there, bits)
		}
	}
}
