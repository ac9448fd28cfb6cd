package node

import (
	"context"
	"errors"

	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/wal"
)

// groupLog is the log of a group with one replica: that of its store.
type groupLog struct {
	store     *store.Store
	group     uint64
	committed *bell
}

// Commit implements [group.Log].
func (l *groupLog) Commit(urgent bool, effects []byte) error {
	_, err := l.store.Commit(urgent, wal.Entry{Group: l.group, Payload: effects})
	if err != nil {
		return uncertain(err)
	}
	l.committed.ring()
	return nil
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
