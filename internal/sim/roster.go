package sim

import (
	"slices"

	"github.com/cleavekv/cleave/internal/check"
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/txn"
)

// sizeOf is where the size of a letter's roster is kept: in another shard.
func sizeOf(letter string) string {
	i := slices.Index(letters, letter)
	return key(letters[(i+2)%len(letters)], "size", i)
}

// enrol puts a member on a roster or takes it off, and counts.
func (c *client) enrol(letter string) {
	w := c.w
	k, size := key(letter, "ros", w.rng.IntN(3)), sizeOf(letter)
	c.transact(claimsOf(true, k, size), 0, func(x *tx) (func(), func(check.Call)) {
		return func() {
			x.readAll([]string{k}, func() {
				delta := int64(1)
				member := func() command.Command { return &command.Set{Key: at(k), Value: []byte("member")} }
				if len(x.values[k]) > 0 {
					delta = -1
					member = func() command.Command { return &command.Delete{Keys: positions(k)} }
				}
				x.writes = []write{{k, member}, {size, func() command.Command { return &command.Add{Key: at(size), Delta: delta} }}}
				w.later(x.commit)
			})
		}, func(check.Call) {}
	})
}

// rollCall counts a roster and compares: both at one moment.
func (c *client) rollCall(letter string) {
	w := c.w
	size, span := sizeOf(letter), space.PrefixSpan([]byte(letter+"/ros"))
	c.transact(append(claimsOf(false, size), txn.Claim{Span: span}), 0, func(x *tx) (func(), func(check.Call)) {
		var members []string
		return func() {
				x.scan(span, &members, func() {
					w.later(func() { x.readAll([]string{size}, x.commit) })
				})
			}, func(at check.Call) {
				if at.Status != check.OK {
					return
				}
				w.count("roll calls")
				if n := decimal(x.values[size]); n != int64(len(members)) {
					w.failf("the roster of %s has %q, and its size is %d", letter, members, n)
				}
			}
	})
}
