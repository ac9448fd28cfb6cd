package admin

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/reshard/balancer"
)

// What has changed the map says when, and of which keys, and is drawn over the rows of a heat map that have them.
func TestEvents_SplitAndMove_HaveTheirKeys(t *testing.T) {
	l := startSmallServer(t)
	k, err := l.db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "orders", Kind: cleave.Range})
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now()
	shard := uint64(k.Locate([]byte("m")).Shard)
	l.waitJobDone(l.client.Post(ctx, api.PathSplit, api.Split{Keyspace: "orders", Keys: []api.Key{api.Key("m\x1b")}}, false))
	right := k.Locate([]byte("z"))
	l.waitJobDone(l.client.Post(ctx, api.PathMove, api.Move{Shard: uint64(right.Shard), To: 3 - uint64(right.Group)}, false))

	all, err := l.client.Events(ctx, api.EventFilter{Keyspace: "orders", From: before.Add(-time.Second)})
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	move, split := all[0], all[1]
	if split.Kind != api.EventSplit || split.Shard != shard || split.Outcome != api.JobDone || split.Start != nil || split.End != nil ||
		len(split.Cuts) != 1 || split.Cuts[0].Key == nil || string(*split.Cuts[0].Key) != "m\x1b" || split.TimeMS != split.Time.UnixMilli() {
		t.Errorf("the split is %+v", split)
	}
	if move.Kind != api.EventMove || move.Shard != uint64(right.Shard) || move.From != uint64(right.Group) || move.To != 3-uint64(right.Group) ||
		move.Start == nil || string(*move.Start.Key) != "m\x1b" || move.End != nil || move.TimeMS < before.UnixMilli() {
		t.Errorf("the move is %+v", move)
	}
	for name, f := range map[string]api.EventFilter{
		"another kind": {Kind: api.EventMerge}, "another shard": {Shard: 9999}, "another keyspace": {Keyspace: "default"},
		"before": {To: before.Add(-time.Hour)}, "later": {From: time.Now().Add(time.Hour)},
	} {
		if is, err := l.client.Events(ctx, f); err != nil || len(is) != 0 {
			t.Errorf("%s: %+v, %v", name, is, err)
		}
	}
	for name, q := range map[string]url.Values{"kind": {api.QueryKind: {"quake"}}, "time": {api.QueryFrom: {"noon"}}, "keyspace": {api.QueryKeyspace: {"none"}}} {
		var p api.Page[api.Event]
		if err := l.client.Get(ctx, api.PathEvents, q, &p); err == nil {
			t.Errorf("a wrong %s is taken", name)
		}
	}

	space, err := l.admin.node.Keyspace("orders")
	if err != nil {
		t.Fatal(err)
	}
	view := heat.View{}
	for _, key := range []string{"a", "m", "x", "z"} {
		view.Rows = append(view.Rows, string(space.AppendPosition(nil, []byte(key))))
	}
	for _, c := range []struct {
		rows        []string
		end         []byte
		first, last int // of the move: -1 if it is not drawn
	}{
		{view.Rows, nil, 1, 3}, {view.Rows[2:], nil, 0, 1}, {view.Rows[:2], space.AppendPosition(nil, []byte("n")), 1, 1},
		{view.Rows[:1], space.AppendPosition(nil, []byte("m")), -1, -1},
	} {
		m := api.HeatMap{Columns: []time.Time{before.Add(-10 * time.Second), before}, StepSeconds: 600}
		l.admin.fillHeatEvents(ctx, &m, &heat.View{Rows: c.rows}, c.end)
		if len(m.Events) < 1 || m.Events[0].Event.Kind != api.EventSplit || m.Events[0].FirstRow != 0 || m.Events[0].LastRow != len(c.rows)-1 {
			t.Errorf("rows %q: the split is drawn at %+v", c.rows, m.Events)
		} else if isDrawn := len(m.Events) == 2; isDrawn != (c.first >= 0) || isDrawn && (m.Events[1].FirstRow != c.first || m.Events[1].LastRow != c.last) {
			t.Errorf("rows %q: the move is drawn at %+v, want %d to %d", c.rows, m.Events, c.first, c.last)
		}
		m.Columns = []time.Time{before.Add(-time.Hour)}
		if l.admin.fillHeatEvents(ctx, &m, &heat.View{Rows: c.rows}, c.end); len(m.Events) != 0 {
			t.Errorf("%+v are drawn before they were", m.Events)
		}
	}
}

