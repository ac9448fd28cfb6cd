package sim

import (
	"strconv"

	"github.com/cleavekv/cleave/internal/check"
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/sums"
	"github.com/cleavekv/cleave/internal/txn"
)

// A split counter is played by the rules of package counter, with what it decides by
// (package sums): parts in other shards, adds that demand an open part and say by their id
// which one, sums of one moment, and transactions that open and fold parts.

const (
	splitCounter  = "split counter"
	splitManifest = "c/splits"
	mostSplits    = 4
)

func splitPart(i int) string { return key(letters[(2+i)%len(letters)], "split", i) }

func splitParts(n int) (keys []string) {
	for i := range n {
		keys = append(keys, splitPart(i))
	}
	return keys
}

// splits does something to the split counter.
func (c *client) splits() {
	switch n := c.w.rng.IntN(10); {
	case n < 6:
		c.addToSplit()
	case n < 8:
		c.sumSplits()
	default:
		c.resizeSplits()
	}
}

// addToSplit adds once: to a part that the client believes to be open, and if it is not,
// to part 0 under the same id.
func (c *client) addToSplit() {
	w := c.w
	call := check.Count{Delta: 1}
	o := c.start(func(at check.Call) {
		call.Call = at
		w.history.counts[splitCounter] = append(w.history.counts[splitCounter], call)
	})
	id := group.RequestID(w.id())
	add := func(i int, heard func(command.Reply)) {
		k := splitPart(i)
		o.route(at(k), true, w.plain(func() group.Request {
			return group.Request{Command: &command.Add{Key: at(k), Delta: 1, IfPresent: i > 0}, Key: at(k), ID: id}
		}), heard)
	}
	i := w.rng.IntN(mostSplits)
	if i >= max(c.parts, 1) {
		i = 0
	}
	add(i, func(r command.Reply) {
		if r.Err == nil && r.Kind == command.Nil {
			w.count("adds to a part that was closed")
			add(0, o.done)
			return
		}
		o.done(r)
	})
}

// readSplits reads the manifest and the parts that it names.
func (x *tx) readSplits(then func(parts []int64)) {
	w := x.o.c.w
	x.readAll([]string{splitManifest}, func() {
		n, err := sums.ParseManifest(x.values[splitManifest])
		w.must(err, "a manifest")
		x.o.c.parts = n
		keys := splitParts(n)
		x.readAll(keys, func() {
			parts := make([]int64, n)
			for i, k := range keys {
				parts[i] = decimal(x.values[k])
			}
			then(parts)
		})
	})
}

func splitClaims(write bool) []txn.Claim {
	return claimsOf(write, append(splitParts(mostSplits), splitManifest)...)
}

// sumSplits asks for the exact sum.
func (c *client) sumSplits() {
	w := c.w
	c.transact(splitClaims(false), 0, func(x *tx) (func(), func(check.Call)) {
		call := check.Count{}
		return func() {
				x.readSplits(func(parts []int64) {
					sum, err := sums.Total(parts)
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

// resizeSplits gives the counter another number of parts.
func (c *client) resizeSplits() {
	w := c.w
	to := 1 << w.rng.IntN(3)
	c.transact(splitClaims(true), 0, func(x *tx) (func(), func(check.Call)) {
		return func() {
				x.readSplits(func(old []int64) {
					parts, err := sums.Resize(old, to)
					w.must(err, "a resize")
					x.writeSplits(old, parts)
					w.later(x.commit)
				})
			}, func(at check.Call) {
				if at.Status == check.OK {
					c.parts = to
					w.count("resizes of a split counter")
				}
			}
	})
}

// writeSplits makes parts out of others.
func (x *tx) writeSplits(old, parts []int64) {
	set := func(k string, n int64) {
		x.writes = append(x.writes, write{k, func() command.Command { return &command.Set{Key: at(k), Value: strconv.AppendInt(nil, n, 10)} }})
	}
	for i, n := range parts {
		if i >= len(old) || n != old[i] {
			set(splitPart(i), n)
		}
	}
	for i := len(parts); i < len(old); i++ {
		x.writes = append(x.writes, write{splitPart(i), func() command.Command { return &command.Delete{Keys: positions(splitPart(i))} }})
	}
	if len(parts) == 1 {
		x.writes = append(x.writes, write{splitManifest, func() command.Command { return &command.Delete{Keys: positions(splitManifest)} }})
		return
	}
	x.writes = append(x.writes, write{splitManifest, func() command.Command {
		return &command.Set{Key: at(splitManifest), Value: sums.AppendManifest(nil, len(parts))}
	}})
}

// lastSum is what the parts hold at rest, closed ones included: those hold nothing.
func (w *world) lastSum(get func(string) []byte) int64 {
	n, err := sums.ParseManifest(get(splitManifest))
	w.must(err, "a manifest")
	sum := int64(0)
	for i := range mostSplits {
		value := get(splitPart(i))
		if i >= n && value != nil {
			w.failf("part %d is closed, and holds %q", i, value)
		}
		sum += decimal(value)
	}
	return sum
}
