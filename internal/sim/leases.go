package sim

import (
	"slices"

	"github.com/cleavekv/cleave/internal/check"
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/partition"
)

// A lease is a key that expires: whoever sets it while it is absent has it until
// then, by the clock of the group that owns it, wherever it moves and whatever the
// machine's clock does. Who has a lease writes its version to a fenced list in
// another shard, in a transaction that has read the lease.

// lease is one that was given: by a client that heard of it.
type lease struct {
	version      uint64
	since, until int64
}

// leases are what is known about one key.
type leases struct {
	given []lease
	// told is the latest time of the key's group that anybody has heard of.
	told int64
	// fenced are versions that were written to the list, or may have been.
	fenced, maybe map[uint64]int
}

func (w *world) leasesOf(k string) *leases {
	l := w.history.leases[k]
	if l == nil {
		l = &leases{fenced: map[uint64]int{}, maybe: map[uint64]int{}}
		w.history.leases[k] = l
	}
	return l
}

// fenceOf is the list that a lease protects.
func fenceOf(k string) string {
	i := slices.Index(letters, k[:1])
	return key(letters[(i+1)%len(letters)], "fence", 0)
}

// acquiring takes a lease, and tells the time.
type acquiring struct {
	key   partition.Position
	ttlMS int64
}

// Eval sets the key if it is absent.
func (c *acquiring) Eval(e *command.Env) command.Reply {
	r := e.Do(&command.Set{Key: c.key, Value: []byte("mine"), If: command.IfAbsent, Expiry: command.In(c.ttlMS)})
	if r.Err != nil {
		return r
	}
	return command.Reply{Kind: command.Int, Int: e.NowMS(), Version: r.Version, More: r.Kind == command.OK}
}

// lease takes a lease, looks at one, or writes behind its fence.
func (c *client) lease(k string) {
	switch n := c.w.rng.IntN(10); {
	case n < 4:
		c.acquire(k)
	case n < 6:
		c.lookAtLease(k)
	default:
		c.fence(k)
	}
}

func (c *client) acquire(k string) {
	w := c.w
	l := w.leasesOf(k)
	ttl, told := 5+w.rng.Int64N(200), l.told
	o := c.start(func(check.Call) {})
	take := func() command.Command { return &acquiring{at(k), ttl} }
	o.route(at(k), false, w.plain(func() group.Request { return group.Request{Command: take(), Key: at(k)} }), func(r command.Reply) {
		if r.Err == nil {
			if r.Int < told {
				w.failf("the time of %s is %d, after somebody was told %d", k, r.Int, told)
			}
			l.told = max(l.told, r.Int)
			if r.More {
				w.give(k, lease{r.Version, r.Int, r.Int + ttl})
				o.then = func() { c.fence(k) }
			}
		}
		o.done(r)
	})
}

// give notes a lease, and compares it with all others of its key.
func (w *world) give(k string, now lease) {
	l := w.leasesOf(k)
	for _, x := range l.given {
		if x.version == now.version || (x.version < now.version) != (x.until <= now.since) || (now.version < x.version) != (now.until <= x.since) {
			w.failf("two have the lease %s: %+v and %+v", k, x, now)
		}
	}
	l.given = append(l.given, now)
	w.count("leases given")
}

func (c *client) lookAtLease(k string) {
	w := c.w
	told := w.leasesOf(k).told
	o := c.start(func(check.Call) {})
	o.route(at(k), true, func(p drive.Place) (command.Reply, error) {
		row, ok, err := p.Group.Read(ctx, at(k), nil)
		if err == nil && ok && row.ExpiryMS <= told {
			w.failf("the lease %s of version %d is read, which was over at %d: somebody was told %d before", k, row.Version, row.ExpiryMS, told)
		}
		return command.Reply{}, err
	}, o.done)
}

// fence writes the version of a lease to its list, if the lease holds at that
// moment.
func (c *client) fence(k string) {
	w := c.w
	list := fenceOf(k)
	l := w.leasesOf(k)
	c.transact(append(claimsOf(false, k), claimsOf(true, list)...), 0, func(x *tx) (func(), func(check.Call)) {
		version := uint64(0)
		return func() {
				x.readAll([]string{k}, func() {
					if len(x.values[k]) == 0 {
						x.o.finish(check.OK)
						return
					}
					version = x.reads[0].Version
					x.writes = []write{{list, func() command.Command { return &command.Append{Key: at(list), Tail: encode(version)} }}}
					w.later(x.commit)
				})
			}, func(at check.Call) {
				switch {
				case version == 0:
				case at.Status == check.OK:
					w.count("writes behind a fence")
					l.fenced[version]++
				case at.Status == check.Unknown:
					l.maybe[version]++
				}
			}
	})
}

// later lets a transaction think for a while.
func (w *world) later(do func()) {
	if w.cfg.Contended {
		w.after(w.rng.Int64N(4*millisecond), do)
		return
	}
	do()
}

// judgeLeases checks that behind each fence nobody wrote after a later lease was
// used, and that what was acknowledged is there.
func (w *world) judgeLeases(get func(string) []byte) {
	for _, letter := range letters {
		k := key(letter, "lease", 0)
		l := w.leasesOf(k)
		written := map[uint64]int{}
		last := uint64(0)
		for _, v := range elements(get(fenceOf(k))) {
			if v < last {
				w.failf("behind the fence of %s is %d after %d", k, v, last)
			}
			last = v
			written[v]++
		}
		for v, n := range written {
			if n < l.fenced[v] || n > l.fenced[v]+l.maybe[v] {
				w.failf("behind the fence of %s is %d %d times, %d were acknowledged and %d are open", k, v, n, l.fenced[v], l.maybe[v])
			}
		}
		for v, n := range l.fenced {
			if written[v] < n {
				w.failf("behind the fence of %s is %d %d times, %d were acknowledged", k, v, written[v], n)
			}
		}
	}
}
