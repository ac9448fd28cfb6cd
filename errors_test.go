package cleave

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// An option that is wrong is told in parts, for who has another name for it, and as a whole.
func TestAWrongOptionSaysWhichItIs(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir, Options{Stores: 2, Groups: 4})
	must(t, err)
	must(t, db.Close())
	for _, c := range []struct {
		opts Options
		want OptionError
		text string
	}{
		{Options{Stores: 65}, OptionError{Option: "Stores", Value: "65", Use: "1 to 64, or 0 for the default"}, "Stores is 65: use 1 to 64, or 0 for the default"},
		{Options{Stores: 2, Groups: 1}, OptionError{Option: "Groups", Value: "1", Use: "2 to 1024, or 0 for the default"}, "Groups is 1: use 2 to 1024, or 0 for the default"},
		{Options{Remember: time.Millisecond}, OptionError{Option: "Remember", Value: "1ms", Use: "1s to 24h, or 0 for the default"}, "Remember is 1ms: use 1s to 24h, or 0 for the default"},
		{Options{Stores: 3}, OptionError{Option: "Stores", Value: "3", Use: "0 or 2", Found: dir + " has 2 stores, not 3"}, dir + " has 2 stores, not 3: open it with Stores 0 or 2"},
		{Options{Groups: 3}, OptionError{Option: "Groups", Value: "3", Use: "0 or 4", Found: "there are 4 groups, not 3"}, "there are 4 groups, not 3: open it with Groups 0 or 4"},
	} {
		_, err := Open(dir, c.opts)
		var got *OptionError
		if !errors.Is(err, ErrOptions) || !errors.As(err, &got) || *got != c.want {
			t.Errorf("%v: %+v, want %+v", err, got, c.want)
			continue
		}
		if want := "cleave: bad options: " + c.text; err.Error() != want || got.Error() != want {
			t.Errorf("%q and %q, want %q", err, got, want)
		}
	}
	_, err = OpenMemory(Options{Queue: -1, Stores: -1})
	if want := "cleave: bad options: Stores is -1: use 1 to 64, or 0 for the default\ncleave: bad options: Queue is -1: use at least 1, or 0 for the default"; err == nil || err.Error() != want {
		t.Errorf("two of them: %v, want %s", err, want)
	}
}

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
		{start(Regroup{Groups: 2000}), "cleave: bad options: Groups is 2000: use 2 to 1024, no fewer than there are stores"},
		{start(Regroup{Groups: 1}), "cleave: bad options: Groups is 1: use 2 to 1024, no fewer than there are stores"},
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