// Pages of events leave none out, also of those of one millisecond.
func TestEvents_Pages_AreWhole(t *testing.T) {
	l := startSmallServer(t)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if _, err := l.client.Post(ctx, api.PathCreateKeyspace, api.CreateKeyspace{Name: name}, false); err != nil {
			t.Fatal(err)
		}
	}
	stopped := time.Now()
	l.admin.o.Now = func() time.Time { return stopped }
	all, err := l.client.Events(ctx, api.EventFilter{})
	if err != nil {
		t.Fatal(err)
	}
	seen, after := []string{}, ""
	for range all {
		q := url.Values{api.QueryLimit: {"1"}}
		if after != "" {
			q.Set(api.QueryAfter, after)
		}
		var p api.Page[api.Event]
		if err := l.client.Get(ctx, api.PathEvents, q, &p); err != nil || len(p.Items) != 1 {
			t.Fatalf("%+v, %v", p, err)
		}
		seen, after = append(seen, p.Items[0].Message), p.Next
	}
	for i, e := range all {
		if seen[i] != e.Message {
			t.Errorf("page %d has %q, want %q", i, seen[i], e.Message)
		}
	}
	if after != "" || len(all) < 6 {
		t.Errorf("%d events, and more behind %q", len(all), after)
	}
}

// A throttle lasts from its decision to its last renewal; one of a job that is forgotten is as its decision has it.
func TestEvents_Decisions_AreEvents(t *testing.T) {
	l := startSmallServer(t)
	a := l.admin
	k, err := l.db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "orders", Kind: cleave.Range})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := l.db.Map().Shard(k.Locate([]byte("a")).Shard)
	held := balancer.ReliefDecision{ID: 3, TimeMS: 1000, LastMS: 9000, Shard: s.ID, Group: s.Group, Change: "throttle", Outcome: balancer.Kept, Evidence: "others wait", Start: s.Span.Start, End: s.Span.End}
	e, ok := a.throttleEvent(&held)
	if !ok || e.Time.UnixMilli() != 1000 || e.EndMS != 9000 || e.Outcome != throttleEnded || !e.hasSpan || !e.changesMap() || !strings.Contains(e.Message, "others wait") {
		t.Errorf("%v, %+v", ok, e)
	}
	e.TimeMS = 1000
	if !e.overlaps(8*time.Second, 20*time.Second) || e.overlaps(10*time.Second, 0) || e.overlaps(0, time.Second) {
		t.Error("a throttle is not where it holds")
	}
	if a.describeEventSpan(&e); e.Keyspace != "orders" || e.Start != nil || e.End != nil {
		t.Errorf("%+v", e)
	}
	held.LastMS = a.o.Now().UnixMilli()
	if err := a.node.Throttles().Set(s.ID, 10, "others wait", a.o.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if e, _ = a.throttleEvent(&held); e.EndMS != 0 || e.Outcome != throttleHolds || !e.overlaps(time.Duration(a.o.Now().Add(time.Hour).UnixNano()), 0) {
		t.Errorf("%+v", e)
	}
	for outcome, want := range map[balancer.ReliefOutcome]bool{balancer.Helped: true, balancer.DidNotHelp: true, balancer.Done: true, balancer.Refused: false, balancer.Running: false} {
		d := balancer.ReliefDecision{ID: 4, TimeMS: 5, Shard: s.ID, Group: 1, To: 2, Job: 77, Change: "move", Outcome: outcome, Start: s.Span.Start, Reason: "it relieves most"}
		if e, ok := newDecisionEvent(&d); ok != want || ok && (e.From != 1 || e.To != 2 || e.Job != "77" || !e.changesMap()) {
			t.Errorf("%s: %v, %+v", outcome, ok, e)
		}
	}
}
