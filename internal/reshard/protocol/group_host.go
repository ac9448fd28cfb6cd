// Package protocol carries out, on groups, what a coordinator or a job wants.
//
// Packages txn and mover decide and send nothing. This package has, for each of their effects,
// the command or the read that it takes, and the event that the answer makes. Nothing here
// waits, retries, or knows the time: a node calls it from goroutines, the simulator from its one
// loop, and both do the same to groups.
//
// The limit: it finds groups by a [Finder] that the caller provides, and keeps no records; those
// of jobs are the catalog's.
package protocol

import (
	"context"
	"errors"
	"slices"

	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/partition"
)

// ErrGroupNotOpen means that a group is not open here: try again later.
var ErrGroupNotOpen = errors.New("protocol: the group is not open")

// GroupHost is an open group, and the store that it lives on.
type GroupHost struct {
	Group *group.Group
	Store *store.Store
}

// Finder returns the host of a group, or ErrGroupNotOpen.
type Finder func(partition.GroupID) (GroupHost, error)

// listOverlappingRanges returns the ranges of a table that overlap with a span.
func listOverlappingRanges(l *ownership.Table, s partition.Span) []ownership.Range {
	return slices.Collect(l.ScanOverlapping(s))
}

// LocalLog is the log of a group with one replica: that of its store, which it shares
// with others.
type LocalLog struct {
	Store *store.Store
	Group partition.GroupID
	// OnCommit, if set, is called after each commit, also after one that failed: a caller that
	// waits for the next one may wait in vain.
	OnCommit func()
}

// Commit implements [group.Log].
func (l *LocalLog) Commit(urgent bool, effects []byte) error {
	return l.commitEntries(urgent, l.makeEntry(effects))
}

func (l *LocalLog) commitEntries(urgent bool, entries ...wal.Entry) error {
	_, err := l.Store.Commit(urgent, entries...)
	if l.OnCommit != nil {
		l.OnCommit()
	}
	return wrapUnknown(err)
}

// CommitJoint implements [group.JointLog]: one frame has the entries of all.
func (l *LocalLog) CommitJoint(urgent bool, parts []group.JointEntry) error {
	entries := make([]wal.Entry, len(parts))
	for i, p := range parts {
		other, ok := p.Log.(*LocalLog)
		if !ok || other.Store != l.Store {
			return group.ErrNoSharedLog
		}
		entries[i] = other.makeEntry(p.Effects)
	}
	return l.commitEntries(urgent, entries...)
}

// Sync implements [group.Log].
func (l *LocalLog) Sync() error { return wrapUnknown(l.Store.Sync()) }

// ReadBarrier implements [group.Log]: no other process commits for the group.
func (l *LocalLog) ReadBarrier(context.Context) error { return nil }

func (l *LocalLog) makeEntry(effects []byte) wal.Entry {
	return wal.Entry{Group: uint64(l.Group), Payload: effects}
}

// wrapUnknown gives the store's unknown outcome the group's word.
func wrapUnknown(err error) error {
	if errors.Is(err, store.ErrUnknown) {
		return errors.Join(group.ErrUncertain, err)
	}
	return err
}
