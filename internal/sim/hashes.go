package sim

import (
	"bytes"
	"slices"

	"github.com/cleavekv/cleave/internal/check"
	"github.com/cleavekv/cleave/internal/check/register"
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
)

// A hash whose fields are always written together is a register: a move or a
// transaction that loses, or brings back, one of its elements tears it.
var fields = [][]byte{[]byte("one"), []byte("three"), []byte("two")}

func fillHash(k string, n register.Value) func() command.Command {
	return func() command.Command {
		c := &command.HSet{Key: at(k)}
		for _, f := range fields {
			c.Fields = append(c.Fields, command.FieldValue{Field: f, Value: encode(uint64(n))})
		}
		return c
	}
}

// whole returns what all fields of a hash hold.
func (w *world) whole(k string, r command.Reply) register.Value {
	if len(r.Items) == 0 {
		return 0
	}
	for i, item := range r.Items {
		if len(r.Items) != len(fields) || !bytes.Equal(item.Field, fields[i]) || !bytes.Equal(item.Value, r.Items[0].Value) {
			w.failf("the hash %s is torn: %+v", k, r.Items)
		}
	}
	return register.Value(number(r.Items[0].Value))
}

// hash reads, fills or empties a hash.
func (c *client) hash(k string) {
	w := c.w
	if w.chance(250) {
		c.swapHash(k)
		return
	}
	w.serial++
	call := register.Call{Key: k, New: register.Value(w.serial)}
	o := c.start(func(at check.Call) {
		call.Call = at
		w.history.registers = append(w.history.registers, call)
	})
	ask := func(safe bool, make func() command.Command, heard func(command.Reply)) {
		o.route(at(k), true, w.plain(c.request(k, !safe, make)), heard)
	}
	switch w.rng.IntN(5) {
	case 0:
		call.Kind = register.Get
		ask(true, func() command.Command { return &command.HGetAll{Key: at(k)} }, func(r command.Reply) {
			call.Got = w.whole(k, r)
			o.done(r)
		})
	case 1:
		call.Kind = register.Get
		f := pick(w, fields)
		ask(true, func() command.Command { return &command.HGet{Key: at(k), Field: f} }, func(r command.Reply) {
			call.Got = register.Value(number(r.Bytes))
			o.done(r)
		})
	case 2, 3:
		call.Kind = register.Set
		ask(false, fillHash(k, call.New), o.done)
	default:
		call.Kind = register.Delete
		empty := func() command.Command { return &command.HDel{Key: at(k), Fields: fields} }
		if w.chance(500) { // which leaves elements to be swept
			empty = func() command.Command { return &command.Delete{Keys: positions(k)} }
		}
		ask(false, empty, func(r command.Reply) {
			call.Done = r.Int > 0
			o.done(r)
		})
	}
}

// swapHash fills a hash in a transaction if it holds what was read.
func (c *client) swapHash(k string) {
	w := c.w
	c.transact(claimsOf(true, k), 0, func(x *tx) (func(), func(check.Call)) {
		w.serial++
		call := register.Call{Key: k, Kind: register.Swap, New: register.Value(w.serial), Done: true}
		all := w.plain(func() group.Request { return group.Request{Command: &command.HGetAll{Key: at(k)}} })
		return func() {
				x.o.route(at(k), true, all, func(r command.Reply) {
					call.Old = w.whole(k, r)
					x.reads = []command.Read{{Key: at(k), Version: r.Version}}
					x.writes = []write{{k, fillHash(k, call.New)}}
					x.commit()
				})
			}, func(at check.Call) {
				call.Call = at
				w.history.registers = append(w.history.registers, call)
			}
	})
}

// countField is count for a field of a hash.
func (c *client) countField(k string) {
	w := c.w
	call := check.Count{Delta: 1}
	o := c.start(func(at check.Call) {
		call.Call = at
		w.history.counts[k] = append(w.history.counts[k], call)
	})
	add := func() command.Command { return &command.HIncrBy{Key: at(k), Field: fields[0], Delta: 1} }
	o.route(at(k), true, w.plain(c.request(k, true, add)), func(r command.Reply) {
		call.Told, call.Value = true, r.Int
		o.done(r)
	})
}

// isHash tells whether an account is a field of a hash.
func isHash(k string) bool { return slices.Contains(letters[3:], k[:1]) && k[2:6] == "bank" }

// account reads an account.
func (w *world) account(k string) visit {
	return w.plain(func() group.Request {
		if isHash(k) {
			return group.Request{Command: &command.HGet{Key: at(k), Field: fields[0]}}
		}
		return group.Request{Command: &command.Get{Key: at(k)}}
	})
}
