package actorcells

import (
	"testing"

	"github.com/cleavekv/cleave/bench/internal/workload"
)

func TestSortedBatchesHaveOneShardEach(t *testing.T) {
	const shards, size = 8, 16
	steps := workload.Stream(workload.Uniform, 1000, 1<<12, 50, 1, func(i uint32) uint64 { return uint64(i) })
	sorted := sortedByShard(steps, shards, size)
	if len(sorted)%size != 0 || len(sorted) < len(steps)-shards*size {
		t.Fatalf("%d of %d steps kept", len(sorted), len(steps))
	}
	for i, s := range sorted {
		if first := sorted[i/size*size]; shardOf(s.Key, shards) != shardOf(first.Key, shards) {
			t.Fatalf("step %d is of another shard than its batch", i)
		}
	}
}

func TestTablesDivideAllEntries(t *testing.T) {
	total := 0
	for i, part := range tables(1000, 8) {
		total += len(part)
		for k := range part {
			if shardOf(k, 8) != i {
				t.Fatalf("key %d is in shard %d", k, i)
			}
		}
	}
	if total != 1000 {
		t.Errorf("%d entries, want 1000", total)
	}
}

// Clients count every operation whatever the batch: a share that is no
// multiple of it ends with a short one.
func TestClientsDoExactlyTheOperationsAskedFor(t *testing.T) {
	steps := make([]op, 64)
	for _, c := range []struct{ clients, size, ops int }{{1, 8, 100}, {1, 64, 63}, {1, 1, 7}, {1, 8, 0}} {
		done := 0
		k := contender{client: func() executor {
			return func(ops []op, replies []uint64) {
				done += len(ops)
				for i := range replies {
					replies[i] = 1
				}
			}
		}}
		play(k, steps, c.clients, c.size, c.ops)
		if done != c.ops {
			t.Errorf("%+v: %d done", c, done)
		}
	}
}
