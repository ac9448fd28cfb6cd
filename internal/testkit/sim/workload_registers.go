package sim

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/testkit/check"
	"github.com/cleavekv/cleave/internal/testkit/check/register"
)

// history is the results of all clients.
type history struct {
	registers []register.Call
	txns      []check.Txn
	balances  []check.Balances
	claims    []check.Claim
	counts    map[string][]check.Count
	changes   []check.Change
	scans     []check.Scan
	leases    map[string]*leaseHistory
	// visitorRounds is how many rounds a visitor saw on arrival.
	visitorRounds map[int]int
	sagas         []*sagaRun
	queue         queueHistory
}

func encodeUint64(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// decodeUint64 reads what encode wrote, 0 for nothing.
func decodeUint64(b []byte) uint64 {
	if len(b) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// decodeElements takes a list apart.
func decodeElements(b []byte) (list []uint64) {
	for ; len(b) >= 8; b = b[8:] {
		list = append(list, decodeUint64(b))
	}
	return list
}

// makeRequest makes a request about a key, which may be sent again if it has an id.
func (c *client) makeRequest(k string, named bool, make func() command.Command) func() group.Request {
	var id group.RequestID
	if named {
		id = c.w.newID()
	}
	return func() group.Request { return group.Request{Command: make(), Key: positionOf(k), ID: id} }
}

// runRegisterOp reads, writes, swaps or deletes a register.
func (c *client) runRegisterOp(k string) {
	w := c.w
	w.serial++
	call := register.Call{Key: k, New: register.Value(w.serial)}
	o := c.startOp(func(at check.Call) {
		call.Call = at
		w.history.registers = append(w.history.registers, call)
	})
	kind := w.rng.IntN(5)
	named := w.drawChance(500)
	write := func(c2 func() command.Command, heard func(command.Reply)) {
		o.sendVisit(positionOf(k), named, w.makeVisit(c.makeRequest(k, named, c2)), heard)
	}
	set := func(cond command.Condition, version uint64) func() command.Command {
		return func() command.Command {
			return &command.Set{Key: positionOf(k), Value: encodeUint64(uint64(call.New)), Condition: cond, Version: version}
		}
	}
	switch kind {
	case 0, 1:
		call.Kind = register.Get
		o.sendVisit(positionOf(k), true, makeReadVisit(k), func(r command.Reply) {
			call.Got = register.Value(decodeUint64(r.Bytes))
			o.finish(check.OK)
		})
	case 2:
		call.Kind = register.Set
		write(set(command.Always, 0), o.finishWith)
	case 3:
		call.Kind = register.Delete
		write(func() command.Command { return &command.Delete{Keys: positionsOf(k)} }, func(r command.Reply) {
			call.Done = r.Int == 1
			o.finishWith(r)
		})
	default:
		call.Kind = register.Swap
		o.sendVisit(positionOf(k), true, makeReadVisit(k), func(r command.Reply) {
			call.Old, call.Done = register.Value(decodeUint64(r.Bytes)), true
			write(set(command.IfVersion, r.Version), o.finishWith)
		})
	}
}

// finishWith ends an op with the reply to its command: one that is refused has changed
// nothing.
func (o *op) finishWith(r command.Reply) {
	if r.Err != nil {
		o.finish(check.Failed)
		return
	}
	o.finish(check.OK)
}

// addToCounter adds to a counter, with an id: a retry is not counted again.
func (c *client) addToCounter(k string) {
	w := c.w
	call := check.Count{Delta: 1}
	o := c.startOp(func(at check.Call) {
		call.Call = at
		w.history.counts[k] = append(w.history.counts[k], call)
	})
	add := func() command.Command { return &command.Add{Key: positionOf(k), Delta: 1} }
	o.sendVisit(positionOf(k), true, w.makeVisit(c.makeRequest(k, true, add)), func(r command.Reply) {
		call.Told, call.Value = true, r.Int
		o.finishWith(r)
	})
}

// changeScanKey puts or deletes a key for scans.
func (c *client) changeScanKey(k string) {
	w := c.w
	call := check.Change{Key: k, Delete: w.drawChance(400)}
	o := c.startOp(func(at check.Call) {
		call.Call = at
		w.history.changes = append(w.history.changes, call)
	})
	o.sendVisit(positionOf(k), true, w.makeVisit(c.makeRequest(k, true, func() command.Command {
		if call.Delete {
			return &command.Delete{Keys: positionsOf(k)}
		}
		return &command.Set{Key: positionOf(k), Value: []byte("here")}
	})), o.finishWith)
}

func parseDecimal(b []byte) int64 {
	n, _ := strconv.ParseInt(string(b), 10, 64)
	return n
}

// A hash whose fields are always written together is a register: a move or a
// transaction that loses, or brings back, one of its elements tears it.
var hashFields = [][]byte{[]byte("one"), []byte("three"), []byte("two")}

func makeHSet(k string, n register.Value) func() command.Command {
	return func() command.Command {
		c := &command.HSet{Key: positionOf(k)}
		for _, f := range hashFields {
			c.Fields = append(c.Fields, command.FieldValue{Field: f, Value: encodeUint64(uint64(n))})
		}
		return c
	}
}

// checkWholeHash returns what all fields of a hash hold.
func (w *world) checkWholeHash(k string, r command.Reply) register.Value {
	if len(r.Items) == 0 {
		return 0
	}
	for i, item := range r.Items {
		if len(r.Items) != len(hashFields) || !bytes.Equal(item.Field, hashFields[i]) || !bytes.Equal(item.Value, r.Items[0].Value) {
			w.failf("the hash %s is torn: %+v", k, r.Items)
		}
	}
	return register.Value(decodeUint64(r.Items[0].Value))
}

// runHashOp reads, fills or empties a hash.
func (c *client) runHashOp(k string) {
	w := c.w
	if w.drawChance(250) {
		c.swapHash(k)
		return
	}
	w.serial++
	call := register.Call{Key: k, New: register.Value(w.serial)}
	o := c.startOp(func(at check.Call) {
		call.Call = at
		w.history.registers = append(w.history.registers, call)
	})
	ask := func(safe bool, make func() command.Command, heard func(command.Reply)) {
		o.sendVisit(positionOf(k), true, w.makeVisit(c.makeRequest(k, !safe, make)), heard)
	}
	switch w.rng.IntN(5) {
	case 0:
		call.Kind = register.Get
		ask(true, func() command.Command { return &command.HGetAll{Key: positionOf(k)} }, func(r command.Reply) {
			call.Got = w.checkWholeHash(k, r)
			o.finishWith(r)
		})
	case 1:
		call.Kind = register.Get
		f := pickOne(w, hashFields)
		ask(true, func() command.Command { return &command.HGet{Key: positionOf(k), Field: f} }, func(r command.Reply) {
			call.Got = register.Value(decodeUint64(r.Bytes))
			o.finishWith(r)
		})
	case 2, 3:
		call.Kind = register.Set
		ask(false, makeHSet(k, call.New), o.finishWith)
	default:
		call.Kind = register.Delete
		empty := func() command.Command { return &command.HDel{Key: positionOf(k), Fields: hashFields} }
		if w.drawChance(500) { // which leaves elements to be swept
			empty = func() command.Command { return &command.Delete{Keys: positionsOf(k)} }
		}
		ask(false, empty, func(r command.Reply) {
			call.Done = r.Int > 0
			o.finishWith(r)
		})
	}
}

// swapHash fills a hash in a transaction if it holds what was read.
func (c *client) swapHash(k string) {
	w := c.w
	c.runTxn(spansToReserve(true, k), 0, func(x *tx) (func(), func(check.Call)) {
		w.serial++
		call := register.Call{Key: k, Kind: register.Swap, New: register.Value(w.serial), Done: true}
		all := w.makeVisit(func() group.Request { return group.Request{Command: &command.HGetAll{Key: positionOf(k)}} })
		return func() {
				x.o.sendVisit(positionOf(k), true, all, func(r command.Reply) {
					call.Old = w.checkWholeHash(k, r)
					x.reads = []command.Read{{Key: positionOf(k), Version: r.Version}}
					x.writes = []keyWrite{{k, makeHSet(k, call.New)}}
					x.commit()
				})
			}, func(at check.Call) {
				call.Call = at
				w.history.registers = append(w.history.registers, call)
			}
	})
}

// addToFieldCounter is count for a field of a hash.
func (c *client) addToFieldCounter(k string) {
	w := c.w
	call := check.Count{Delta: 1}
	o := c.startOp(func(at check.Call) {
		call.Call = at
		w.history.counts[k] = append(w.history.counts[k], call)
	})
	add := func() command.Command { return &command.HIncrBy{Key: positionOf(k), Field: hashFields[0], Delta: 1} }
	o.sendVisit(positionOf(k), true, w.makeVisit(c.makeRequest(k, true, add)), func(r command.Reply) {
		call.Told, call.Value = true, r.Int
		o.finishWith(r)
	})
}

// isHashAccount reports whether an account is a field of a hash.
func isHashAccount(k string) bool { return slices.Contains(letters[3:], k[:1]) && k[2:6] == "bank" }

// makeAccountVisit reads an account.
func (w *world) makeAccountVisit(k string) visit {
	return w.makeVisit(func() group.Request {
		if isHashAccount(k) {
			return group.Request{Command: &command.HGet{Key: positionOf(k), Field: hashFields[0]}}
		}
		return group.Request{Command: &command.Get{Key: positionOf(k)}}
	})
}
