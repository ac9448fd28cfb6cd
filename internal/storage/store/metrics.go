package store

import (
	"errors"
	"time"

	"github.com/cleavekv/cleave/internal/storage/rowcache"
	"github.com/cleavekv/cleave/internal/storage/wal"
)

// Metrics is a snapshot of the store's figures. Counters count since Open.
type Metrics struct {
	Log   wal.Metrics
	Cache rowcache.Metrics

	// How far each stage is behind the one before it.
	Published, Applied, Durable wal.Position
	UnappliedChunks             int
	UnappliedBytes              int64  // of log
	UnflushedBytes              int64  // of log, applied but not durable in Pebble
	CommitWaits                 uint64 // commits that waited for the applier
	CommitWaited                time.Duration
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
	defer s.endCall()
	m := Metrics{
		Log:            s.log.Metrics(),
		Cache:          s.table.Metrics(),
		Published:      s.Position(),
		Applied:        s.applier.appliedPosition(),
		Durable:        wal.Position(s.applier.durable.Load()),
		UnflushedBytes: s.applier.unflushedBytes.Load(),
		CommitWaits:    s.chunks.waits.Load(),
		CommitWaited:   time.Duration(s.chunks.waitedNS.Load()),
		ApplierStalls:  s.applier.stalls.Load(),
		ApplierStalled: time.Duration(s.applier.stalledNS.Load()),
		DiskFull:       s.health.diskFull.Load(),
		Failed:         s.health.err(),
	}
	m.DiskFull = m.DiskFull || m.Log.DiskFull
	m.UnappliedChunks, m.UnappliedBytes, _ = s.chunks.measureBacklog()
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

// measureBacklog returns how many chunks are not applied, how much log they are, and how much of
// that is operations.
func (u *chunkList) measureBacklog() (chunks int, bytes, payload int64) {
	u.publishMu.Lock() // for the end of the newest
	defer u.publishMu.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.list {
		bytes += c.logBytes()
		payload += c.payloadBytes
	}
	return len(u.list), bytes, payload
}

// Events receives what an operator should know about a store. Its methods are called by the
// goroutine that meets the event: they must neither block nor call the store.
type Events interface {
	// Recovered is called once, when Open has read the log.
	Recovered(Recovery)
	// SlowDisk is called after a write or a sync of the log that took slowDisk or longer.
	SlowDisk(op string, took time.Duration, bytes int)
}

// Recovery is what Open had to do.
type Recovery struct {
	Dir  string
	Took time.Duration
	// Entries and Bytes were in the log and not yet in the tables.
	Entries uint64
	Bytes   int64
}

// slowDisk is how long a write or a sync of the log takes that is worth a line: many times what a
// disk in order takes, and as long as clients notice.
const slowDisk = 500 * time.Millisecond

// CheckHealth returns what the store lacks, nil if nothing, and why it is dead, nil if it is not.
// It is cheap: a watcher may ask often.
func (s *Store) CheckHealth() (lack, failed error) {
	if err := s.beginCall(); errors.Is(err, ErrFailed) {
		return nil, err
	} else if err != nil {
		return nil, nil // it is closed
	}
	defer s.endCall()
	if s.health.diskFull.Load() {
		return s.health.shortage(), nil
	}
	return s.log.Shortage(), nil
}

// timedFS measures how long the disk takes.
type timedFS struct {
	wal.FS
	events Events
}

func (t *timedFS) Create(name string) (wal.File, error) { return t.wrapFile(t.FS.Create(name)) }
func (t *timedFS) Open(name string) (wal.File, error)   { return t.wrapFile(t.FS.Open(name)) }

func (t *timedFS) wrapFile(f wal.File, err error) (wal.File, error) {
	if err != nil {
		return nil, err
	}
	return &timedFile{f, t.events}, nil
}

type timedFile struct {
	wal.File
	events Events
}

// reportIfSlow reports an operation that took long.
func (f *timedFile) reportIfSlow(op string, began time.Time, bytes int) {
	if took := time.Since(began); took >= slowDisk {
		f.events.SlowDisk(op, took, bytes)
	}
}

func (f *timedFile) WriteAt(p []byte, off int64) (int, error) {
	defer f.reportIfSlow("write", time.Now(), len(p))
	return f.File.WriteAt(p, off)
}

func (f *timedFile) WriteDurable(p []byte, off int64) error {
	defer f.reportIfSlow("durable write", time.Now(), len(p))
	return f.File.WriteDurable(p, off)
}

func (f *timedFile) Sync() error {
	defer f.reportIfSlow("sync", time.Now(), 0)
	return f.File.Sync()
}
