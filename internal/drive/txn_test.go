package drive

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

func setting(key string) []command.Command {
	return []command.Command{&command.Set{Key: at(key), Value: []byte("1")}}
}

// twoParts begins a transaction in groups 2 and 3.
func (w *small) twoParts(id byte) (*txn.Coordinator, []txn.Effect) {
	return txn.NewCoordinator(txn.Plan{ID: txn.ID{id}, DeadlineMS: 2000, Decider: 2, Parts: []txn.Part{
		{Span: w.span(2), Writes: setting("a")}, {Span: w.span(3), Writes: setting("z")},
	}})
}

// Every call is made twice, and every reply heard twice: the transaction happens
// once.
func TestATransactionIsLedToItsEnd(t *testing.T) {
	w := newSmall(t)
	c, effects := w.twoParts(1)
	answered := 0
	for steps := 0; len(effects) > 0 && steps < 20; steps++ {
		e := effects[0]
		effects = effects[1:]
		if a, ok := e.(txn.Answer); ok {
			if answered++; a.Outcome != txn.Committed {
				t.Fatalf("it is %v: %v", a.Outcome, a.Err)
			}
			if Calls(c, e, w.m) != nil {
				t.Error("an answer takes a call")
			}
			continue
		}
		for _, call := range Calls(c, e, w.m) {
			for range 2 {
				if ev := call.Event(w.do(call.Group, call.Command())); ev != nil {
					effects = append(effects, c.Step(ev)...)
				}
			}
		}
	}
	if c.State() != txn.Done || answered != 1 {
		t.Fatalf("it is %v, and was answered %d times", c.State(), answered)
	}
	for g, key := range map[partition.GroupID]string{2: "a", 3: "z"} {
		if r := w.do(g, &command.Get{Key: at(key)}); string(r.Bytes) != "1" {
			t.Errorf("%s is %q", key, r.Bytes)
		}
	}
}

func TestARefusalIsToldUnlessItPasses(t *testing.T) {
	w := newSmall(t)
	c, effects := w.twoParts(1)
	prepare := Calls(c, effects[0], w.m)[0]
	decide := Calls(c, txn.SendDecide{Commit: true}, w.m)[0]
	resolve := Calls(c, txn.SendResolve{Span: w.span(3)}, w.m)[0]
	collect := Calls(c, txn.SendCollect{}, w.m)[0]
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
		{"prepared", prepare, nil, txn.Prepared{Part: 1}},
		{"a prepare that is refused", prepare, boom, txn.Refused{Part: 1, Err: boom}},
		{"a prepare in a frozen range", prepare, own.ErrFrozen, nil},
		{"a decide that is refused", decide, boom, txn.DecideRefused{Err: boom}},
		{"a decide in a frozen range", decide, own.ErrFrozen, nil},
		{"resolved", resolve, nil, txn.Resolved{Span: w.span(3)}},
		{"a resolve that is refused", resolve, own.ErrWrongGroup, nil},
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
	gone, ok := decide.Gone.(txn.DecideRefused)
	if !ok || !errors.Is(gone.Err, txn.ErrForgotten) || collect.Gone != (txn.Collected{}) || prepare.Gone != nil || resolve.Gone != nil {
		t.Errorf("a removed group means %v, %v, %v and %v", prepare.Gone, decide.Gone, resolve.Gone, collect.Gone)
	}
}

func TestAGroupIsRemovedIfTheMapHadIt(t *testing.T) {
	w := newSmall(t)
	more, err := w.m.Apply(partition.AddGroup{}, partition.SetDraining{Group: 4, Draining: true})
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
		{"one that is there", w.m, 3, false},
		{"one that this map has not heard of", w.m, 4, false},
		{"one that was added", more, 4, false},
		{"one that was removed", fewer, 4, true},
		{"the next one", fewer, 5, false},
		{"none", fewer, 0, false},
	} {
		if got := Removed(test.m, test.g); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

func TestALockThatNobodyLooksAfterIsSettled(t *testing.T) {
	w := newSmall(t)
	c, effects := w.twoParts(1)
	w.do(3, Calls(c, effects[0], w.m)[0].Command())
	due := func(now int64) []txn.Lock {
		locks, err := Due(w.stores[1], w.span(3), now)
		if err != nil {
			t.Fatal(err)
		}
		return locks
	}
	if n := len(due(2000)); n > 0 {
		t.Errorf("%d are due before their deadline", n)
	}
	locks := due(2001)
	if len(locks) != 1 || string(locks[0].Start) != string(at("z")) {
		t.Fatalf("due are %+v", locks)
	}
	if locks, err := Due(w.stores[1], partition.Span{Start: at("zz")}, 9000); err != nil || len(locks) > 0 {
		t.Errorf("in another span: %+v, %v", locks, err)
	}
	ask := func() txn.Outcome { return txn.OutcomeOf(w.do(2, Inquire(locks[0]))) }
	if o := ask(); o != txn.Undecided {
		t.Errorf("before the deadline of its clock the decider says %v", o)
	}
	w.now = 3000
	if _, err := w.places[2].Group.Tend(bg); err != nil {
		t.Fatal(err)
	}
	if o := ask(); o != txn.Aborted {
		t.Fatalf("past the deadline it is %v", o)
	}
	for range 2 {
		to, resolve := Settle(locks[0], txn.Aborted, w.m)
		w.do(to, resolve)
	}
	if n := len(due(9000)); n > 0 {
		t.Errorf("%d locks are left", n)
	}
	if r := w.try(3, Calls(c, effects[0], w.m)[0].Command()); r.Err == nil || len(due(9000)) > 0 {
		t.Errorf("a prepare that comes late: %v", r.Err)
	}
}
