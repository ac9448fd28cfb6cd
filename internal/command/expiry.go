package command

import (
	"math"

	"github.com/cleavekv/cleave/partition"
)

// Expiry says when a key shall expire. The zero value is never.
type Expiry struct {
	how expireHow
	ms  int64
}

type expireHow uint8

const (
	expireNever expireHow = iota
	expireIn
	expireAt
	expireKeep
)

// In is ms milliseconds from the clock of the batch (PX).
func In(ms int64) Expiry { return Expiry{expireIn, ms} }

// At is the Unix time ms, in milliseconds (PXAT).
func At(ms int64) Expiry { return Expiry{expireAt, ms} }

// Keep leaves the expiry of a key as it is (KEEPTTL).
func Keep() Expiry { return Expiry{how: expireKeep} }

// Resolve turns a time from now on into the time that it is by a clock, so that several
// groups go by the same one. What cannot be resolved stays as it is, and is refused
// when it is evaluated.
func (x Expiry) Resolve(nowMS int64) Expiry {
	if x.how != expireIn || x.ms <= 0 || nowMS > math.MaxInt64-x.ms {
		return x
	}
	return At(nowMS + x.ms)
}

// at returns the time, or 0 if there is none.
func (x Expiry) at(now int64) (int64, error) {
	switch x.how {
	case expireIn:
		if x.ms > 0 && now > math.MaxInt64-x.ms || x.ms < 0 && now < math.MinInt64-x.ms {
			return 0, ErrExpiry
		}
		return now + x.ms, nil
	case expireAt:
		return x.ms, nil
	}
	return 0, nil
}

// ofNew is at for a value that is being written: as in Redis, a time that is
// not positive is taken for a mistake.
func (x Expiry) ofNew(now int64) (int64, error) {
	if (x.how == expireIn || x.how == expireAt) && x.ms <= 0 {
		return 0, ErrExpiry
	}
	return x.at(now)
}

// ExpireFlags are the conditions of Expire.
type ExpireFlags uint8

// The conditions. A key without expiry counts as one that expires at the end of
// time.
const (
	// ExpireNX wants a key without expiry.
	ExpireNX ExpireFlags = 1 << iota
	// ExpireXX wants a key with one.
	ExpireXX
	// ExpireGT wants the new time to be later.
	ExpireGT
	// ExpireLT wants the new time to be earlier.
	ExpireLT
)

// Expire is PEXPIRE and PEXPIREAT. The reply is 1 if the expiry was set. A time
// that is not in the future deletes the key at once.
type Expire struct {
	Key    partition.Position
	Expiry Expiry // In or At
	Flags  ExpireFlags
}

// Eval sets the expiry.
func (c *Expire) Eval(e *Env) Reply {
	now := e.nowAt(c.Key)
	when, err := c.check(now)
	if err != nil {
		return failed(err)
	}
	row, alive, err := e.load(c.Key)
	if err != nil {
		return failed(err)
	}
	switch {
	case !alive:
		return number(0, 0)
	case !c.Flags.hold(row.ExpiryMS, when):
		return number(0, row.Version)
	case when <= now:
		e.remove(c.Key, &row, false)
		return number(1, 0)
	}
	return number(1, e.rewrite(c.Key, &row, when))
}

func (c *Expire) check(now int64) (when int64, err error) {
	switch {
	case c.Expiry.how != expireIn && c.Expiry.how != expireAt:
		return 0, errHow
	case c.Flags&ExpireNX != 0 && c.Flags&(ExpireXX|ExpireGT|ExpireLT) != 0:
		return 0, errExpireNX
	case c.Flags&ExpireGT != 0 && c.Flags&ExpireLT != 0:
		return 0, errExpireGL
	}
	return c.Expiry.at(now)
}

// hold tells whether an expiry may change from old, 0 for none, to when.
func (f ExpireFlags) hold(old, when int64) bool {
	switch {
	case f&ExpireNX != 0 && old != 0,
		f&ExpireXX != 0 && old == 0,
		f&ExpireGT != 0 && (old == 0 || when <= old),
		f&ExpireLT != 0 && old != 0 && when >= old:
		return false
	}
	return true
}

// rewrite writes a key's own row again with another expiry.
func (e *Env) rewrite(p partition.Position, old *Row, expiry int64) uint64 {
	row := *old
	row.ExpiryMS = expiry
	return e.replace(p, old, row)
}

// Dates tells whether a command gives its key a time at which it expires, and whether it
// matters by which clock that is judged: one that counts from then on has not come, whenever
// it is.
func Dates(c Command) (dates, matters bool) {
	var x Expiry
	switch c := c.(type) {
	case *Set:
		x = c.Expiry
	case *Expire:
		x, matters = c.Expiry, c.Flags&(ExpireGT|ExpireLT) != 0
	}
	return x.how == expireIn || x.how == expireAt, matters || x.how == expireAt
}

// Resolve makes a time to live that a command gives its key one on the clock, see
// [Expiry.Resolve].
func Resolve(c Command, nowMS int64) Command {
	switch c := c.(type) {
	case *Set:
		same := *c
		same.Expiry = c.Expiry.Resolve(nowMS)
		return &same
	case *Expire:
		same := *c
		same.Expiry = c.Expiry.Resolve(nowMS)
		return &same
	}
	return c
}

// AsOf evaluates a command that judges its key by an earlier time than the clock's: the one
// at which somebody was told what comes of it.
type AsOf struct {
	Command Command
	NowMS   int64
}

// Eval evaluates the command.
func (c *AsOf) Eval(e *Env) Reply {
	outer := e.asOf
	e.asOf = c.NowMS
	reply := e.Do(c.Command)
	e.asOf = outer
	return reply
}

// Persist is PERSIST. The reply is 1 if the key had an expiry.
type Persist struct{ Key partition.Position }

// Eval removes the expiry.
func (c *Persist) Eval(e *Env) Reply {
	row, alive, err := e.load(c.Key)
	switch {
	case err != nil:
		return failed(err)
	case !alive:
		return number(0, 0)
	case row.ExpiryMS == 0:
		return number(0, row.Version)
	}
	return number(1, e.rewrite(c.Key, &row, 0))
}

// TTL is PTTL, or PEXPIRETIME if Absolute. The reply is in milliseconds, -1 if
// the key has no expiry, -2 if there is no key.
type TTL struct {
	Key      partition.Position
	Absolute bool
}

// Eval reads the expiry.
func (c *TTL) Eval(e *Env) Reply {
	row, alive, err := e.load(c.Key)
	switch {
	case err != nil:
		return failed(err)
	case !alive:
		return number(-2, 0)
	case row.ExpiryMS == 0:
		return number(-1, row.Version)
	case c.Absolute:
		return number(row.ExpiryMS, row.Version)
	}
	return number(row.ExpiryMS-e.nowAt(c.Key), row.Version)
}
