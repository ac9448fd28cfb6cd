package cleave

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/partition"
)

// ShardID names a shard for ever, and GroupID a group.
type (
	ShardID = partition.ShardID
	GroupID = partition.GroupID
)

// MapChange is a change of which group has which keys: a [Split], a [Merge], a
// [Move], a [Drain], an [Undrain] or a [Regroup]. [DB.Plan] tells what one would
// cost, and [DB.Start] makes it.
type MapChange interface {
	request(db *DB) (mover.Request, error)
}

// Split cuts shards of a keyspace, in whatever shards the boundaries lie. No keys
// are moved. Boundaries that are there already, and those that are named twice, are
// left out; if no new one is left, the error is ErrNoChange. One outside of the
// keyspace is ErrBoundary.
type Split struct {
	Keyspace *Keyspace
	// At are keys of a range keyspace with which new shards begin.
	At [][]byte
	// Slots are slots of a hash keyspace with which new shards begin.
	Slots []int
	// Into cuts all slots of a hash keyspace into that many pieces.
	Into int
}

// Merge joins two shards that are neighbours and of one group.
type Merge struct{ Left, Right ShardID }

// Move gives a shard to another group.
type Move struct {
	Shard ShardID
	To    GroupID
	// BytesPerSecond bounds how fast rows are copied if the group is on another
	// store; what is written meanwhile is carried as it comes. Default: as fast as
	// the stores are. At least 64 KiB.
	BytesPerSecond uint64
}

// Drain moves all shards of a group to others. The group stays, and is given no
// more until an Undrain; a Regroup may remove it.
type Drain struct {
	Group GroupID
	// Parallel is how many shards are moved at a time. Default 1, at most 64.
	Parallel int
	// BytesPerSecond is as in Move, for each of them.
	BytesPerSecond uint64
}

// Undrain lets a group that was drained have shards again. It is given none: move
// some to it. While the group is being drained it is refused: cancel that job.
type Undrain struct{ Group GroupID }

// Regroup changes how many groups there are. New ones are spread over the stores
// and filled with shards of the others, and shards are split where they are too large
// for that, until each new group has a fair share of the bytes. Only the new ones are
// filled: a group that was there before, an empty one or one that was undrained too,
// is given nothing, and is not evened out with others like it; use Move for that. If
// there are to be fewer, those with the highest ids are drained and removed. If that is
// cancelled, those that were drained before stay so.
type Regroup struct {
	Groups int
	// Parallel and BytesPerSecond are as in Drain.
	Parallel       int
	BytesPerSecond uint64
}

func (c Split) request(db *DB) (mover.Request, error) {
	if c.Keyspace == nil {
		return mover.Request{}, optionError("a Split needs a Keyspace")
	}
	if c.Keyspace.db != db {
		return mover.Request{}, optionError("keyspace %s is of another DB than the one that is to be split", c.Keyspace.Name())
	}
	k := &c.Keyspace.space.Keyspace
	if err := c.Keyspace.space.Check(); err != nil {
		return mover.Request{}, err
	}
	at, err := c.boundaries(k)
	if err != nil {
		return mover.Request{}, err
	}
	slices.SortFunc(at, func(a, b partition.Position) int { return bytes.Compare(a, b) })
	at = slices.CompactFunc(at, func(a, b partition.Position) bool { return bytes.Equal(a, b) })
	m := c.Keyspace.db.node.Map()
	at = slices.DeleteFunc(at, func(p partition.Position) bool { return bytes.Equal(m.Find(p).Span.Start, p) })
	if len(at) == 0 {
		return mover.Request{}, fmt.Errorf("%w: a shard begins at each of these boundaries already", partition.ErrNoChange)
	}
	first, last := m.Find(at[0]), m.Find(at[len(at)-1])
	if first.ID == last.ID {
		return mover.Request{Kind: mover.Split, Shard: first.ID, In: k, At: at}, nil
	}
	return mover.Request{Kind: mover.PreSplit, In: k, At: at}, nil
}

