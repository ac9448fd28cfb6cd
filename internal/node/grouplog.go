package node

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/wal"
)

// groupLog is the log of a group with one replica: that of its store.
type groupLog struct {
	store     *store.Store
	group     uint64
	committed *bell
	returned  atomic.Uint64 // position of the last commit that has
}

// last is the position of the last commit whose rows are all visible.
func (l *groupLog) last() wal.Position { return wal.Position(l.returned.Load()) }

// Commit implements [group.Log].
func (l *groupLog) Commit(urgent bool, effects []byte) error {
	pos, err := l.store.Commit(urgent, wal.Entry{Group: l.group, Payload: effects})
	if err == nil {
		l.returned.Store(uint64(pos))
	}
	l.committed.ring() // also if it failed: whoever waits for the next one waits in vain
	return uncertain(err)
}

// Sync implements [group.Log].
func (l *groupLog) Sync() error { return uncertain(l.store.Sync()) }

// ReadBarrier implements [group.Log]: nobody else commits.
func (l *groupLog) ReadBarrier(context.Context) error { return nil }

// uncertain gives the store's unknown outcome the group's word.
func uncertain(err error) error {
	if errors.Is(err, store.ErrUnknown) {
		return errors.Join(group.ErrUncertain, err)
	}
	return err
}
