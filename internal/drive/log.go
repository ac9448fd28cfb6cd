package drive

import (
	"context"
	"errors"

	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/wal"
	"github.com/cleavekv/cleave/partition"
)

// Log is the log of a group with one replica: that of its store, which it shares
// with others.
type Log struct {
	Store *store.Store
	Group partition.GroupID
	// Committed, if set, is called after each commit, also after one that failed:
	// whoever waits for the next one may wait in vain.
	Committed func()
}

// Commit implements [group.Log].
func (l *Log) Commit(urgent bool, effects []byte) error {
	return l.commit(urgent, l.entry(effects))
}

func (l *Log) commit(urgent bool, entries ...wal.Entry) error {
	_, err := l.Store.Commit(urgent, entries...)
	if l.Committed != nil {
		l.Committed()
	}
	return uncertain(err)
}

// CommitJoint implements [group.JointLog]: one frame has the entries of all.
func (l *Log) CommitJoint(urgent bool, parts []group.JointPart) error {
	entries := make([]wal.Entry, len(parts))
	for i, p := range parts {
		other, ok := p.Log.(*Log)
		if !ok || other.Store != l.Store {
			return group.ErrNotJoint
		}
		entries[i] = other.entry(p.Effects)
	}
	return l.commit(urgent, entries...)
}

// Sync implements [group.Log].
func (l *Log) Sync() error { return uncertain(l.Store.Sync()) }

// ReadBarrier implements [group.Log]: nobody else commits for the group.
func (l *Log) ReadBarrier(context.Context) error { return nil }

func (l *Log) entry(effects []byte) wal.Entry {
	return wal.Entry{Group: uint64(l.Group), Payload: effects}
}

// uncertain gives the store's unknown outcome the group's word.
func uncertain(err error) error {
	if errors.Is(err, store.ErrUnknown) {
		return errors.Join(group.ErrUncertain, err)
	}
	return err
}
