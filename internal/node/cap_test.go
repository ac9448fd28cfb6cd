package node

import (
	"errors"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/partition"
)

func mustClose(t *testing.T, n *Node) {
	t.Helper()
	if err := n.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// isCapped reports whether a write of a key has to wait.
func isCapped(t *testing.T, n *Node, keyspace, key string) bool {
	t.Helper()
	k, err := n.Keyspace(keyspace)
	if err != nil {
		t.Fatal(err)
	}
	return n.WriteLimits().Covers(k.AppendPosition(nil, []byte(key)))
}

func mustSetCap(t *testing.T, n *Node, c WriteCap) WriteCap {
	t.Helper()
	c, err := n.SetCap(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Caps outlast the process, cover what they say and nothing else, and go.
func TestCaps_Reopened_CoverTheSame(t *testing.T) {
	o := smallOptions(2)
	o.Dir = t.TempDir()
	n := mustOpen(t, o)
	if _, err := n.CreateKeyspace(ctx, partition.Keyspace{Name: "rows", Kind: partition.Range}); err != nil {
		t.Fatal(err)
	}
	k, err := n.Keyspace(DefaultKeyspace)
	if err != nil {
		t.Fatal(err)
	}
	shard := n.Map().Find(k.AppendPosition(nil, []byte("hot")))
	mustSetCap(t, n, WriteCap{Shard: shard.ID, PerSecond: 100})
	mustSetCap(t, n, WriteCap{Keyspace: "rows", Prefix: []byte("a\x00b"), PerSecond: 1})
	mustSetCap(t, n, WriteCap{Keyspace: "rows", Prefix: []byte("a\x00b")}) // in the place of the other
	mustSetCap(t, n, WriteCap{Keyspace: DefaultKeyspace, Prefix: []byte("order:")})
	ends := mustSetCap(t, n, WriteCap{Keyspace: "rows", Prefix: []byte("z"), Until: time.Now().Add(50 * time.Millisecond)})
	check := func(when string) {
		t.Helper()
		for key, want := range map[string]bool{"a\x00b": true, "a\x00bc": true, "a\x00": false, "a": false, "b": false, "order:1": false} {
			if got := isCapped(t, n, "rows", key); got != want {
				t.Errorf("%s: a write of %q: %v", when, key, got)
			}
		}
		for key, want := range map[string]bool{"order:1": true, "order:2": true, "hot": true} {
			if got := isCapped(t, n, DefaultKeyspace, key); got != want {
				t.Errorf("%s: a write of %q of the default keyspace: %v", when, key, got)
			}
		}
	}
	check("at once")
	if all := n.Caps(); len(all) != 4 || all[3].ID != ends.ID {
		t.Errorf("%+v", all)
	}
	// A cap of a shard stays on its positions when they are split.
	mustRunJob(t, n, mover.Request{Kind: mover.Split, Shard: shard.ID, In: &k.Keyspace, At: []partition.Position{k.SlotSpan(uint16(k.SlotAt(shard.Span.Start)) + 1).Start}})
	check("after a split")
	time.Sleep(time.Until(ends.Until))
	mustClose(t, n)
	n = mustOpen(t, o)
	defer func() { mustClose(t, n) }()
	check("reopened")
	all := n.Caps()
	if len(all) != 3 || all[0].Shard != shard.ID || all[0].PerSecond != 100 || all[1].PerSecond != 0 {
		t.Fatalf("%+v", all)
	}
	for _, c := range all {
		if err := n.RemoveCap(ctx, c.ID); err != nil {
			t.Fatal(err)
		}
	}
	if notes, err := n.Notes(ctx, capPrefix); err != nil || len(notes) > 0 || !n.WriteLimits().IsEmpty() {
		t.Errorf("%d notes are left: %v", len(notes), err)
	}
	if err := n.RemoveCap(ctx, 1); !errors.Is(err, ErrNoCap) {
		t.Errorf("told %v", err)
	}
}

// A keyspace that is emptied gets another id; its cap goes along.
func TestCaps_KeyspaceEmptied_StayOnIt(t *testing.T) {
	n := mustOpen(t, smallOptions(1))
	defer mustClose(t, n)
	mustSetCap(t, n, WriteCap{Keyspace: DefaultKeyspace, Prefix: []byte("a")})
	k, err := n.Keyspace(DefaultKeyspace)
	if err == nil {
		err = n.EmptyKeyspace(ctx, k)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !isCapped(t, n, DefaultKeyspace, "ab") || isCapped(t, n, DefaultKeyspace, "b") {
		t.Error("the cap did not go along")
	}
}

func TestSetCap_Wrong_IsRefused(t *testing.T) {
	n := mustOpen(t, smallOptions(1))
	defer mustClose(t, n)
	for what, c := range map[string]struct {
		cap  WriteCap
		want error
	}{
		"less than none":   {WriteCap{Keyspace: DefaultKeyspace, PerSecond: -1}, ErrOptions},
		"over":             {WriteCap{Keyspace: DefaultKeyspace, Until: time.Now().Add(-time.Second)}, ErrOptions},
		"no keyspace":      {WriteCap{Keyspace: "none"}, ErrNoKeyspace},
		"no shard":         {WriteCap{Shard: 999}, partition.ErrUnknownShard},
		"both":             {WriteCap{Shard: 2, Keyspace: DefaultKeyspace}, ErrOptions},
		"that of the rows": {WriteCap{Shard: n.Map().Find(systemKeyspace.Span().Start).ID}, mover.ErrFixedShard},
	} {
		if _, err := n.SetCap(ctx, c.cap); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if all := n.Caps(); len(all) > 0 || !n.WriteLimits().IsEmpty() {
		t.Errorf("%+v", all)
	}
}

// What cannot be stored does not hold.
func TestSetCap_CatalogFails_ChangesNothing(t *testing.T) {
	n := mustOpen(t, smallOptions(1))
	mustSetCap(t, n, WriteCap{Keyspace: DefaultKeyspace, Prefix: []byte("a"), PerSecond: 5})
	mustClose(t, n)
	if _, err := n.SetCap(ctx, WriteCap{Keyspace: DefaultKeyspace, Prefix: []byte("a")}); err == nil {
		t.Fatal("a closed node has taken a cap")
	}
	if _, err := n.SetCap(ctx, WriteCap{Keyspace: DefaultKeyspace, Prefix: []byte("b")}); err == nil {
		t.Fatal("a closed node has taken a cap")
	}
	if all := n.WriteLimits().List(); len(all) != 1 || all[0].PerSecond != 5 {
		t.Errorf("%+v", all)
	}
}
