package protocol

import (
	"context"
	"testing"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

var (
	background     = context.Background()
	systemKeyspace = partition.Keyspace{ID: 0, Name: "system", Kind: partition.Range}
	dataKeyspace   = partition.Keyspace{ID: 1, Name: "data", Kind: partition.Range}
	catalogKeys    = Catalog{Keyspace: &systemKeyspace}
)

func keyAt(key string) partition.Position { return dataKeyspace.AppendPosition(nil, []byte(key)) }

// testCluster has two stores: groups 1 and 2 live on the first, 3 on the second. Group 1
// has the catalog, 2 the keys up to m, 3 those behind.
type testCluster struct {
	t      *testing.T
	nowMS  int64
	stores []*store.Store
	hosts  map[partition.GroupID]GroupHost
	shards *partition.Map
}

func newTestCluster(t *testing.T) *testCluster {
	w := &testCluster{t: t, nowMS: 1000, hosts: map[partition.GroupID]GroupHost{}}
	for range 2 {
		s, err := store.Open(store.Options{Dir: "store", FS: store.NewMemFS(), CacheBytes: 64 << 10, BlockCacheBytes: 1 << 20, SegmentBytes: 64 << 10})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		w.stores = append(w.stores, s)
	}
	var err error
	w.shards, err = partition.NewMap(make([]partition.Group, 3), &dataKeyspace, dataKeyspace.Span().Start, dataKeyspace.PrefixSpan([]byte("m")).Start)
	if err != nil {
		t.Fatal(err)
	}
	for id, s := range map[partition.GroupID]*store.Store{1: w.stores[0], 2: w.stores[0], 3: w.stores[1]} {
		g, err := group.Open(&LocalLog{Store: s, Group: id}, s, group.Options{ID: id, Wall: func() int64 { return w.nowMS }})
		if err != nil {
			t.Fatal(err)
		}
		w.hosts[id] = GroupHost{Group: g, Store: s}
		c := &ownership.ChangeOwnership{}
		for s := range w.shards.Owned(id) {
			c.Become = append(c.Become, ownership.Range{Span: s.Span, Version: s.Changed, State: ownership.Serving})
		}
		w.mustDo(id, c)
	}
	w.mustDo(1, catalogKeys.InsertFirstMap(w.shards))
	return w
}

// findHost is a Find.
func (w *testCluster) findHost(id partition.GroupID) (GroupHost, error) {
	p, ok := w.hosts[id]
	if !ok {
		return GroupHost{}, ErrGroupNotOpen
	}
	return p, nil
}

// tryCommand evaluates a command.
func (w *testCluster) tryCommand(id partition.GroupID, c command.Command) command.Reply {
	w.t.Helper()
	reply, err := w.hosts[id].Group.Try(background, group.Request{Command: c})
	if err != nil {
		w.t.Fatal(err)
	}
	return reply
}

// mustDo evaluates one that must not fail.
func (w *testCluster) mustDo(id partition.GroupID, c command.Command) command.Reply {
	w.t.Helper()
	reply := w.tryCommand(id, c)
	if reply.Err != nil {
		w.t.Fatalf("group %d refuses %T: %v", id, c, reply.Err)
	}
	return reply
}

func (w *testCluster) setKey(id partition.GroupID, key, value string) uint64 {
	w.t.Helper()
	return w.mustDo(id, &command.Set{Key: keyAt(key), Value: []byte(value)}).Version
}

// ownedSpan is what a group owns of the data.
func (w *testCluster) ownedSpan(id partition.GroupID) partition.Span {
	for s := range w.shards.Owned(id) {
		return s.Span
	}
	w.t.Fatalf("group %d owns nothing", id)
	return partition.Span{}
}

// beginCopy brings group 3 to where it takes rows of group 2 as job 7: from a place in
// the log on.
func (w *testCluster) beginCopy() (span partition.Span, base uint64) {
	span, base = w.ownedSpan(2), uint64(w.stores[0].Position())
	in := ownership.Range{Span: span, Version: 1, State: ownership.Incoming, Job: 7, Attempt: 1}
	open := in
	open.CopiedUpTo = base
	w.mustDo(3, &ownership.ChangeOwnership{Become: []ownership.Range{in}})
	w.mustDo(3, &ownership.ChangeOwnership{Expect: []ownership.Range{in}, Become: []ownership.Range{open}})
	return span, base
}

// errorOf returns the error of an event, nil if it is none.
func errorOf(ev mover.Event) error {
	if f, ok := ev.(mover.Failed); ok {
		return f.Err
	}
	return nil
}
