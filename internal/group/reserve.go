package group

import (
	"errors"

	"github.com/cleavekv/cleave/internal/effect"
)

// batchVersions is more than a batch gives out, whatever its commands are: each version
// is in a row, which takes 16 bytes of effects at least, and a log takes 1 GiB at once.
const batchVersions = 1 << 26

// versionBlock is how many versions are reserved at once: so many that a
// reservation is rare, so few that 64 bits never run out.
const versionBlock = 2 * batchVersions

// reserve raises the ceilings if little is left below them. They are synced
// before they are used, whatever the durability class: a crash may take back
// what was done with a version or at a time, but nobody sees either again.
func (x *executor) reserve() error {
	ahead := x.opts.ClockAhead.Milliseconds()
	enough := x.nextVersion+batchVersions < x.ledger.versionCeiling
	if enough && !x.clock.short(ahead/2) {
		return nil
	}
	next := x.ledger
	next.seq++
	next.clockCeiling = max(next.clockCeiling, x.opts.Wall()+ahead)
	if !enough {
		next.versionCeiling = x.nextVersion + versionBlock
	}
	return x.write(next)
}

// admit makes the clock ready for a call: one that takes a range over must not find
// it behind that of the group that had the range.
func (x *executor) admit(c *call) error {
	r, ok := c.Command.(taker)
	if !ok {
		return nil
	}
	floor, _ := r.Floors()
	if floor <= x.clock.now() {
		return nil
	}
	if floor > x.ledger.clockCeiling {
		next := x.ledger
		next.seq++
		next.clockCeiling = max(floor, x.opts.Wall()+x.opts.ClockAhead.Milliseconds())
		if err := x.write(next); err != nil {
			return err
		}
	}
	x.clock.advance(floor)
	return nil
}

// taker is a command that takes a range over from another group.
type taker interface {
	// Floors returns the time below which the group's clock must not be, and
	// whether there may be rows that a plain Set must not overwrite blindly.
	Floors() (clockMS int64, mixed bool)
}

// write makes a ledger durable and uses it from then on.
func (x *executor) write(next ledger) error {
	x.env.Begin(effect.Header{Seq: next.seq, ClockMS: x.clock.now()}, x.nextVersion)
	x.scratch = next.append(x.scratch[:0])
	x.env.Effects().Put(x.id, x.scratch)
	err := x.log.Commit(true, x.env.Effects().Bytes())
	if err == nil {
		if err = x.log.Sync(); err != nil {
			err = errors.Join(ErrUncertain, err)
		}
	}
	if err != nil {
		if errors.Is(err, ErrUncertain) {
			x.dead = failed(err)
			return x.dead
		}
		return err
	}
	x.ledger = next
	x.clock.raise(next.clockCeiling)
	return nil
}
