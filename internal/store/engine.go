package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/wal"
)

// Keys in Pebble begin with a byte that says whose they are.
const (
	// ownPrefix begins what the store keeps for itself.
	ownPrefix = 0x00
	// replicaPrefix begins the rows. A store holds one replica of everything
	// today; others would take other prefixes.
	replicaPrefix = 0x01
)

// appliedKey holds the log position up to which Pebble has everything. It
// sorts before all rows, so that the sorted batch that moves it stays sorted.
var appliedKey = []byte{ownPrefix, 'a'}

// l0Stop is the number of sublevels of level 0 at which the applier waits for
// compactions. Every one of them is a place that a read has to look at.
const l0Stop = 24

// engineOptions are Pebble's options for a store that brings its own log.
func engineOptions(o *Options, fsys vfs.FS, h *health, flushed func()) *pebble.Options {
	p := &pebble.Options{
		FS:         fsys,
		Logger:     h,
		DisableWAL: true,
		CacheSize:  o.BlockCacheBytes,
		// A batch of half this size or more is not inserted into a memtable but
		// queued for the flush as it is. It is sorted already, so a full chunk
		// costs no skiplist at all.
		MemTableSize: uint64(o.SegmentBytes),
		// The applier holds back by itself, where it can still be told to stop:
		// see applier.room. Inside Pebble it would wait for as long as the disk
		// is full.
		MemTableStopWritesThreshold: 1 << 20,
		L0StopWritesThreshold:       1 << 20,
		// Half as many sublevels of level 0 are compacted.
		L0CompactionThreshold: 2 * o.Layers,
		LBaseMaxBytes:         64 << 20,
		MaxOpenFiles:          1000,
		FormatMajorVersion:    engineVersion,
		CompactionConcurrencyRange: func() (int, int) {
			return 1, max(1, runtime.GOMAXPROCS(0)/2)
		},
		EventListener: &pebble.EventListener{
			BackgroundError: h.background,
			// A reader gets the error as well; background work reports it above.
			DataCorruption: func(pebble.DataCorruptionInfo) {},
			FlushEnd: func(i pebble.FlushInfo) {
				if i.Err == nil {
					h.succeeded()
					flushed()
				}
			},
			CompactionEnd: func(i pebble.CompactionInfo) {
				if i.Err == nil {
					h.succeeded()
				}
			},
		},
	}
	for i := range p.Levels {
		p.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		p.Levels[i].FilterType = pebble.TableFilter
		// Rows that are not in memory are found in fewer, larger blocks sooner, and their
		// index is smaller; twice as large again, what is not in the block cache would
		// take longer.
		p.Levels[i].BlockSize = 8 << 10
		// One index for most tables: each level of it is a block more to be found in
		// the cache by every read.
		p.Levels[i].IndexBlockSize = 256 << 10
	}
	p.FlushSplitBytes = 2 << 20
	return p
}

// openPebble opens a Pebble that reports to h.
func openPebble(dir string, o *pebble.Options, h *health) (*pebble.DB, error) {
	h.opening.Store(true)
	db, err := pebble.Open(dir, o)
	dead := h.opened()
	if err != nil {
		return nil, readError(err)
	}
	if dead != nil {
		_ = db.Close() // it has nothing to say beyond that
		return nil, dead
	}
	return db, nil
}

// flushAll makes everything in db durable, or returns why that will not come
// about soon. Something is sent to wake when h changed.
func flushAll(ctx context.Context, db *pebble.DB, h *health, wake <-chan struct{}) error {
	done, err := db.AsyncFlush()
	if err != nil {
		return err
	}
	for {
		select {
		case <-done:
			return h.err()
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
			if err := h.err(); err != nil {
				return err
			}
			if h.full.Load() {
				return h.lack()
			}
		}
	}
}

// engineVersion is the format of Pebble's files, named so that a new version of
// Pebble does not change what is on disk behind our back.
const engineVersion = pebble.FormatTableFormatV6

// position reads the applied position: the newest, or the one that is sure to
// survive a crash.
func position(db *pebble.DB, durable bool) (wal.Position, error) {
	it, err := db.NewIter(&pebble.IterOptions{
		LowerBound:                appliedKey,
		UpperBound:                append(appliedKey[:len(appliedKey):len(appliedKey)], 0),
		OnlyReadGuaranteedDurable: durable && !plant.Bug("store-recycle-applied-not-durable"),
	})
	if err != nil {
		return 0, readError(err)
	}
	var pos wal.Position
	if it.First() {
		value, err := it.ValueAndErr()
		if err == nil && len(value) != 8 {
			err = &CorruptError{File: dataDir, Err: fmt.Errorf("applied position of %d bytes", len(value))}
		}
		if err != nil {
			it.Close()
			return 0, readError(err)
		}
		pos = wal.Position(binary.BigEndian.Uint64(value))
	}
	return pos, readError(it.Close())
}
