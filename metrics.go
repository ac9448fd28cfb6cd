package cleave

import (
	"time"

	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/internal/storage/rowcache"
	"github.com/cleavekv/cleave/internal/storage/store"
)

// Metrics are figures of a DB, store by store. Counters count since Open.
type Metrics struct {
	Keyspaces    int
	Transactions TransactionMetrics
	Stores       []StoreMetrics
}

// TransactionMetrics are about how far apart the keys are that are used together: what a
// well chosen key keeps in one group costs least.
type TransactionMetrics struct {
	// OneGroup, Joint and TwoPhase count commits of Update, Write and Delete, those
	// that met a conflict included: in one group, in several groups of one store
	// together, and across stores in two phases.
	OneGroup, Joint, TwoPhase uint64
	// Retries counts conflicts after which one was tried again, and InTurn those
	// tries that waited for their turn: after three conflicts, or when others wait.
	Retries, InTurn uint64
	// Open is how many that take two phases have not come to their end, locks and
	// all. It is not a counter.
	Open int64
	// Scattered counts scans, and reads of several keys, that met several shards.
	Scattered uint64
}

// StoreMetrics are figures of one store.
type StoreMetrics struct {
	// The log.
	LogBytes   uint64 // written
	LogFrames  uint64 // commits, each shared by all that waited
	LogEntries uint64
	LogSyncs   uint64

	// Rows in memory. CachePinnedBytes is of those that are not in the tables yet, and
	// not of those that Keyspace.Pin keeps: see Keyspace.CacheMetrics.
	CacheRows, CacheBytes, CachePinnedBytes int64
	CacheHits, CacheMisses, CacheEvictions  uint64

	// What is committed but not yet in the tables, and what is in the tables
	// but not yet synced: both are read again from the log after a crash.
	UnappliedBytes, UnflushedBytes int64
	// CommitWaits is how often and CommitWaited how long commits waited for the
	// tables to catch up, ApplierStalls how often and ApplierStalled how long
	// these waited for the disk.
	CommitWaits, ApplierStalls   uint64
	CommitWaited, ApplierStalled time.Duration

	// The tables.
	TableBytes           int64
	Flushes, Compactions int64
	CompactionDebtBytes  uint64

	// The queue of commands: how many wait, were executed, those of housekeeping
	// included, were turned away before, and in how many batches they were
	// executed.
	QueueDepth        int
	Commands, Refused uint64
	Batches           uint64
	// QueueWait is how long commands waited for their batch to begin, and Service
	// how long batches took, the wait for the disk included. Both are samples in
	// nanoseconds; Mean and Quantile give them as durations.
	QueueWait, Service actor.Histogram

	DiskFull bool
	Failed   error // why the store has stopped, or nil
}

// Metrics returns the figures of now. They are not all of one moment.
func (db *DB) Metrics() Metrics {
	c := &db.node.Counters
	m := Metrics{Keyspaces: len(db.node.Keyspaces()), Transactions: TransactionMetrics{
		OneGroup: c.OneGroup.Load(), Joint: c.Joint.Load(), TwoPhase: c.TwoPhase.Load(),
		Retries: c.Retries.Load(), InTurn: c.Reserved.Load(), Open: c.Open.Load(), Scattered: c.MultiShardReads.Load(),
	}}
	for _, h := range db.node.StoreHosts() {
		s := toStoreMetrics(h.Store.Metrics())
		for _, p := range h.GroupHosts() {
			g := p.Group.Metrics()
			s.QueueDepth, s.Commands = s.QueueDepth+g.QueueDepth, s.Commands+g.Commands
			s.Refused, s.Batches = s.Refused+g.Refused, s.Batches+g.Batches
			s.QueueWait.Add(g.QueueWait)
			s.Service.Add(g.Service)
		}
		m.Stores = append(m.Stores, s)
	}
	return m
}

func toStoreMetrics(s store.Metrics) StoreMetrics {
	return StoreMetrics{
		LogBytes: s.Log.WrittenBytes, LogFrames: s.Log.Frames, LogEntries: s.Log.Entries, LogSyncs: s.Log.Syncs,
		CacheRows: int64(s.Cache.Rows), CacheBytes: s.Cache.Bytes, CachePinnedBytes: s.Cache.UnappliedBytes,
		CacheHits: s.Cache.Hits, CacheMisses: s.Cache.Misses, CacheEvictions: s.Cache.Evictions,
		UnappliedBytes: s.UnappliedBytes, UnflushedBytes: s.UnflushedBytes,
		CommitWaits: s.CommitWaits, CommitWaited: s.CommitWaited, ApplierStalls: s.ApplierStalls, ApplierStalled: s.ApplierStalled,
		TableBytes: s.TableBytes, Flushes: s.Flushes, Compactions: s.Compactions, CompactionDebtBytes: s.CompactionDebtBytes,
		DiskFull: s.DiskFull, Failed: s.Failed,
	}
}

// CacheMetrics are figures of the row cache for one keyspace, over all stores. A row is
// that of a key or of a field of a hash, or says that there is none. It is cached when it
// is written, and when it is read if there is room, or if it was asked for before, not long
// ago: reads that come once do not drive out rows that are read again and again. A cached
// row goes when others need the room, or when its key is written, deleted or has expired:
// it is never older than what the store has, so that it needs no time to live of its own.
type CacheMetrics struct {
	// Hits counts looks at rows since Open that the cache could answer, those of writes that
	// look at what they change included, and two for a read of a key that expires. Misses
	// counts rows that were looked for on disk.
	Hits, Misses uint64
	// Refused counts rows that were read and not cached, for want of room.
	Refused uint64
	// Evictions counts rows that made room for others.
	Evictions uint64
	// Rows are cached now, and Bytes is what they take.
	Rows, Bytes int64
	// Pinned are those of them that are pinned, PinnedBytes what they count against the
	// half that may be, and Outgrown how many have become too large for that.
	Pinned, PinnedBytes int64
	Outgrown            uint64
}

// HitRate is the share of hits, 0 if there was no look yet.
func (m CacheMetrics) HitRate() float64 {
	if m.Hits+m.Misses == 0 {
		return 0
	}
	return float64(m.Hits) / float64(m.Hits+m.Misses)
}

// CacheMetrics returns the figures of now. Of more than a thousand keyspaces, those that
// came last are counted in Metrics alone.
func (k *Keyspace) CacheMetrics() (sum CacheMetrics) {
	for _, h := range k.db.node.StoreHosts() {
		sum.addClass(h.Store.CacheMetrics(k.keyspace.ID))
	}
	return sum
}

func (m *CacheMetrics) addClass(c rowcache.ClassMetrics) {
	m.Hits, m.Misses, m.Refused, m.Evictions = m.Hits+c.Hits, m.Misses+c.Misses, m.Refused+c.Refused, m.Evictions+c.Evictions
	m.Rows, m.Bytes = m.Rows+int64(c.Rows), m.Bytes+c.RowBytes
	m.Pinned, m.PinnedBytes, m.Outgrown = m.Pinned+int64(c.PinnedRows), m.PinnedBytes+c.PinnedBytes, m.Outgrown+c.Outgrown
}
