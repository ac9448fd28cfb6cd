package cleave

import (
	"context"
	"time"

	"github.com/cleavekv/cleave/internal/index"
	"github.com/cleavekv/cleave/internal/wal"
)

// IndexStatus is how an index is.
type IndexStatus struct {
	// Ready tells that all rows have their entries.
	Ready bool
	// Built is how many rows were looked at since the store was opened, to build it.
	Built uint64
	// Err is why it stands still, nil if it does not: a row that it refuses, or a
	// function that is not declared. It is tried again every few seconds.
	Err error

	// The rest is about asynchronous ones.

	// Behind is how old the state of the rows is at most that the entries are of, and
	// BehindBytes how much of the log was not looked at since, of whatever keyspace.
	// Both are 0 if nothing is missing.
	Behind      time.Duration
	BehindBytes int64
	// Refused counts rows that have no entry because of a mistake in them.
	Refused uint64
	// Rebuilt counts how often it was built anew since the store was opened, because
	// the feed did not reach back to where it was.
	Rebuilt uint64
}

// Status tells how the index is.
func (ix *Index) Status() (IndexStatus, error) {
	x, err := ix.now()
	if err != nil {
		return IndexStatus{}, public(err)
	}
	s, _ := ix.db.keepers.of(ix).look()
	status := IndexStatus{Ready: x.IsReady(), Built: s.built, Err: s.err, Refused: s.refused, Rebuilt: s.rebuilt}
	if x.Extract == nil && status.Err == nil {
		status.Err = undeclared(x) // though nobody is at work on one that is ready
	}
	if x.Mode == index.Asynchronous {
		status.Behind, status.BehindBytes = ix.behind(&s)
	}
	return status, nil
}

// behind returns how far an index is behind its rows.
func (ix *Index) behind(s *keeperStatus) (age time.Duration, bytes int64) {
	hosts := ix.db.node.Hosts()
	if len(s.at) == len(hosts) {
		for i, h := range hosts {
			bytes += max(h.Store.Behind(s.at[i]), 0)
		}
		if bytes == 0 {
			return 0, 0
		}
	}
	if !s.freshAt.IsZero() {
		age = max(time.Since(s.freshAt), 1)
	}
	return age, bytes
}

// WaitFresh waits until an asynchronous index has all that was committed up to a place
// in the feed: that of [DB.Settled] after a write, say. Whoever was told of a version of
// a key waits for Settled too, because that version is committed. A transactional index
// is always fresh. If ctx ends first, the error also says why the index stands still, if
// it does.
func (ix *Index) WaitFresh(ctx context.Context, c Cursor) error {
	x, err := ix.now()
	if err != nil {
		return public(err)
	}
	if x.Mode == index.Transactional {
		return nil
	}
	want, err := ix.db.positions(c)
	if err != nil {
		return err
	}
	for {
		s, changed := ix.db.keepers.of(ix).look()
		if x.IsReady() && reaches(s.at, want) {
			return nil
		}
		select {
		case <-changed:
		case <-time.After(keeperPause):
			if _, err := ix.now(); err != nil {
				return public(err)
			}
			if err := ix.db.node.Closed(); err != nil {
				return public(err)
			}
		case <-ctx.Done():
			return waited(ctx, s.err)
		}
	}
}

// waitNow waits until an asynchronous index has all that was acknowledged before the call.
func (ix *Index) waitNow(ctx context.Context) error {
	if now, err := ix.now(); err != nil || now.Mode == index.Transactional {
		return public(err)
	}
	c, err := ix.db.Settled(ctx)
	if err != nil {
		return err
	}
	return ix.WaitFresh(ctx, c)
}

// reaches tells whether a place in the feed has all that is before another.
func reaches(at, want []wal.Position) bool {
	for i := range want {
		if i >= len(at) || at[i] < want[i] {
			return false
		}
	}
	return true
}
