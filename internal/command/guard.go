package command

import "github.com/cleavekv/cleave/partition"

// Guard is asked before a command touches a key: whether the group owns it, and
// whether a transaction has locked it. It is asked by the Env, where every
// command must pass, so that none can forget to.
type Guard interface {
	// Read and Write return why the key at p must not be read, or changed, now.
	Read(p partition.Position) error
	Write(p partition.Position) error
	// ReadSpan returns why the keys of a span must not be read now.
	ReadSpan(s partition.Span) error
	// JudgeMS returns the time at which to judge whether the key at p has
	// expired: nowMS, or an earlier one for a key that is locked.
	JudgeMS(p partition.Position, nowMS int64) int64
}

// SetGuard makes g be asked from now on, nil for nobody. Rows that a command
// reads and writes as such, by Get, Scan, Put and Delete, are its own business.
func (e *Env) SetGuard(g Guard) { e.guard = g }

// MayWrite returns why the key at p must not be changed now, for commands that
// write its rows as such.
func (e *Env) MayWrite(p partition.Position) error {
	if e.guard == nil {
		return nil
	}
	return e.guard.Write(p)
}

// MayRead returns why the key at p must not be read now, for commands that read its
// rows as such.
func (e *Env) MayRead(p partition.Position) error {
	if e.guard == nil {
		return nil
	}
	return e.guard.Read(p)
}

// mayReadSpan asks for a read of a range of keys.
func (e *Env) mayReadSpan(start, end partition.Position) error {
	if e.guard == nil {
		return nil
	}
	return e.guard.ReadSpan(partition.Span{Start: start, End: end})
}

// mayWrite asks for a change of a key. What it refuses fails the command, however
// that ends.
func (e *Env) mayWrite(p partition.Position) {
	if e.guard == nil || e.refused != nil {
		return
	}
	e.refused = e.guard.Write(p)
}

// alive tells whether the row of the key at p has not expired.
func (e *Env) alive(p partition.Position, row *Row) bool {
	return row.ExpiryMS == 0 || row.Alive(e.nowAt(p))
}

// nowAt is the time by which the key at p is judged: in a transaction that of its own group,
// which may be behind that of others, and under a lock that of the lock.
func (e *Env) nowAt(p partition.Position) int64 {
	if e.asOf != 0 {
		return e.asOf
	}
	if e.guard == nil {
		return e.now
	}
	return e.guard.JudgeMS(p, e.now)
}
