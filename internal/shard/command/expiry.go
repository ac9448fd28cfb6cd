package command

import (
	"math"

	"github.com/cleavekv/cleave/partition"
)

// Expiry is when a key shall expire. The zero value is never.
type Expiry struct {
	mode expiryMode
	ms   int64
}

type expiryMode uint8

const (
	expiryNever expiryMode = iota
	expiryIn
	expiryAt
	expiryKeep
)

// ExpireIn is ms milliseconds from the clock of the batch (PX).
func ExpireIn(ms int64) Expiry { return Expiry{expiryIn, ms} }

// ExpireAt is the Unix time ms, in milliseconds (PXAT).
func ExpireAt(ms int64) Expiry { return Expiry{expiryAt, ms} }

// KeepExpiry leaves the expiry of a key as it is (KEEPTTL).
func KeepExpiry() Expiry { return Expiry{mode: expiryKeep} }

// ToAbsolute turns a time from now on into the time that it is by a clock, so that several
// groups use the same one. What cannot be resolved stays as it is, and is refused
// when it is evaluated.
func (x Expiry) ToAbsolute(nowMS int64) Expiry {
	if x.mode != expiryIn || x.ms <= 0 || nowMS > math.MaxInt64-x.ms {
		return x
	}
	return ExpireAt(nowMS + x.ms)
}

// toUnixMS returns the time, or 0 if there is none.
func (x Expiry) toUnixMS(now int64) (int64, error) {
	switch x.mode {
	case expiryIn:
		if x.ms > 0 && now > math.MaxInt64-x.ms || x.ms < 0 && now < math.MinInt64-x.ms {
			return 0, ErrExpiry
		}
		return now + x.ms, nil
	case expiryAt:
		return x.ms, nil
	}
	return 0, nil
}

// toPositiveUnixMS is at for a value that is being written: as in Redis, a time that is
// not positive is taken for a mistake.
func (x Expiry) toPositiveUnixMS(now int64) (int64, error) {
	if (x.mode == expiryIn || x.mode == expiryAt) && x.ms <= 0 {
		return 0, ErrExpiry
	}
	return x.toUnixMS(now)
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
	now := e.nowMSAt(c.Key)
	when, err := c.checkExpiry(now)
	if err != nil {
		return failedReply(err)
	}
	row, alive, err := e.loadRow(c.Key)
	if err != nil {
		return failedReply(err)
	}
	switch {
	case !alive:
		return intReply(0, 0)
	case !c.Flags.canReplace(row.ExpiryMS, when):
		return intReply(0, row.Version)
	case when <= now:
		e.removeRow(c.Key, &row, false)
		return intReply(1, 0)
	}
	return intReply(1, e.replaceExpiry(c.Key, &row, when))
}

func (c *Expire) checkExpiry(now int64) (when int64, err error) {
	switch {
	case c.Expiry.mode != expiryIn && c.Expiry.mode != expiryAt:
		return 0, errNoTime
	case c.Flags&ExpireNX != 0 && c.Flags&(ExpireXX|ExpireGT|ExpireLT) != 0:
		return 0, errExpireNX
	case c.Flags&ExpireGT != 0 && c.Flags&ExpireLT != 0:
		return 0, errExpireGL
	}
	return c.Expiry.toUnixMS(now)
}

// canReplace reports whether an expiry may change from old, 0 for none, to when.
func (f ExpireFlags) canReplace(old, when int64) bool {
	switch {
	case f&ExpireNX != 0 && old != 0,
		f&ExpireXX != 0 && old == 0,
		f&ExpireGT != 0 && (old == 0 || when <= old),
		f&ExpireLT != 0 && old != 0 && when >= old:
		return false
	}
	return true
}

// replaceExpiry writes a key's own row again with another expiry.
func (e *Env) replaceExpiry(p partition.Position, old *Row, expiry int64) uint64 {
	row := *old
	row.ExpiryMS = expiry
	return e.replaceRow(p, old, row)
}

// SetsExpiry reports whether a command gives its key a time at which it expires, and whether it
// matters which clock decides that: one that counts from then on has not come, whenever it is.
func SetsExpiry(c Command) (dates, matters bool) {
	var x Expiry
	switch c := c.(type) {
	case *Set:
		x = c.Expiry
	case *Expire:
		x, matters = c.Expiry, c.Flags&(ExpireGT|ExpireLT) != 0
	case *WithoutEvents:
		return SetsExpiry(c.Command)
	}
	return x.mode == expiryIn || x.mode == expiryAt, matters || x.mode == expiryAt
}

// WithAbsoluteExpiry makes a time to live that a command gives its key one on the clock, see
// [Expiry.ToAbsolute].
func WithAbsoluteExpiry(c Command, nowMS int64) Command {
	switch c := c.(type) {
	case *Set:
		same := *c
		same.Expiry = c.Expiry.ToAbsolute(nowMS)
		return &same
	case *Expire:
		same := *c
		same.Expiry = c.Expiry.ToAbsolute(nowMS)
		return &same
	case *WithoutEvents:
		return &WithoutEvents{WithAbsoluteExpiry(c.Command, nowMS)}
	}
	return c
}

// AsOf evaluates a command by an earlier time than the clock's: the one at which a caller
// learned what comes of it.
type AsOf struct {
	Command Command
	NowMS   int64
}

// Eval evaluates the command.
func (c *AsOf) Eval(e *Env) Reply {
	outer := e.asOfMS
	e.asOfMS = c.NowMS
	reply := e.Do(c.Command)
	e.asOfMS = outer
	return reply
}

// Persist is PERSIST. The reply is 1 if the key had an expiry.
type Persist struct{ Key partition.Position }

// Eval removes the expiry.
func (c *Persist) Eval(e *Env) Reply {
	row, alive, err := e.loadRow(c.Key)
	switch {
	case err != nil:
		return failedReply(err)
	case !alive:
		return intReply(0, 0)
	case row.ExpiryMS == 0:
		return intReply(0, row.Version)
	}
	return intReply(1, e.replaceExpiry(c.Key, &row, 0))
}

// TTL is PTTL, or PEXPIRETIME if Absolute. The reply is in milliseconds, -1 if
// the key has no expiry, -2 if there is no key.
type TTL struct {
	Key      partition.Position
	Absolute bool
}

// Eval reads the expiry.
func (c *TTL) Eval(e *Env) Reply {
	row, alive, err := e.loadRow(c.Key)
	switch {
	case err != nil:
		return failedReply(err)
	case !alive:
		return intReply(-2, 0)
	case row.ExpiryMS == 0:
		return intReply(-1, row.Version)
	case c.Absolute:
		return intReply(row.ExpiryMS, row.Version)
	}
	return intReply(row.ExpiryMS-e.nowMSAt(c.Key), row.Version)
}
