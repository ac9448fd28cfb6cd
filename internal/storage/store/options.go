package store

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/storage/wal"
)

// Options specify where a store is and how much it may take. Only Dir is needed.
type Options struct {
	// Dir is the directory of the store. It is created if there is none; what
	// is there must be a store or empty. It belongs to one open Store at a time.
	Dir string
	// FS is where Dir is. Default: the operating system's files. [NewMemFS] makes
	// one that lives as long as the process.
	FS FS
	// Durability is when a commit counts as done. Default: synced.
	Durability wal.Durability
	// CacheBytes is the room for rows in memory: those that are not yet applied, and
	// in the rest, half of it at least, those that were used lately. It is passed by a
	// quarter at most, unless one commit is larger than a segment: the rows of such a
	// commit are in memory until they are applied, those of two of them at most.
	// Default 64 MiB. At least 64 KiB.
	CacheBytes int64
	// BlockCacheBytes is the memory for Pebble: for what is applied but not
	// flushed, and in the rest for blocks of its tables, which serve scans and
	// the rows that the row cache does not have. Default 128 MiB: under load
	// about three segments are not flushed. At least 64 KiB.
	BlockCacheBytes int64
	// SegmentBytes is the size of a segment of the log, and so of a chunk: what
	// is applied at a time. Default 32 MiB: large enough that sorting and
	// flushing cost little for each row, and small enough that four fit; or a
	// 16th of CacheBytes if that is less, but 8 MiB or a quarter of CacheBytes at least, as what
	// waits to be applied is in memory several times; or a 64th of the disk. A multiple of 4 KiB
	// from 64 KiB to 1 GiB.
	SegmentBytes int64
	// Chunks is how many chunks may wait to be applied, the one that is being
	// filled included; then commits wait too. Snapshots may keep 64 more in
	// memory, and what waited when the last of them was taken: see
	// [ErrTooManySnapshots]. Default 4. At least 2.
	Chunks int
	// FlushBytes is how much log may be applied but not yet flushed by Pebble
	// before a flush is asked for. It bounds the log, and so the time to open
	// after a crash, if few keys are overwritten again and again. Default 4
	// segments.
	FlushBytes int64
	// RetainBytes is how much log the feed keeps beyond what recovery needs.
	// Default 64 MiB, or a 16th of the disk if that is less; -1 keeps none.
	RetainBytes int64
	// Layers is how many layers of new tables lie over each other before they are merged with
	// the old ones. Every scan has to search and merge them: with twice as many, scans of 100
	// rows took a fifth to a third longer. But each merge writes most rows again: with twice
	// as many, a write took about a tenth less of the processors. Default 2.
	Layers int
	// Linger is how long a full chunk waits for the next one: two that are brought into Pebble
	// together are one layer, and what the second overwrites is left out. With it a write took
	// about a tenth less of the processors. Default: it does not wait.
	Linger time.Duration
	// Events receives what an operator should know. Default none.
	Events Events
	// AcceptLoss opens a store whose log is damaged with what is left of it. What is lost is
	// reported.
	AcceptLoss bool
	// Report, if set, is called with what Open repaired, and with what is lost.
	Report func(message string)
	// Preload brings all rows into memory after Open, while others use the store, if they
	// fit.
	Preload bool
}

const (
	minCacheBytes   = 64 << 10
	minSegmentBytes = 64 << 10
	maxSegmentBytes = 1 << 30
)

func (o Options) withDefaults() (Options, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	setDefault(&o.CacheBytes, 64<<20)
	setDefault(&o.BlockCacheBytes, 128<<20)
	disk := int64(math.MaxInt64)
	if o.SegmentBytes == 0 || o.RetainBytes == 0 {
		if n := measureCapacity(o.FS, o.Dir); n > 0 {
			disk = n
		}
	}
	setDefault(&o.SegmentBytes, defaultSegmentBytes(o.CacheBytes, disk))
	setDefault(&o.FlushBytes, 4*o.SegmentBytes)
	setDefault(&o.RetainBytes, min(64<<20, disk/diskSegments*4))
	if o.Chunks == 0 {
		o.Chunks = 4
	}
	if o.Layers == 0 {
		o.Layers = 2
	}
	if o.Report == nil {
		o.Report = func(string) {}
	}
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("store: "+format, args...))
		}
	}
	refuse(o.Dir == "", "Options.Dir is empty: name a directory")
	refuse(o.CacheBytes < minCacheBytes, "CacheBytes is %d, at least %d", o.CacheBytes, minCacheBytes)
	refuse(o.BlockCacheBytes < minCacheBytes, "BlockCacheBytes is %d, at least %d", o.BlockCacheBytes, minCacheBytes)
	refuse(o.SegmentBytes < minSegmentBytes || o.SegmentBytes > maxSegmentBytes || o.SegmentBytes%4096 != 0,
		"SegmentBytes is %d, a multiple of 4096 from %d to %d", o.SegmentBytes, minSegmentBytes, maxSegmentBytes)
	refuse(o.Chunks < 2, "Chunks is %d, at least 2: one fills while one is applied", o.Chunks)
	refuse(o.FlushBytes < o.SegmentBytes, "FlushBytes is %d, at least SegmentBytes (%d)", o.FlushBytes, o.SegmentBytes)
	return o, errors.Join(errs...)
}

// diskSegments is how many segments a small disk has room for: about ten are the log, and four
// are kept for deletes.
const diskSegments = 64

// defaultSegmentBytes is the size of segments beside a row cache of some bytes: rows of the chunks that wait
// to be applied are in it, and may take half of it, see limit in package rowcache. On a small disk
// they are a small part of it.
func defaultSegmentBytes(cache, disk int64) int64 {
	ofCache := max(cache/16, min(cache/4, 8<<20))
	return min(max(min(ofCache, disk/diskSegments)&^4095, minSegmentBytes), 32<<20)
}

func setDefault(v *int64, to int64) {
	if *v == 0 {
		*v = to
	}
}
