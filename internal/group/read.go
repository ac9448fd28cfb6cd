package group

import (
	"context"
	"sync"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// Read returns the row of a key on the caller's goroutine, past the queue. It
// is linearizable: it sees everything that was acknowledged before the call,
// and nothing that is not durable. The row's payload is appended to dst. If the
// group does not own the key the error is own.ErrWrongGroup.
func (g *Group) Read(ctx context.Context, key partition.Position, dst []byte) (row command.Row, ok bool, err error) {
	if err := g.Ready(ctx); err != nil {
		return row, false, err
	}
	for {
		// The list before and after: a range that was given away meanwhile may
		// have been changed by its new owner before the row was read here.
		list := g.visible.list.Load()
		if !list.Reads(key) {
			return command.Row{}, false, &own.WrongGroupError{Group: g.opts.ID, Version: list.Version()}
		}
		if lock := g.visible.writer(key); lock != nil {
			row, ok, err = g.readLocked(ctx, lock, key, dst)
		} else {
			row, ok, err = g.readRow(ctx, key, dst)
		}
		if err != nil || g.visible.list.Load() == list {
			return row, ok, err
		}
	}
}

// readRow returns the row of a key that no transaction writes.
func (g *Group) readRow(ctx context.Context, key partition.Position, dst []byte) (row command.Row, ok bool, err error) {
	row, ok, err = g.row(key, dst)
	if err != nil || !ok || row.ExpiryMS == 0 {
		return row, ok, err
	}
	// The clock comes before the row that it judges. The other way round a
	// write that kept the key from expiring could fall in between.
	g.Timely(ctx)
	now := g.NowMS()
	judge := g.visible.judgeMS(key, now)
	row, ok, err = g.row(key, dst)
	if err != nil || !ok || !row.Alive(judge) {
		return command.Row{}, false, err
	}
	if !row.Alive(now) {
		return g.keptRow(ctx, key, dst)
	}
	return row, true, nil
}

// keptRow returns a row that nothing but a lock keeps alive. It takes its turn: a view sees
// that the lock is gone, and the row with it, a moment before readers past the queue do.
func (g *Group) keptRow(ctx context.Context, key partition.Position, dst []byte) (row command.Row, ok bool, err error) {
	refused := g.actor.Do(ctx, func(x *executor) {
		now := x.guard.JudgeMS(key, x.clock.now())
		if row, ok, err = g.row(key, dst); err == nil && ok && !row.Alive(now) {
			row, ok = command.Row{}, false
		}
	})
	if refused != nil {
		return command.Row{}, false, g.refused(refused)
	}
	return row, ok, err
}

// readLocked returns the row of a key that a transaction is about to write. If it is
// decided, the row is as it leaves it, even if that is not done yet; if not, it is
// as it was, for it was undecided when the decider was asked.
func (g *Group) readLocked(ctx context.Context, lock *txn.Lock, key partition.Position, dst []byte) (row command.Row, ok bool, err error) {
	outcome := txn.Undecided
	if g.opts.Decided != nil {
		if outcome, err = g.opts.Decided(ctx, *lock); err != nil {
			return row, false, err
		}
	}
	if outcome != txn.Committed {
		return g.readRow(ctx, key, dst)
	}
	now := g.NowMS()
	through, err := txn.NewThrough(g.state, txn.KeySpan(key), func(id txn.ID) bool { return id == lock.Txn })
	if err != nil {
		return row, false, err
	}
	value, ok, err := through.Get(effect.Rows.AppendKey(nil, key), dst)
	if err != nil || !ok {
		return row, false, err
	}
	if row, err = command.DecodeRow(value[len(dst):]); err == nil && row.Alive(now) {
		return row, true, nil
	}
	// It is resolved since: another one may have locked the row, and keep it alive.
	if still := g.visible.writer(key); err == nil && (still == nil || still.Txn != lock.Txn) {
		return g.readRow(ctx, key, dst)
	}
	return command.Row{}, false, err
}

// row returns the newest row of a key, dead or alive.
func (g *Group) row(key partition.Position, dst []byte) (row command.Row, ok bool, err error) {
	room := keyRoom.Get().(*[]byte)
	*room = effect.Rows.AppendKey((*room)[:0], key)
	value, ok, err := g.state.Get(*room, dst)
	keyRoom.Put(room)
	if err != nil || !ok {
		return row, false, err
	}
	row, err = command.DecodeRow(value[len(dst):])
	return row, err == nil, err
}

// keyRoom holds memory for store keys, which a State does not keep.
var keyRoom = sync.Pool{New: func() any { return new([]byte) }}

// Timely reserves time if the group's clock stands still for want of it, as it does
// when the machine's has jumped ahead: whoever is about to judge by it then does not
// find alive what is long dead. On a full disk it stands still all the same.
func (g *Group) Timely(ctx context.Context) {
	if !g.clock.short(0) {
		return
	}
	_ = g.actor.Do(ctx, func(x *executor) {
		if x.dead == nil {
			_ = x.reserve()
		}
	})
}

// NowMS is the group's clock, in Unix milliseconds.
func (g *Group) NowMS() int64 {
	if g.clock.short(0) {
		g.wake() // it stands still until more time is reserved
	}
	return g.clock.now()
}

func (g *Group) wake() {
	select {
	case g.nudge <- struct{}{}:
	default:
	}
}
