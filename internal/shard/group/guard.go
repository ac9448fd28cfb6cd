package group

import (
	"iter"
	"slices"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/partition"
)

// guard is what stands between commands and keys: ranges that the group does not
// own, and locks of transactions. Only the holder of the mailbox uses it. Both
// change when a command is evaluated, so that the next one of the batch meets
// what the batch has done, and are taken back when it fails.
type guard struct {
	ownerSite    ownership.Site
	locks        *txn.Locks
	reservations *txn.ReservationQueue
	txnSite      *txn.Site
	// durableTable is the ownership table without the changes of the batch.
	durableTable *ownership.Table
	// releasedBefore is how many had left the reservation queue before the batch.
	releasedBefore uint64
	// reservationID is that of the call at hand, see [Request].
	reservationID txn.ID
}

// openGuard reads what the group owns and what is locked there.
func openGuard(state State, id partition.GroupID, alone bool) (*guard, error) {
	g := &guard{ownerSite: ownership.Site{Group: id}, locks: txn.NewLocks(), reservations: new(txn.ReservationQueue)}
	var err error
	if alone {
		g.ownerSite.Table, err = ownership.NewTable(ownership.Range{State: ownership.Serving})
	} else {
		g.ownerSite.Table, err = ownership.LoadTable(state, id)
	}
	if err != nil {
		return nil, err
	}
	g.durableTable = g.ownerSite.Table
	g.txnSite = txn.NewSite(id, g.locks, g.reservations, g.ownerSite.CheckWriteSpan)
	// There are few locks, and may be many ranges: so read all locks of the store.
	if err := g.locks.Load(state, partition.Whole, g.durableTable.CanRead); err != nil {
		return nil, err
	}
	g.locks.BeginBatch()
	return g, nil
}

// CheckRead implements [command.Guard].
func (g *guard) CheckRead(p partition.Position) error {
	if err := g.ownerSite.CheckPosition(p, false); err != nil {
		return err
	}
	if g.locks.Len() == 0 {
		return nil
	}
	return newLockedError(g.locks.FindKeyConflict(txn.ID{}, p, false))
}

// CheckWrite implements [command.Guard].
func (g *guard) CheckWrite(p partition.Position) error {
	if err := g.ownerSite.CheckPosition(p, true); err != nil {
		return err
	}
	if g.locks.Len() > 0 {
		if err := newLockedError(g.locks.FindKeyConflict(txn.ID{}, p, true)); err != nil {
			return err
		}
	}
	if g.reservations.Len() == 0 {
		return nil
	}
	end := command.NextPosition(p) // ours: an error may outlive p
	c := txn.ReservedSpan{Span: partition.Span{Start: end[:len(p):len(p)], End: end}, Write: true, Plain: true}
	if g.reservations.Check(g.reservationID, c) != nil {
		return &txn.ReservedError{Reserved: c}
	}
	return nil
}

// CheckReadSpan implements [command.Guard].
func (g *guard) CheckReadSpan(s partition.Span) error {
	if err := g.ownerSite.CheckReadSpan(s); err != nil {
		return err
	}
	if g.locks.Len() == 0 {
		return nil
	}
	return newLockedError(g.locks.FindSpanConflict(txn.ID{}, s.Start, s.End))
}

// ExpiryCheckMS implements [command.Guard].
func (g *guard) ExpiryCheckMS(p partition.Position, nowMS int64) int64 {
	if g.locks.Len() == 0 {
		return nowMS
	}
	return g.locks.ExpiryCheckMS(p, nowMS)
}

func newLockedError(l *txn.Lock) error {
	if l == nil {
		return nil
	}
	return &txn.LockedError{Lock: *l}
}

// beginBatch makes what has changed so far final.
func (g *guard) beginBatch() {
	g.durableTable, g.releasedBefore = g.ownerSite.Table, g.reservations.ReleasedCount()
	g.locks.BeginBatch()
}

// expireReservations ends the reservations of transactions whose deadline has passed, and
// reports whether there were any: their owners may have died.
func (g *guard) expireReservations(nowMS int64) (some bool) {
	before := g.reservations.ReleasedCount()
	g.reservations.Expire(nowMS)
	return g.reservations.ReleasedCount() != before
}

