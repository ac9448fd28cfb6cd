package cleave

import (
	"fmt"
	"testing"
)

// Whoever reads what was refused learns what is wrong, once, and what to do.
func TestARefusalSaysWhatToDo(t *testing.T) {
	db := watched(t, 2, nil)
	ks := rangeSpace(t, db, "r")
	mustDo(t, db, Split{Keyspace: ks, At: [][]byte{[]byte("f"), []byte("m")}})
	mustDo(t, db, Drain{Group: 4, Parallel: 8})
	first, third := shardAt(ks, "a"), shardAt(ks, "n")
	start := func(c MapChange) error {
		_, err := db.Start(ctx, c)
		return err
	}
	var over *Txn
	must(t, db.View(ctx, func(tx *Txn) error {
		over = tx
		return nil
	}))
	ended := mustStart(t, db, Split{Keyspace: ks, At: [][]byte{[]byte("x")}})
	if _, err := ended.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{start(Move{Shard: first, To: 99}), "cleave: no such group: g99: see DB.Groups"},
		{start(Drain{Group: 99}), "cleave: no such group: g99: see DB.Groups"},
		{start(Undrain{Group: 99}), "cleave: no such group: g99: see DB.Groups"},
		{start(Move{Shard: 9999, To: 1}), "cleave: no such shard: s9999: see DB.Shards"},
		{start(Move{Shard: first, To: 4}), "cleave: the group is draining: g4: undrain it, or choose another"},
		{start(Drain{Group: 4}), "cleave: nothing to change: g4 is drained, and has no shards"},
		{start(Undrain{Group: 2}), "cleave: nothing to change: g2 is not draining"},
		{start(Merge{Left: first, Right: third}), fmt.Sprintf("cleave: not neighbours: %v is not followed by %v: see DB.Shards", first, third)},
		{start(Split{Keyspace: ks, At: [][]byte{[]byte("f")}}), "cleave: nothing to change: a shard begins at each of these boundaries already"},
		{start(Split{Keyspace: db.Default(), Slots: []int{16384}}), "cleave: bad boundary: slot 16384: use 1 to 16383"},
		{start(Move{Shard: first, To: 4, BytesPerSecond: 1}), "cleave: bad options: BytesPerSecond is 1: use 65536 or more"},
		{start(Drain{Group: 2, Parallel: 100}), "cleave: bad options: Parallel is 100: use 1 to 64"},
		{start(Regroup{Groups: 2000}), "cleave: bad options: Groups is 2000: use 2 to 1024, at least one for each store"},
		{start(Regroup{Groups: 1}), "cleave: bad options: Groups is 1: use 2 to 1024, at least one for each store"},
		{second(db.Job(ctx, 999)), "cleave: no such job: 999: see DB.Jobs"},
		{second(db.Keyspace("none")), `cleave: no such keyspace: "none": create it, or see DB.Keyspaces`},
		{ended.Cancel(ctx), "cleave: the job has ended: it is done: start another"},
		{over.Set(ks, nil, nil), "cleave: the transaction is over: use a Txn only inside of its function"},
		{db.View(ctx, func(tx *Txn) error { return tx.Set(ks, nil, nil) }), "cleave: a View cannot write: use Update"},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("%v\nwant %s", c.err, c.want)
		}
	}
}

// Boundaries that are there already are left out, alone or among others.
func TestASplitLeavesOutWhatIsThere(t *testing.T) {
	db := watched(t, 1, nil)
	ks := rangeSpace(t, db, "r")
	at := func(keys ...string) (c Split) {
		c.Keyspace = ks
		for _, key := range keys {
			c.At = append(c.At, []byte(key))
		}
		return c
	}
	mustDo(t, db, at("m", "m"))
	mustDo(t, db, at("m", "f"))
	mustDo(t, db, at("f", "t", "f", "b", "m"))
	shards, err := db.Shards(ctx)
	must(t, err)
	n := 0
	for _, s := range shards {
		if s.Keyspace == ks.Name() {
			n++
		}
	}
	if n != 5 {
		t.Errorf("%d shards, want those of b, f, m and t, and the first", n)
	}
}
