package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/wal"
)

// Options say where a store is and how much it may take. Only Dir is needed.
type Options struct {
	// Dir is the directory of the store. It is created if there is none; what
	// is there must be a store or empty. It belongs to one open Store at a time.
	Dir string
	// FS is where Dir is. Default: the operating system's files. [Memory] makes
	// one that lives as long as the process.
	FS FS
	// Durability is when a commit counts as done. Default: synced.
	Durability wal.Durability
	// CacheBytes is the room for rows in memory beside those that are not yet
	// applied. Default 64 MiB. At least 64 KiB.
	CacheBytes int64
	// BlockCacheBytes is the memory for Pebble: for what is applied but not
	// flushed, and in the rest for blocks of its tables, which serve scans and
	// the rows that the row cache does not have. Default 128 MiB: under load
	// about three segments are not flushed. At least 64 KiB.
	BlockCacheBytes int64
	// SegmentBytes is the size of a segment of the log, and so of a chunk: what
	// is applied at a time. Default 32 MiB: large enough that sorting and
	// flushing cost little for each row, and small enough that four fit. A
	// multiple of 4 KiB from 64 KiB to 1 GiB.
	SegmentBytes int64
	// Chunks is how many chunks may wait to be applied, the one that is being
	// filled included; then commits wait too. Snapshots may keep 64 more in
	// memory, and what waited when the last of them was taken: see
	// [ErrSnapshots]. Default 4. At least 2.
	Chunks int
	// FlushBytes is how much log may be applied but not yet flushed by Pebble
	// before a flush is asked for. It bounds the log, and so the time to open
	// after a crash, if few keys are overwritten again and again. Default 4
	// segments.
	FlushBytes int64
	// RetainBytes is how much log the feed keeps beyond what recovery needs.
	// Default 64 MiB; -1 keeps none.
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
	// Preload brings all rows into memory after Open, while others use the store, if they
	// fit.
	Preload bool
}

// Memory returns a file system for Options.FS that keeps everything in memory.
// A store on it is gone with the process.
func Memory() FS { return vfs.NewMem() }

const (
	minCacheBytes   = 64 << 10
	minSegmentBytes = 64 << 10
	maxSegmentBytes = 1 << 30
)

func (o Options) withDefaults() (Options, error) {
	setDefault(&o.CacheBytes, 64<<20)
	setDefault(&o.BlockCacheBytes, 128<<20)
	setDefault(&o.SegmentBytes, 32<<20)
	setDefault(&o.FlushBytes, 4*o.SegmentBytes)
	setDefault(&o.RetainBytes, 64<<20)
	if o.Chunks == 0 {
		o.Chunks = 4
	}
	if o.Layers == 0 {
		o.Layers = 2
	}
	if o.FS == nil {
		o.FS = vfs.Default
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

func setDefault(v *int64, to int64) {
	if *v == 0 {
		*v = to
	}
}
