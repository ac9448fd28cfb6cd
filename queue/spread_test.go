package queue

import (
	"fmt"
	"testing"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/patterns/delivery"
)

// shardHomes returns the groups that have the shards of a queue, in order, and how many shards
// of the store they are.
func shardHomes(t *testing.T, ks *cleave.Keyspace, name string, shards int) (groups []cleave.GroupID, distinct int) {
	t.Helper()
	seen := map[cleave.ShardID]bool{}
	m := delivery.NewManifest(shards)
	for _, b := range m.OpenBuckets() {
		tail, last := ks.Locate(newBucketKeys(name, b).tailKey()), ks.Locate(newBucketKeys(name, b).seqKey(kindMessage, 1<<63))
		if tail != last {
			t.Fatalf("%s: the rows of shard %d are in %+v and %+v", name, b.Index, tail, last)
		}
		groups = append(groups, tail.Group)
		seen[tail.Shard] = true
	}
	return groups, len(seen)
}

func TestSpread_EachShardOfAQueueIsOneOfTheStoreAndEachGroupHasItsShare(t *testing.T) {
	db, ks := openMemory(t, cleave.Options{Stores: 2, Groups: 4})
	q := openQueue(t, db, ks, "jobs", Options{Shards: 4})
	// Names between which and behind which nothing may move.
	others := []string{"a", "job", "jobs\x01", "jobs0", "z"}
	for _, name := range others {
		openQueue(t, db, ks, name, Options{Shards: 4})
	}
	home := ks.Locate(manifestKey("jobs")).Group
	must(t, q.Publish(ctx, Message{Key: []byte("k"), Body: []byte("before")}))
	for range 2 { // the second has nothing to do
		must(t, q.Spread(ctx))
	}
	for _, shards := range []int{4, 8} {
		if shards != 4 {
			must(t, q.Resize(ctx, shards))
			must(t, q.Spread(ctx))
		}
		groups, distinct := shardHomes(t, ks, "jobs", shards)
		count := map[cleave.GroupID]int{}
		for _, g := range groups {
			count[g]++
		}
		if distinct != shards || len(count) != 4 {
			t.Fatalf("%d shards are %d of the store, in the groups %v", shards, distinct, groups)
		}
		for g, n := range count {
			if n != shards/4 {
				t.Errorf("%v has %d of %d shards", g, n, shards)
			}
		}
	}
	for _, name := range others {
		groups, distinct := shardHomes(t, ks, name, 4)
		if fmt.Sprint(groups) != fmt.Sprint([]cleave.GroupID{home, home, home, home}) || distinct != 1 {
			t.Errorf("queue %q moved to %v: %d shards", name, groups, distinct)
		}
	}
	got, err := q.Receive(ctx, 1)
	must(t, err)
	if len(got) != 1 || string(got[0].Body) != "before" {
		t.Errorf("received %q", deliveryBodies(got))
	}
	must(t, q.Close())
	wantError(t, "spread of a closed queue", q.Spread(ctx), ErrClosed)
}

func TestSpread_ALogIsSpreadToo(t *testing.T) {
	db, ks := openMemory(t, cleave.Options{Groups: 4})
	l, err := OpenLog(ctx, db, ks, "audit", Options{Shards: 4})
	must(t, err)
	defer l.Close()
	must(t, l.Spread(ctx))
	if groups, distinct := shardHomes(t, ks, "audit", 4); distinct != 4 || groups[0] == groups[1] {
		t.Errorf("%d shards in %v", distinct, groups)
	}
}