// boundaries returns where the new shards begin.
func (c Split) boundaries(k *partition.Keyspace) (at []partition.Position, err error) {
	ways := 0
	for _, given := range []bool{len(c.At) > 0, len(c.Slots) > 0, c.Into != 0} {
		if given {
			ways++
		}
	}
	switch {
	case ways != 1:
		return nil, optionError("a Split needs one of At, Slots and Into")
	case k.Kind == Range && len(c.At) == 0:
		return nil, optionError("a range keyspace has no slots: use At")
	case k.Kind == Hash && len(c.At) > 0:
		return nil, optionError("a hash keyspace is split at slots: use Slots or Into")
	case c.Into != 0:
		if at, err = k.EvenSlots(c.Into); err == nil && len(at) == 0 {
			err = fmt.Errorf("%w: one piece is what there is", partition.ErrNoChange)
		}
		return at, err
	}
	for _, key := range c.At {
		p, err := c.Keyspace.position(nil, key)
		if err != nil {
			return nil, err
		}
		if len(key) == 0 {
			return nil, fmt.Errorf("%w: nothing comes before the empty key: use another", partition.ErrBoundary)
		}
		at = append(at, p)
	}
	for _, slot := range c.Slots {
		if slot < 1 || slot >= k.SlotCount() {
			return nil, fmt.Errorf("%w: slot %d: use 1 to %d", partition.ErrBoundary, slot, k.SlotCount()-1)
		}
		at = append(at, k.SlotSpan(uint16(slot)).Start)
	}
	return at, nil
}

func (c Merge) request(*DB) (mover.Request, error) {
	return mover.Request{Kind: mover.Merge, Shard: c.Left, Right: c.Right}, nil
}

func (c Move) request(*DB) (mover.Request, error) {
	return mover.Request{Kind: mover.Move, Shard: c.Shard, To: c.To, Throttle: c.BytesPerSecond}, nil
}

func (c Drain) request(*DB) (mover.Request, error) {
	return mover.Request{Kind: mover.Drain, Group: c.Group, Parallel: c.Parallel, Throttle: c.BytesPerSecond}, nil
}

func (c Undrain) request(*DB) (mover.Request, error) {
	return mover.Request{Kind: mover.Undrain, Group: c.Group}, nil
}

func (c Regroup) request(*DB) (mover.Request, error) {
	return mover.Request{Kind: mover.Regroup, Groups: c.Groups, Parallel: c.Parallel, Throttle: c.BytesPerSecond}, nil
}

// Price is what a change is expected to cost, and to bring, if it began now and
// nobody wrote meanwhile. It is no more exact than the sizes of shards, which are
// estimates: see Shard.Rows. A Drain or Regroup looks at them again before each step, so
// that it may take other steps than were planned. How long things take is what they took
// before; of a store that has carried nothing yet, 100 MiB a second are assumed.
type Price struct {
	// Rows and Bytes are to be carried to other stores.
	Rows, Bytes uint64
	// Moves is how many shards get another group.
	Moves int
	// Duration is of all of it, Pause how long each range that goes to another
	// store takes no writes.
	Duration, Pause time.Duration
	// SkewBefore and SkewAfter are how much more the fullest group has than the
	// mean, in bytes: 1 is even.
	SkewBefore, SkewAfter float64
}

func priceOf(p mover.Price) Price {
	return Price{
		Rows: p.Rows, Bytes: p.Bytes, Moves: p.Moves,
		Duration: milliseconds(p.DurationMS), Pause: milliseconds(p.PauseMS),
		SkewBefore: p.Before.Bytes, SkewAfter: p.After.Bytes,
	}
}

func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// Plan returns what a change would cost, or why it would be refused. It changes
// nothing.
func (db *DB) Plan(ctx context.Context, c MapChange) (Price, error) {
	r, err := requestOf(db, c)
	if err != nil {
		return Price{}, public(err)
	}
	p, err := db.node.PlanJob(ctx, r)
	return priceOf(p), public(err)
}

// Start begins with a change, and returns the job that makes it. The job is durable
// by then: it goes on after a restart. If it is refused, nothing has changed.
func (db *DB) Start(ctx context.Context, c MapChange) (*Job, error) {
	for {
		m := db.node.Map()
		r, err := requestOf(db, c)
		if err != nil {
			return nil, public(err)
		}
		job, err := db.node.StartJob(ctx, r)
		if errors.Is(err, partition.ErrBoundary) && db.node.Map() != m {
			continue // the shard that was to be split has been, meanwhile
		}
		if err != nil {
			return nil, public(err)
		}
		return &Job{job}, nil
	}
}

func requestOf(db *DB, c MapChange) (mover.Request, error) {
	if c == nil {
		return mover.Request{}, optionError("no change: use a Split, Merge, Move, Drain, Undrain or Regroup")
	}
	return c.request(db)
}
