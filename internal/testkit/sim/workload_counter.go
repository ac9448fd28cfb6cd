package sim

import (
	"strconv"

	"github.com/cleavekv/cleave/internal/patterns/splitcount"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/testkit/check"
)

// A split counter is played by the rules of package counter, with what it decides by
// (package sums): parts in other shards, adds that demand an open part and say by their id
// which one, sums of one moment, and transactions that open and fold parts.

const (
	splitCounter     = "split counter"
	splitManifestKey = "c/splits"
	maxSplitParts    = 4
)

func splitPartKey(i int) string { return makeKey(letters[(2+i)%len(letters)], "split", i) }

func splitPartKeys(n int) (keys []string) {
	for i := range n {
		keys = append(keys, splitPartKey(i))
	}
	return keys
}

// runSplitCounterOp does something to the split counter.
func (c *client) runSplitCounterOp() {
	switch n := c.w.rng.IntN(10); {
	case n < 6:
		c.addToSplitCounter()
	case n < 8:
		c.sumSplitCounter()
	default:
		c.resizeSplitCounter()
	}
}

// addToSplitCounter adds once: to a part that the client believes to be open, and if it is not,
// to part 0 under the same id.
func (c *client) addToSplitCounter() {
	w := c.w
	call := check.Count{Delta: 1}
	o := c.startOp(func(at check.Call) {
		call.Call = at
		w.history.counts[splitCounter] = append(w.history.counts[splitCounter], call)
	})
	id := group.RequestID(w.newID())
	add := func(i int, heard func(command.Reply)) {
		k := splitPartKey(i)
		o.sendVisit(positionOf(k), true, w.makeVisit(func() group.Request {
			return group.Request{Command: &command.Add{Key: positionOf(k), Delta: 1, IfPresent: i > 0}, Key: positionOf(k), ID: id}
		}), heard)
	}
	i := w.rng.IntN(maxSplitParts)
	if i >= max(c.knownParts, 1) {
		i = 0
	}
	add(i, func(r command.Reply) {
		if r.Err == nil && r.Kind == command.Nil {
			w.addCount("adds to a part that was closed")
			add(0, o.finishWith)
			return
		}
		o.finishWith(r)
	})
}

// readSplitCounter reads the manifest and the parts that it names.
func (x *tx) readSplitCounter(then func(parts []int64)) {
	w := x.o.c.w
	x.readKeys([]string{splitManifestKey}, func() {
		n, err := splitcount.ParseManifest(x.values[splitManifestKey])
		w.must(err, "a manifest")
		x.o.c.knownParts = n
		keys := splitPartKeys(n)
		x.readKeys(keys, func() {
			parts := make([]int64, n)
			for i, k := range keys {
				parts[i] = parseDecimal(x.values[k])
			}
			then(parts)
		})
	})
}

func splitCounterSpans(write bool) []txn.ReservedSpan {
	return spansToReserve(write, append(splitPartKeys(maxSplitParts), splitManifestKey)...)
}

// sumSplitCounter asks for the exact sum.
func (c *client) sumSplitCounter() {
	w := c.w
	c.runTxn(splitCounterSpans(false), 0, func(x *tx) (func(), func(check.Call)) {
		call := check.Count{}
		return func() {
				x.readSplitCounter(func(parts []int64) {
					sum, err := splitcount.Total(parts)
					w.must(err, "a sum")
					call.Told, call.Value = true, sum
					x.commit()
				})
			}, func(at check.Call) {
				call.Call = at
				if at.Status != check.OK {
					call.Told = false
				}
				w.history.counts[splitCounter] = append(w.history.counts[splitCounter], call)
			}
	})
}

// resizeSplitCounter gives the counter another number of parts.
func (c *client) resizeSplitCounter() {
	w := c.w
	to := 1 << w.rng.IntN(3)
	c.runTxn(splitCounterSpans(true), 0, func(x *tx) (func(), func(check.Call)) {
		return func() {
				x.readSplitCounter(func(old []int64) {
					parts, err := splitcount.Resize(old, to)
					w.must(err, "a resize")
					x.writeSplitParts(old, parts)
					w.runAfterThinkTime(x.commit)
				})
			}, func(at check.Call) {
				if at.Status == check.OK {
					c.knownParts = to
					w.addCount("resizes of a split counter")
				}
			}
	})
}

// writeSplitParts makes parts out of others.
func (x *tx) writeSplitParts(old, parts []int64) {
	set := func(k string, n int64) {
		x.writes = append(x.writes, keyWrite{k, func() command.Command { return &command.Set{Key: positionOf(k), Value: strconv.AppendInt(nil, n, 10)} }})
	}
	for i, n := range parts {
		if i >= len(old) || n != old[i] {
			set(splitPartKey(i), n)
		}
	}
	for i := len(parts); i < len(old); i++ {
		x.writes = append(x.writes, keyWrite{splitPartKey(i), func() command.Command { return &command.Delete{Keys: positionsOf(splitPartKey(i))} }})
	}
	if len(parts) == 1 {
		x.writes = append(x.writes, keyWrite{splitManifestKey, func() command.Command { return &command.Delete{Keys: positionsOf(splitManifestKey)} }})
		return
	}
	x.writes = append(x.writes, keyWrite{splitManifestKey, func() command.Command {
		return &command.Set{Key: positionOf(splitManifestKey), Value: splitcount.AppendManifest(nil, len(parts))}
	}})
}

// sumAtRest is what the parts hold at rest, closed ones included: those hold nothing.
func (w *world) sumAtRest(get func(string) []byte) int64 {
	n, err := splitcount.ParseManifest(get(splitManifestKey))
	w.must(err, "a manifest")
	sum := int64(0)
	for i := range maxSplitParts {
		value := get(splitPartKey(i))
		if i >= n && value != nil {
			w.failf("part %d is closed, and holds %q", i, value)
		}
		sum += parseDecimal(value)
	}
	return sum
}
