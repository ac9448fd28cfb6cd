package node

import (
	"context"
	"errors"

	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/wal"
	"github.com/cleavekv/cleave/partition"
)

// groupLog is the log of a group with one replica: that of its store.
type groupLog struct {
	store     *store.Store
	group     partition.GroupID
	committed *bell
}

// Commit implements [group.Log].
func (l *groupLog) Commit(urgent bool, effects []byte) error {
	_, err := l.store.Commit(urgent, wal.Entry{Group: uint64(l.group), Payload: effects})
	l.committed.ring() // also if it failed: whoever waits for the next one waits in vain
	return uncertain(err)
}

// CommitJoint implements [group.JointLog]: groups of one store share its log.
func (l *groupLog) CommitJoint(urgent bool, parts []group.JointPart) error {
	entries := make([]wal.Entry, len(parts))
	for i, p := range parts {
		other, ok := p.Log.(*groupLog)
		if !ok || other.store != l.store {
			return group.ErrNotJoint
		}
		entries[i] = wal.Entry{Group: uint64(other.group), Payload: p.Effects}
	}
	_, err := l.store.Commit(urgent, entries...)
	l.committed.ring()
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
