package cleave

import (
	"time"

	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/internal/store"
)

// Metrics are figures of a DB, store by store. Counters count since Open.
type Metrics struct {
	Keyspaces    int
	Transactions TransactionMetrics
	Stores       []StoreMetrics
}

// TransactionMetrics say how far apart the keys are that are used together: what a
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
	LogFrames  uint64 // commits, each shared by all who waited
	LogEntries uint64
	LogSyncs   uint64

	// Rows in memory. CachePinnedBytes is of those that are not in the tables yet, and
	// not of those that Keyspace.Pin keeps: see Keyspace.CacheMetrics.
	CacheRows, CacheBytes, CachePinnedBytes int64
	CacheHits, CacheMisses, CacheEvictions  uint64

	// What is committed but not yet in the tables, and what is in the tables
	// but not yet synced: both are read again from the log after a crash.
	UnappliedBytes, UnflushedBytes int64
	// CommitWaits is how often a commit waited for the tables to catch up,
	// ApplierStalls how often and ApplierStalled how long they waited for the
	// disk.
	CommitWaits, ApplierStalls uint64
	ApplierStalled             time.Duration

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
	c := &db.node.Count
	m := Metrics{Keyspaces: len(db.node.Keyspaces()), Transactions: TransactionMetrics{
		OneGroup: c.OneGroup.Load(), Joint: c.Joint.Load(), TwoPhase: c.TwoPhase.Load(),
		Retries: c.Retries.Load(), InTurn: c.InTurn.Load(), Open: c.Open.Load(), Scattered: c.Scattered.Load(),
	}}
	for _, h := range db.node.Hosts() {
		s := storeMetrics(h.Store.Metrics())
		for _, p := range h.Parts() {
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

func storeMetrics(s store.Metrics) StoreMetrics {
	return StoreMetrics{
		LogBytes: s.Log.WrittenBytes, LogFrames: s.Log.Frames, LogEntries: s.Log.Entries, LogSyncs: s.Log.Syncs,
		CacheRows: int64(s.Cache.Rows), CacheBytes: s.Cache.Bytes, CachePinnedBytes: s.Cache.PinnedBytes,
		CacheHits: s.Cache.Hits, CacheMisses: s.Cache.Misses, CacheEvictions: s.Cache.Evictions,
		UnappliedBytes: s.UnappliedBytes, UnflushedBytes: s.UnflushedBytes,
		CommitWaits: s.CommitWaits, ApplierStalls: s.ApplierStalls, ApplierStalled: s.ApplierStalled,
		TableBytes: s.TableBytes, Flushes: s.Flushes, Compactions: s.Compactions, CompactionDebtBytes: s.CompactionDebtBytes,
		DiskFull: s.DiskFull, Failed: s.Failed,
	}
}
