package actorcells

import (
	"context"

	"github.com/cleavekv/cleave/actor"
)

// state is what one actor owns.
type state = map[uint64]uint64

type fleet = actor.Fleet[state, op, uint64]

// newFleet makes one actor a shard, in that mode.
func newFleet(entries, shards int, mode actor.Mode) *fleet {
	parts := tables(entries, shards)
	handle := actor.Batch(func(s *state, ops []op, replies []uint64) {
		for i, o := range ops {
			replies[i] = apply(*s, o)
		}
	})
	f, err := actor.NewFleet(shards, func(i int) state { return parts[i] }, handle, actor.Options{Mode: mode})
	if err != nil {
		panic(err)
	}
	return f
}

// fleetContender sends batches to a fleet. A batch of one is a call: that is
// what a program with one operation would write.
func fleetContender(entries, shards int, mode actor.Mode) contender {
	f := newFleet(entries, shards, mode)
	ctx := context.Background()
	shard := func(o op) int { return shardOf(o.Key, shards) }
	return contender{
		name: mode.String(), ours: true,
		close: func() { must(f.Stop(ctx)) },
		client: func() executor {
			return func(ops []op, replies []uint64) {
				if len(ops) > 1 {
					must(f.CallBatch(ctx, shard, ops, replies))
					return
				}
				r, err := f.Call(ctx, shard(ops[0]), ops[0])
				must(err)
				replies[0] = r
			}
		},
	}
}

// ownShardContender sends whole batches to one shard, whichever the first
// operation belongs to.
func ownShardContender(entries, shards int, mode actor.Mode) contender {
	f := newFleet(entries, shards, mode)
	ctx := context.Background()
	return contender{
		name: mode.String(), ours: true,
		close: func() { must(f.Stop(ctx)) },
		client: func() executor {
			return func(ops []op, replies []uint64) {
				a, err := f.Shard(shardOf(ops[0].Key, shards))
				must(err)
				must(a.CallBatch(ctx, ops, replies))
			}
		},
	}
}

// must turns an error into a panic, which takes the contestant out.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
