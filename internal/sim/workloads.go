package sim

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/internal/check"
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// claimsOf are claims of keys, to read or to write.
func claimsOf(write bool, keys ...string) (claims []txn.Claim) {
	for _, k := range keys {
		claims = append(claims, txn.Claim{Span: txn.KeySpan(at(k)), Write: write})
	}
	return claims
}

// some returns n different letters in their order.
func (w *world) some(n int) []string {
	list := slices.Clone(letters)
	if w.chance(500) || w.cfg.Contended {
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
	for _, l := range w.some(1 + w.rng.IntN(3)) {
		k := key(l, "list", 0)
		if w.chance(750) {
			reads = append(reads, k)
		}
		if w.chance(650) {
			writes = append(writes, k)
		}
	}
	if w.cfg.Contended && w.chance(600) { // one that is blind to what another reads
		two := slices.Clone(letters[:2])
		w.rng.Shuffle(2, func(i, j int) { two[i], two[j] = two[j], two[i] })
		reads, writes = []string{key(two[0], "list", 0)}, []string{key(two[1], "list", 0)}
	}
	if len(reads)+len(writes) == 0 {
		c.begin()
		return
	}
	c.transact(append(claimsOf(false, reads...), claimsOf(true, writes...)...), 0, func(x *tx) (func(), func(check.Call)) {
		var t check.Txn
		return func() {
				x.readAll(reads, func() {
					for _, k := range reads {
						t.Ops = append(t.Ops, check.Read(k, elements(x.values[k])...))
					}
					for _, k := range writes {
						w.serial++
						n := w.serial
						x.writes = append(x.writes, write{k, func() command.Command { return &command.Append{Key: at(k), Tail: encode(n)} }})
						t.Ops = append(t.Ops, check.Append(k, n))
					}
					w.later(x.commit)
				})
			}, func(at check.Call) {
				t.Call = at
				w.history.txns = append(w.history.txns, t)
			}
	})
}

// opening is what each account has at first.
const opening = 100

func balance(b []byte) int64 {
	if len(b) == 0 {
		return opening
	}
	return decimal(b)
}

// transfer moves money from one account to another.
func (c *client) transfer() {
	w := c.w
	two := w.some(2)
	from, to := key(two[0], "bank", 0), key(two[1], "bank", 0)
	if w.chance(500) {
		from, to = to, from
	}
	c.transact(claimsOf(true, from, to), 0, func(x *tx) (func(), func(check.Call)) {
		return func() {
			x.readAll([]string{from, to}, func() {
				sum := min(1+w.rng.Int64N(20), balance(x.values[from]))
				x.keep(from, balance(x.values[from])-sum)
				x.keep(to, balance(x.values[to])+sum)
				x.commit()
			})
		}, func(check.Call) {}
	})
}

// keep writes a balance.
func (x *tx) keep(k string, b int64) {
	value := strconv.AppendInt(nil, b, 10)
	x.writes = append(x.writes, write{k, func() command.Command {
		if isHash(k) {
			return &command.HSet{Key: at(k), Fields: []command.FieldValue{{Field: fields[0], Value: value}, {Field: fields[1], Value: value}}}
		}
		return &command.Set{Key: at(k), Value: value}
	}})
}

// audit reads all accounts at one moment.
func (c *client) audit() {
	w := c.w
	var keys []string
	for _, l := range letters {
		keys = append(keys, key(l, "bank", 0))
	}
	c.transact(claimsOf(false, keys...), 0, func(x *tx) (func(), func(check.Call)) {
		call := check.Balances{Of: map[string]int64{}}
		return func() {
				x.readAll(keys, func() {
					for _, k := range keys {
						call.Of[k] = balance(x.values[k])
					}
					x.commit()
				})
			}, func(at check.Call) {
				call.Call = at
				w.history.balances = append(w.history.balances, call)
			}
	})
}

// booked counts bookings.
const booked = "c/booked"

// book tries to get a cabin, and counts it elsewhere.
func (c *client) book() {
	w := c.w
	cabin := key(pick(w, letters), "cab", w.rng.IntN(20))
	c.transact(claimsOf(true, cabin, booked), 0, func(x *tx) (func(), func(check.Call)) {
		w.serial++
		call := check.Claim{Cabin: cabin, Customer: w.serial, Won: true}
		return func() {
				x.readAll([]string{cabin}, func() {
					if len(x.values[cabin]) > 0 {
						call.Won = false
						x.o.finish(check.OK)
						return
					}
					x.writes = []write{
						{cabin, func() command.Command { return &command.Set{Key: at(cabin), Value: encode(call.Customer)} }},
						{booked, func() command.Command { return &command.Add{Key: at(booked), Delta: 1} }},
					}
					x.commit()
				})
			}, func(at check.Call) {
				call.Call = at
				w.history.claims = append(w.history.claims, call)
			}
	})
}

// scan lists the keys between two letters, at one moment or piece by piece.
func (c *client) scan() {
	w := c.w
	two := w.some(2)
	start, end := two[0]+"/scan", two[1]+"/scan"
	span := partition.Span{Start: space.PrefixSpan([]byte(start)).Start, End: space.PrefixSpan([]byte(end)).Start}
	c.transact([]txn.Claim{{Span: span}}, 0, func(x *tx) (func(), func(check.Call)) {
		call := check.Scan{Start: start, End: end}
		return func() {
				x.scan(span, &call.Keys, func() {
					if w.chance(500) {
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
