// Package actorcells sets sharded actors against the maps that one would
// lock instead, and against the mailbox that one would write by hand.
//
// The state is a table of numbers. Clients hold batches of operations, half
// of them writes, and need all replies before they go on.
package actorcells

import (
	"github.com/cleavekv/cleave/bench/internal/lockmap"
	"github.com/cleavekv/cleave/bench/internal/workload"
	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/shardmap"
)

// op is one operation: a read, or a write of value 1.
type op = workload.Step[uint64]

// executor does a batch and sets the replies. It is made for one client.
type executor func(ops []op, replies []uint64)

// contender is one way of sharing the state.
type contender struct {
	name   string
	ours   bool
	family string
	// client makes an executor for a client of its own.
	client func() executor
	// close ends what runs in the background, if anything does.
	close func()
}

// shardsPerCore is enough that two clients seldom want the same shard.
const shardsPerCore = 4

// shardOf picks the shard of a key. It is part of every sharded contender's
// operation.
func shardOf(key uint64, shards int) int { return int(hash.Uint64(key).Uint64() % uint64(shards)) }

// apply is what the owner of a shard does for one operation.
func apply(table map[uint64]uint64, o op) uint64 {
	if o.Write {
		table[o.Key] = 1
		return 1
	}
	return table[o.Key]
}

// tables divides the entries among shards.
func tables(entries, shards int) []map[uint64]uint64 {
	out := make([]map[uint64]uint64, shards)
	for i := range out {
		out[i] = map[uint64]uint64{}
	}
	for i := range entries {
		k := workload.Scramble(uint64(i))
		out[shardOf(k, shards)][k] = 1
	}
	return out
}

// table is a map that is safe for concurrent use by itself.
type table interface {
	Load(uint64) (uint64, bool)
	Store(uint64, uint64)
}

// direct executes a batch one operation after the other.
func direct(name, family string, ours bool, t table, entries int) contender {
	for i := range entries {
		t.Store(workload.Scramble(uint64(i)), 1)
	}
	return contender{name: name, family: family, ours: ours, client: func() executor {
		return func(ops []op, replies []uint64) {
			for i := range ops {
				if ops[i].Write {
					t.Store(ops[i].Key, 1)
					replies[i] = 1
				} else {
					replies[i], _ = t.Load(ops[i].Key)
				}
			}
		}
	}}
}

// maps returns the contenders that have no mailbox.
func maps(entries int) []contender {
	return []contender{
		direct("shardmap", "map", true, new(shardmap.Map[uint64, uint64]), entries),
		direct("sharded RWMutex", "", false, lockmap.NewSharded[uint64, uint64](), entries),
		direct("RWMutex", "", false, lockmap.New[uint64, uint64](), entries),
	}
}
