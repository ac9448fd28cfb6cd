package sim

import (
	"slices"

	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/testkit/check"
	"github.com/cleavekv/cleave/partition"
)

// A lease is a key that expires: the client that sets it while it is absent has it until
// then, by the clock of the group that owns it, wherever it moves and whatever the
// machine's clock does. The holder of a lease writes its version to a fenced list in
// another shard, in a transaction that has read the lease.

// lease is one that was given: by a client that got the reply.
type lease struct {
	version          uint64
	sinceMS, untilMS int64
}

// leaseHistory are what is known about one key.
type leaseHistory struct {
	given []lease
	// latestMS is the latest time of the key's group that was reported.
	latestMS int64
	// fenced are versions that were written to the list, or may have been.
	fenced, maybeFenced map[uint64]int
}

func (w *world) findLeases(k string) *leaseHistory {
	l := w.history.leases[k]
	if l == nil {
		l = &leaseHistory{fenced: map[uint64]int{}, maybeFenced: map[uint64]int{}}
		w.history.leases[k] = l
	}
	return l
}

// newFenceKey is the list that a lease protects.
func newFenceKey(k string) string {
	i := slices.Index(letters, k[:1])
	return makeKey(letters[(i+1)%len(letters)], "fence", 0)
}

// acquireCommand takes a lease, and tells the time.
type acquireCommand struct {
	key   partition.Position
	ttlMS int64
}

// Eval sets the key if it is absent.
func (c *acquireCommand) Eval(e *command.Env) command.Reply {
	r := e.Do(&command.Set{Key: c.key, Value: []byte("mine"), Condition: command.IfAbsent, Expiry: command.ExpireIn(c.ttlMS)})
	if r.Err != nil {
		return r
	}
	return command.Reply{Kind: command.Int, Int: e.NowMS(), Version: r.Version, More: r.Kind == command.OK}
}

// runLeaseOp takes a lease, looks at one, or writes behind its fence.
func (c *client) runLeaseOp(k string) {
	switch n := c.w.rng.IntN(10); {
	case n < 4:
		c.acquireLease(k)
	case n < 6:
		c.readLease(k)
	default:
		c.writeFenced(k)
	}
}

func (c *client) acquireLease(k string) {
	w := c.w
	l := w.findLeases(k)
	ttl, told := 5+w.rng.Int64N(200), l.latestMS
	o := c.startOp(func(check.Call) {})
	take := func() command.Command { return &acquireCommand{positionOf(k), ttl} }
	o.sendVisit(positionOf(k), false, w.makeVisit(func() group.Request { return group.Request{Command: take(), Key: positionOf(k)} }), func(r command.Reply) {
		if r.Err == nil {
			if r.Int < told {
				w.failf("the time of %s is %d, after somebody was told %d", k, r.Int, told)
			}
			l.latestMS = max(l.latestMS, r.Int)
			if r.More {
				w.recordLease(k, lease{r.Version, r.Int, r.Int + ttl})
				o.next = func() { c.writeFenced(k) }
			}
		}
		o.finishWith(r)
	})
}

// recordLease notes a lease, and compares it with all others of its key.
func (w *world) recordLease(k string, now lease) {
	l := w.findLeases(k)
	for _, x := range l.given {
		if x.version == now.version || (x.version < now.version) != (x.untilMS <= now.sinceMS) || (now.version < x.version) != (now.untilMS <= x.sinceMS) {
			w.failf("two have the lease %s: %+v and %+v", k, x, now)
		}
	}
	l.given = append(l.given, now)
	w.addCount("leases given")
}

func (c *client) readLease(k string) {
	w := c.w
	told := w.findLeases(k).latestMS
	o := c.startOp(func(check.Call) {})
	o.sendVisit(positionOf(k), true, func(p protocol.GroupHost) (command.Reply, error) {
		row, ok, err := p.Group.Read(ctx, positionOf(k), nil)
		if err == nil && ok && row.ExpiryMS <= told {
			w.failf("the lease %s of version %d is read, which was over at %d: somebody was told %d before", k, row.Version, row.ExpiryMS, told)
		}
		return command.Reply{}, err
	}, o.finishWith)
}

// writeFenced writes the version of a lease to its list, if the lease holds at that
// moment.
func (c *client) writeFenced(k string) {
	w := c.w
	list := newFenceKey(k)
	l := w.findLeases(k)
	c.runTxn(append(spansToReserve(false, k), spansToReserve(true, list)...), 0, func(x *tx) (func(), func(check.Call)) {
		version := uint64(0)
		return func() {
				x.readKeys([]string{k}, func() {
					if len(x.values[k]) == 0 {
						x.o.finish(check.OK)
						return
					}
					version = x.reads[0].Version
					x.writes = []keyWrite{{list, func() command.Command { return &command.Append{Key: positionOf(list), Suffix: encodeUint64(version)} }}}
					w.runAfterThinkTime(x.commit)
				})
			}, func(at check.Call) {
				switch {
				case version == 0:
				case at.Status == check.OK:
					w.addCount("writes behind a fence")
					l.fenced[version]++
				case at.Status == check.Unknown:
					l.maybeFenced[version]++
				}
			}
	})
}

// runAfterThinkTime lets a transaction think for a while.
func (w *world) runAfterThinkTime(do func()) {
	if w.cfg.Contended {
		w.scheduleAfter(w.rng.Int64N(4*millisecond), do)
		return
	}
	do()
}

// checkLeases checks that there is no write behind a fence after a later lease was
// used, and that what was acknowledged is there.
func (w *world) checkLeases(get func(string) []byte) {
	for _, letter := range letters {
		k := makeKey(letter, "lease", 0)
		l := w.findLeases(k)
		written := map[uint64]int{}
		last := uint64(0)
		for _, v := range decodeElements(get(newFenceKey(k))) {
			if v < last {
				w.failf("behind the fence of %s is %d after %d", k, v, last)
			}
			last = v
			written[v]++
		}
		for v, n := range written {
			if n < l.fenced[v] || n > l.fenced[v]+l.maybeFenced[v] {
				w.failf("behind the fence of %s is %d %d times, %d were acknowledged and %d are open", k, v, n, l.fenced[v], l.maybeFenced[v])
			}
		}
		for v, n := range l.fenced {
			if written[v] < n {
				w.failf("behind the fence of %s is %d %d times, %d were acknowledged", k, v, written[v], n)
			}
		}
	}
}
