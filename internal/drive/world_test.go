package drive

import (
	"context"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/partition"
)

var (
	bg     = context.Background()
	system = partition.Keyspace{ID: 0, Name: "system", Kind: partition.Range}
	space  = partition.Keyspace{ID: 1, Name: "data", Kind: partition.Range}
	meta   = Catalog{Space: &system}
)

func at(key string) partition.Position { return space.AppendPosition(nil, []byte(key)) }

// small has two stores: groups 1 and 2 live on the first, 3 on the second. Group 1
// has the catalog, 2 the keys up to m, 3 those behind.
type small struct {
	t      *testing.T
	now    int64
	stores []*store.Store
	places map[partition.GroupID]Place
	m      *partition.Map
}

func newSmall(t *testing.T) *small {
	w := &small{t: t, now: 1000, places: map[partition.GroupID]Place{}}
	for range 2 {
		s, err := store.Open(store.Options{Dir: "store", FS: store.Memory(), CacheBytes: 64 << 10, BlockCacheBytes: 1 << 20, SegmentBytes: 64 << 10})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		w.stores = append(w.stores, s)
	}
	var err error
	w.m, err = partition.First(make([]partition.Group, 3), &space, space.Span().Start, space.PrefixSpan([]byte("m")).Start)
	if err != nil {
		t.Fatal(err)
	}
	for id, s := range map[partition.GroupID]*store.Store{1: w.stores[0], 2: w.stores[0], 3: w.stores[1]} {
		g, err := group.Open(&Log{Store: s, Group: id}, s, group.Options{ID: id, Wall: func() int64 { return w.now }})
		if err != nil {
			t.Fatal(err)
		}
		w.places[id] = Place{Group: g, Store: s}
		c := &own.Reown{}
		for s := range w.m.Owned(id) {
			c.Become = append(c.Become, own.Range{Span: s.Span, Version: s.Changed, State: own.Serving})
		}
		w.do(id, c)
	}
	w.do(1, meta.FirstMap(w.m))
	return w
}

// find is a Find.
func (w *small) find(id partition.GroupID) (Place, error) {
	p, ok := w.places[id]
	if !ok {
		return Place{}, ErrAway
	}
	return p, nil
}

// try evaluates a command.
func (w *small) try(id partition.GroupID, c command.Command) command.Reply {
	w.t.Helper()
	reply, err := w.places[id].Group.Try(bg, group.Request{Command: c})
	if err != nil {
		w.t.Fatal(err)
	}
	return reply
}

// do evaluates one that must not fail.
func (w *small) do(id partition.GroupID, c command.Command) command.Reply {
	w.t.Helper()
	reply := w.try(id, c)
	if reply.Err != nil {
		w.t.Fatalf("group %d refuses %T: %v", id, c, reply.Err)
	}
	return reply
}

func (w *small) set(id partition.GroupID, key, value string) uint64 {
	w.t.Helper()
	return w.do(id, &command.Set{Key: at(key), Value: []byte(value)}).Version
}

// span is what a group owns of the data.
func (w *small) span(id partition.GroupID) partition.Span {
	for s := range w.m.Owned(id) {
		return s.Span
	}
	w.t.Fatalf("group %d owns nothing", id)
	return partition.Span{}
}

// copying brings group 3 to where it takes rows of group 2 as job 7: from a place in
// the log on.
func (w *small) copying() (span partition.Span, base uint64) {
	span, base = w.span(2), uint64(w.stores[0].Position())
	in := own.Range{Span: span, Version: 1, State: own.Incoming, Job: 7, Attempt: 1}
	open := in
	open.Upto = base
	w.do(3, &own.Reown{Become: []own.Range{in}})
	w.do(3, &own.Reown{Expect: []own.Range{in}, Become: []own.Range{open}})
	return span, base
}

// failure returns the error of an event, nil if it is none.
func failure(ev mover.Event) error {
	if f, ok := ev.(mover.Failed); ok {
		return f.Err
	}
	return nil
}
