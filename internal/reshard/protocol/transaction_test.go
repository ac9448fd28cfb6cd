package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/partition"
)

func setCommands(key string) []command.Command {
	return []command.Command{&command.Set{Key: keyAt(key), Value: []byte("1")}}
}

// newTxn begins a transaction in groups 2 and 3.
func (w *testCluster) newTxn(id byte) (*txn.Coordinator, []txn.Effect) {
	return txn.NewCoordinator(txn.Plan{ID: txn.ID{id}, DeadlineMS: 2000, CoordinatorGroup: 2, Participants: []txn.Participant{
		{Span: w.ownedSpan(2), Writes: setCommands("a")}, {Span: w.ownedSpan(3), Writes: setCommands("z")},
	}})
}

// Every call is made twice, and every reply delivered twice: the transaction happens once.
func TestATransactionIsLedToItsEnd(t *testing.T) {
	w := newTestCluster(t)
	c, effects := w.newTxn(1)
	answered := 0
	for steps := 0; len(effects) > 0 && steps < 20; steps++ {
		e := effects[0]
		effects = effects[1:]
		if a, ok := e.(txn.Answer); ok {
			if answered++; a.Outcome != txn.Committed {
				t.Fatalf("it is %v: %v", a.Outcome, a.Err)
			}
			if CallsFor(c, e, w.shards) != nil {
				t.Error("an answer takes a call")
			}
			continue
		}
		for _, call := range CallsFor(c, e, w.shards) {
			for range 2 {
				if ev := call.Event(w.mustDo(call.Group, call.Command())); ev != nil {
					effects = append(effects, c.Step(ev)...)
				}
			}
		}
	}
	if c.State() != txn.Done || answered != 1 {
		t.Fatalf("it is %v, and was answered %d times", c.State(), answered)
	}
	for g, key := range map[partition.GroupID]string{2: "a", 3: "z"} {
		if r := w.mustDo(g, &command.Get{Key: keyAt(key)}); string(r.Bytes) != "1" {
			t.Errorf("%s is %q", key, r.Bytes)
		}
	}
}