// evalCommand evaluates a command behind the guard.
func (g *guard) evalCommand(e *command.Env, c command.Command) command.Reply {
	switch x := c.(type) {
	case Steps:
		c = boundSteps{x, g}
	case txn.SiteCommand:
		x.Bind(g.txnSite)
	case interface{ Bind(*ownership.Site) }:
		x.Bind(&g.ownerSite)
		c = ownershipCommand{c, g}
	}
	list, mark := g.ownerSite.Table, g.locks.Savepoint()
	reply := e.Do(c)
	if reply.Err != nil {
		g.ownerSite.Table = list
		g.locks.RollbackTo(mark)
	}
	return reply
}

// Steps are commands that are evaluated one after another, all or nothing, those that
// only a group can evaluate included. The reply is OK or the first error.
type Steps []command.Command

// Eval evaluates the steps that need no group.
func (s Steps) Eval(e *command.Env) command.Reply {
	return (&command.Batch{Commands: s}).Eval(e)
}

// IsUrgent reports whether all steps are.
func (s Steps) IsUrgent() bool {
	return !slices.ContainsFunc(s, func(c command.Command) bool { return !isUrgent(c) })
}

// boundSteps are steps in a group.
type boundSteps struct {
	steps Steps
	guard *guard
}

// Eval evaluates the steps.
func (s boundSteps) Eval(e *command.Env) command.Reply {
	for _, c := range s.steps {
		if reply := s.guard.evalCommand(e, c); reply.Err != nil {
			return reply
		}
	}
	return command.Reply{Kind: command.OK}
}

// ownershipCommand is a command that may change what the group owns. It leaves no lock on both
// sides of a boundary: a range takes its locks along when it goes.
type ownershipCommand struct {
	command.Command
	guard *guard
}

// Eval changes the ownership table and cuts the locks.
func (c ownershipCommand) Eval(e *command.Env) command.Reply {
	before := c.guard.ownerSite.Table
	reply := c.Command.Eval(e)
	if now := c.guard.ownerSite.Table; reply.Err == nil && now != before && c.guard.locks.Len() > 0 {
		c.guard.cutLocks(e, before.ScanMissingFrom(now))
		c.guard.cutLocks(e, now.ScanMissingFrom(before))
	}
	return reply
}

// cutLocks cuts locks at the ends of ranges.
func (g *guard) cutLocks(e *command.Env, ranges iter.Seq[ownership.Range]) {
	for r := range ranges {
		txn.CutRangeLocks(e, g.locks, r.Span.Start)
		txn.CutRangeLocks(e, g.locks, r.Span.End)
	}
}

// rollbackBatch takes back what the batch has changed.
func (g *guard) rollbackBatch() {
	g.ownerSite.Table = g.durableTable
	g.locks.RollbackTo(0)
}

// hasTableChanged reports whether the batch has changed what the group owns.
func (g *guard) hasTableChanged() bool { return g.ownerSite.Table != g.durableTable }

// syncLocks makes the locks those of the table after the batch is durable: those of ranges that
// came are in the table of intents, and those of ranges that went are others'. It reads what
// has changed of the table only, and reports whether something came.
func (g *guard) syncLocks(state State) (came bool, err error) {
	list := g.ownerSite.Table
	for r := range g.durableTable.ScanMissingFrom(list) {
		if !r.IsReadable() || list.CanReadSpan(r.Span) {
			continue
		}
		for _, l := range g.locks.ListIn(r.Span) {
			if !list.CanRead(l.RecordPosition()) {
				g.locks.Remove(l.Txn, l.Start, l.Range)
			}
		}
	}
	for r := range list.ScanMissingFrom(g.durableTable) {
		if !r.IsReadable() || g.durableTable.CanReadSpan(r.Span) {
			continue
		}
		came = true
		if err := g.locks.Load(state, r.Span, nil); err != nil {
			return true, err
		}
	}
	return came, nil
}
