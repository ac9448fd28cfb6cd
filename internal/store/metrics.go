package store

import (
	"time"

	"github.com/cleavekv/cleave/internal/rows"
	"github.com/cleavekv/cleave/internal/wal"
)

// Metrics is a snapshot of the store's figures. Counters count since Open.
type Metrics struct {
	Log   wal.Metrics
	Cache rows.Metrics

	// How far each stage is behind the one before it.
	Published, Applied, Durable wal.Position
	UnappliedChunks             int
	UnappliedBytes              int64  // of log
	UnflushedBytes              int64  // of log, applied but not durable in Pebble
	CommitWaits                 uint64 // commits that waited for the applier
	ApplierStalls               uint64 // times that the applier waited for Pebble
	ApplierStalled              time.Duration

	TableBytes           int64 // of Pebble's live tables
	MemTableBytes        uint64
	Level0Sublevels      int
	CompactionDebtBytes  uint64
	Flushes, Compactions int64
	BlockCacheBytes      int64
	BlockCacheHits       int64
	BlockCacheMisses     int64

	DiskFull bool
	Failed   error // why the store is dead, or nil
}

// Metrics returns the store's figures. They are not of one moment. Those of a
// closed store are zero.
func (s *Store) Metrics() Metrics {
	if !s.gate.TryRLock() {
		return Metrics{}
	}
	defer s.leave()
	m := Metrics{
		Log:            s.log.Metrics(),
		Cache:          s.table.Metrics(),
		Published:      s.Position(),
		Applied:        s.applier.position(),
		Durable:        wal.Position(s.applier.durable.Load()),
		UnflushedBytes: s.applier.unflushed.Load(),
		CommitWaits:    s.chunks.waits.Load(),
		ApplierStalls:  s.applier.stalls.Load(),
		ApplierStalled: time.Duration(s.applier.stalledNS.Load()),
		DiskFull:       s.health.full.Load(),
		Failed:         s.health.err(),
	}
	m.DiskFull = m.DiskFull || m.Log.DiskFull
	m.UnappliedChunks, m.UnappliedBytes, _ = s.chunks.size()
	p := s.db.Metrics()
	for i := range p.Levels {
		m.TableBytes += p.Levels[i].TablesSize
	}
	m.MemTableBytes = p.MemTable.Size
	m.Level0Sublevels = int(p.Levels[0].Sublevels)
	m.CompactionDebtBytes = p.Compact.EstimatedDebt
	m.Flushes, m.Compactions = p.Flush.Count, p.Compact.Count
	m.BlockCacheBytes, m.BlockCacheHits, m.BlockCacheMisses = p.BlockCache.Size, p.BlockCache.Hits, p.BlockCache.Misses
	return m
}

// size returns how many chunks are not applied, how much log they are, and how much of
// that is operations.
func (u *unapplied) size() (chunks int, bytes, payload int64) {
	u.publishing.Lock() // for the end of the newest
	defer u.publishing.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.list {
		bytes += c.size()
		payload += c.payload
	}
	return len(u.list), bytes, payload
}
