// Package smallstore opens stores for tests whose logs have small segments.
//
// A store fills segments with zeros before it needs them, which under the race detector takes longer
// than most tests.
package smallstore

import (
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/engine"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
)

// segmentBytes is the size of the segments.
const segmentBytes = 256 << 10

// memoryLayers is how many layers of tables a store in memory has, as cleave.OpenMemory makes it.
const memoryLayers = 8

// Open opens the store in a directory, or one in memory if dir is empty. A disk that is not nil takes
// the place of the machine's.
func Open(dir string, o cleave.Options, disk store.FS) (*cleave.DB, error) {
	no := node.Options{
		Dir: dir, Stores: o.Stores, Groups: o.Groups, Queue: o.QueueLimit, Refuse: o.FailWhenFull, Remember: o.RequestTTL,
		Durability: wal.Durability(o.Durability), Log: o.Logger, HeatOff: o.HeatOff,
		Store: store.Options{
			SegmentBytes: segmentBytes, CacheBytes: o.CacheBytes, BlockCacheBytes: o.BlockCacheBytes, RetainBytes: o.FeedBytes,
			Preload: o.Preload, Linger: time.Second, AcceptLoss: o.AcceptDataLoss, Report: func(string) {},
		},
	}
	if dir == "" {
		if o.Durability == cleave.Always {
			no.Durability = wal.Never // there is nothing to wait for
		}
		no.Store.Layers = memoryLayers
	}
	if now := o.Now; now != nil {
		no.Wall = func() int64 { return now().UnixMilli() }
	}
	if disk != nil {
		no.FS = func(int) store.FS { return disk }
	}
	e, err := engine.Open(no)
	if err != nil {
		return nil, err
	}
	return cleave.New(e), nil
}

// Engine returns the engine of a DB.
func Engine(db *cleave.DB) (e *engine.DB) {
	db.Engine(&e)
	return e
}
