package sim

import (
	"fmt"

	"github.com/cleavekv/cleave/internal/check"
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// A watchman makes rounds: a transaction that scans who is there, across the boundary of
// two letters, and appends that to a log in another shard. Visitors come, each by a plain
// write, and never leave. Who has come, and sees then how long the log is, must be in all
// that is appended later: nothing but the lock of a round on what it has scanned keeps a
// visitor from coming between its prepare and its decision, and from seeing the old log.

const (
	visitors = 64
	roundLog = "a/rounds" // in the first part: that is done when it is decided, and never locked
)

// visitor is the key of one: the last ones of a letter, or the first ones of the next.
func visitor(i int) string {
	if i < visitors/2 {
		return fmt.Sprintf("b/~visitor%02d", i)
	}
	return fmt.Sprintf("c/!visitor%02d", i)
}

// visitorsSpan has the keys of all visitors, and no others.
func visitorsSpan() partition.Span { return partition.Span{Start: at("b/~"), End: at("c/!~")} }

// rounds makes a round, or lets a visitor come.
func (c *client) rounds() {
	if c.w.chance(500) {
		c.makeRound()
	} else {
		c.come(len(c.w.history.came) % visitors) // the next one
	}
}

// come lets a visitor come, and look at the log.
func (c *client) come(i int) {
	w := c.w
	k := visitor(i)
	o := c.start(func(check.Call) {})
	o.route(at(k), true, w.plain(c.request(k, true, func() command.Command {
		return &command.Set{Key: at(k), Value: []byte("here"), If: command.IfAbsent}
	})), func(r command.Reply) {
		if r.Err != nil {
			o.done(r)
			return
		}
		o.route(at(roundLog), true, read(roundLog), func(r command.Reply) {
			n := len(elements(r.Bytes))
			if known, ok := w.history.came[i]; !ok || n < known {
				w.history.came[i] = n
			}
			w.count("visitors")
			o.done(r)
		})
	})
}

// makeRound notes who is there.
func (c *client) makeRound() {
	w := c.w
	span := visitorsSpan()
	c.transact(append(claimsOf(true, roundLog), txn.Claim{Span: span}), 0, func(x *tx) (func(), func(check.Call)) {
		var there []string
		return func() {
				x.scan(span, &there, func() {
					x.writes = []write{{roundLog, func() command.Command {
						return &command.Append{Key: at(roundLog), Tail: encode(roundOf(there))}
					}}}
					x.commit()
				})
			}, func(at check.Call) {
				if at.Status == check.OK {
					w.count("rounds")
				}
			}
	})
}

// roundOf is a set of visitors.
func roundOf(there []string) (set uint64) {
	for i := range visitors {
		for _, k := range there {
			if k == visitor(i) {
				set |= 1 << i
			}
		}
	}
	return set
}

// judgeRounds checks at rest that all rounds saw those who were there.
func (w *world) judgeRounds(get func(string) []byte) {
	log := elements(get(roundLog))
	for n, set := range log {
		if n > 0 && log[n-1]&^set != 0 {
			w.failf("round %d has seen %b, and the one before %b", n, set, log[n-1])
		}
		for i, since := range w.history.came {
			if n >= since && set&(1<<i) == 0 {
				w.failf("round %d has not seen visitor %d, who had come when there were %d rounds", n, i, since)
			}
		}
	}
}