func TestARefusalIsToldUnlessItPasses(t *testing.T) {
	w := newTestCluster(t)
	c, effects := w.newTxn(1)
	prepare := CallsFor(c, effects[0], w.shards)[0]
	decide := CallsFor(c, txn.SendDecide{Commit: true}, w.shards)[0]
	resolve := CallsFor(c, txn.SendResolve{Span: w.ownedSpan(3)}, w.shards)[0]
	collect := CallsFor(c, txn.SendCollect{}, w.shards)[0]
	if prepare.Group != 3 || decide.Group != 2 || resolve.Group != 3 || collect.Group != 2 {
		t.Errorf("they go to %d, %d, %d and %d", prepare.Group, decide.Group, resolve.Group, collect.Group)
	}
	boom := errors.New("boom")
	for _, test := range []struct {
		name string
		call Call
		err  error
		want txn.Event
	}{
		{"prepared", prepare, nil, txn.Prepared{Participant: 1}},
		{"a prepare that is refused", prepare, boom, txn.Refused{Participant: 1, Err: boom}},
		{"a prepare in a frozen range", prepare, ownership.ErrFrozen, nil},
		{"a decide that is refused", decide, boom, txn.DecideRefused{Err: boom}},
		{"a decide in a frozen range", decide, ownership.ErrFrozen, nil},
		{"resolved", resolve, nil, txn.Resolved{Span: w.ownedSpan(3)}},
		{"a resolve that is refused", resolve, ownership.ErrWrongGroup, nil},
		{"collected", collect, nil, txn.Collected{}},
		{"a collect that is refused", collect, boom, nil},
	} {
		if got := test.call.Event(command.Reply{Err: test.err}); fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	if decide.Event(command.Reply{Kind: command.Int, Int: int64(txn.Committed)}) != (txn.Decided{Outcome: txn.Committed}) {
		t.Error("a decision is not told")
	}
	gone, ok := decide.RemovedEvent.(txn.DecideRefused)
	if !ok || !errors.Is(gone.Err, txn.ErrForgotten) || collect.RemovedEvent != (txn.Collected{}) || prepare.RemovedEvent != nil || resolve.RemovedEvent != nil {
		t.Errorf("a removed group means %v, %v, %v and %v", prepare.RemovedEvent, decide.RemovedEvent, resolve.RemovedEvent, collect.RemovedEvent)
	}
}

func TestAGroupIsRemovedIfTheMapHadIt(t *testing.T) {
	w := newTestCluster(t)
	more, err := w.shards.Apply(partition.AddGroup{}, partition.SetDraining{Group: 4, Draining: true})
	if err != nil {
		t.Fatal(err)
	}
	fewer, err := more.Apply(partition.RemoveGroup{Group: 4})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		m    *partition.Map
		g    partition.GroupID
		want bool
	}{
		{"one that is there", w.shards, 3, false},
		{"one that this map has not heard of", w.shards, 4, false},
		{"one that was added", more, 4, false},
		{"one that was removed", fewer, 4, true},
		{"the next one", fewer, 5, false},
		{"none", fewer, 0, false},
	} {
		if got := IsGroupRemoved(test.m, test.g); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

func TestALockThatNobodyLooksAfterIsSettled(t *testing.T) {
	w := newTestCluster(t)
	c, effects := w.newTxn(1)
	w.mustDo(3, CallsFor(c, effects[0], w.shards)[0].Command())
	due := func(now int64) []txn.Lock {
		locks, err := OverdueLocks(w.stores[1], w.ownedSpan(3), now)
		if err != nil {
			t.Fatal(err)
		}
		return locks
	}
	if n := len(due(2000)); n > 0 {
		t.Errorf("%d are due before their deadline", n)
	}
	locks := due(2001)
	if len(locks) != 1 || string(locks[0].Start) != string(keyAt("z")) {
		t.Fatalf("due are %+v", locks)
	}
	if locks, err := OverdueLocks(w.stores[1], partition.Span{Start: keyAt("zz")}, 9000); err != nil || len(locks) > 0 {
		t.Errorf("in another span: %+v, %v", locks, err)
	}
	ask := func() txn.Outcome { return txn.ParseOutcome(w.mustDo(2, NewOutcomeQuery(locks[0]))) }
	if o := ask(); o != txn.Undecided {
		t.Errorf("before the deadline of its clock the coordinator group says %v", o)
	}
	w.nowMS = 3000
	if _, err := w.hosts[2].Group.Housekeep(background); err != nil {
		t.Fatal(err)
	}
	if o := ask(); o != txn.Aborted {
		t.Fatalf("past the deadline it is %v", o)
	}
	for range 2 {
		to, resolve := NewResolve(locks[0], txn.Aborted, w.shards)
		w.mustDo(to, resolve)
	}
	if n := len(due(9000)); n > 0 {
		t.Errorf("%d locks are left", n)
	}
	if r := w.tryCommand(3, CallsFor(c, effects[0], w.shards)[0].Command()); r.Err == nil || len(due(9000)) > 0 {
		t.Errorf("a prepare that comes late: %v", r.Err)
	}
}

func TestASpanIsCutWhereItsOwnersChange(t *testing.T) {
	w := newTestCluster(t)
	m := dataKeyspace.PrefixSpan([]byte("m")).Start
	cut, err := w.shards.Apply(partition.Split{Shard: w.shards.Find(keyAt("a")).ID, In: &dataKeyspace, At: []partition.Position{keyAt("c"), keyAt("e")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		span partition.Span
		want string
	}{
		{partition.Span{Start: keyAt("a"), End: keyAt("b")}, fmt.Sprint([]GroupSpan{{2, partition.Span{Start: keyAt("a"), End: keyAt("b")}}})},
		{partition.Span{Start: keyAt("a"), End: keyAt("z")}, fmt.Sprint([]GroupSpan{{2, partition.Span{Start: keyAt("a"), End: m}}, {3, partition.Span{Start: m, End: keyAt("z")}}})},
		{partition.Span{Start: keyAt("a"), End: m}, fmt.Sprint([]GroupSpan{{2, partition.Span{Start: keyAt("a"), End: m}}})},
		{partition.Span{Start: keyAt("z")}, fmt.Sprint([]GroupSpan{{3, partition.Span{Start: keyAt("z")}}})},
	} {
		for _, m := range []*partition.Map{w.shards, cut} {
			if got := fmt.Sprint(SplitByGroup(m, test.span)); got != test.want {
				t.Errorf("%v is cut in %s, want %s", test.span, got, test.want)
			}
		}
	}
}

// Each shard is a part, but those that a range was read across are one.
func TestPartsAreShardsUnlessARangeJoinsThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMap(t)
		var ranges []command.RangeRead
		for range rapid.IntRange(0, 4).Draw(t, "ranges") {
			ends := []partition.Position{drawPosition(t), drawPosition(t)}
			slices.SortFunc(ends, func(a, b partition.Position) int { return bytes.Compare(a, b) })
			for _, p := range SplitByGroup(m, partition.Span{Start: ends[0], End: command.NextPosition(ends[1])}) {
				ranges = append(ranges, command.RangeRead{Start: p.Span.Start, End: p.Span.End})
			}
		}
		parts := NewParticipants(m, ranges)
		var keys []partition.Position
		for range rapid.IntRange(0, 8).Draw(t, "keys") {
			p := drawPosition(t)
			keys = append(keys, p)
			part := parts.ParticipantAt(p)
			part.Reads = append(part.Reads, command.Read{Key: p})
		}
		checkParts(t, m, parts.Sorted(), ranges, keys)
	})
}

// checkParts compares parts with what joining shards one by one makes.
func checkParts(t *rapid.T, m *partition.Map, parts []txn.Participant, ranges []command.RangeRead, keys []partition.Position) {
	joins := func(p partition.Position) bool { // whether a range is on both sides
		for _, r := range ranges {
			if bytes.Compare(r.Start, p) < 0 && (partition.Span{Start: r.Start, End: r.End}).Contains(p) {
				return true
			}
		}
		return false
	}
	var want []txn.Participant
	for s := range m.Shards(partition.Whole) {
		if n := len(want) - 1; n >= 0 && joins(s.Span.Start) {
			want[n].Span.End = s.Span.End
		} else {
			want = append(want, txn.Participant{Span: s.Span})
		}
	}
	at := 0
	for _, w := range want {
		for _, r := range ranges {
			if w.Span.Contains(r.Start) {
				w.Ranges = append(w.Ranges, r)
			}
		}
		for _, p := range keys {
			if w.Span.Contains(p) {
				w.Reads = append(w.Reads, command.Read{Key: p})
			}
		}
		if len(w.Ranges)+len(w.Reads) == 0 {
			continue // nothing is touched
		}
		if at == len(parts) || fmt.Sprint(parts[at]) != fmt.Sprint(w) {
			t.Fatalf("parts %v, want %v at %d", parts, w, at)
		}
		at++
	}
	if at != len(parts) {
		t.Fatalf("parts %v that nothing is for", parts[at:])
	}
}

func drawPosition(t *rapid.T) partition.Position {
	return keyAt(rapid.StringMatching("[a-h]{1,2}").Draw(t, "key"))
}

// drawMap draws a map of three groups whose shards are side by side here and there.
func drawMap(t *rapid.T) *partition.Map {
	var starts []partition.Position
	for k := byte('a'); k <= 'h'; k++ {
		if rapid.Bool().Draw(t, "border") {
			starts = append(starts, dataKeyspace.PrefixSpan([]byte{k}).Start)
		}
	}
	m, err := partition.NewMap(make([]partition.Group, 3), &dataKeyspace, append([]partition.Position{dataKeyspace.Span().Start}, starts...)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range starts {
		assign := partition.Assign{Shard: m.Find(s).ID, To: partition.GroupID(rapid.IntRange(1, 3).Draw(t, "owner"))}
		if assign.To == m.Find(s).Group {
			continue
		}
		if m, err = m.Apply(assign); err != nil {
			t.Fatal(err)
		}
	}
	return m
}
