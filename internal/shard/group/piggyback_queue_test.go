package group

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// openTimeless opens a group whose clock stands still: it logs nothing to reserve time.
func openTimeless(t *testing.T, d *memoryDisk, id partition.GroupID, r ownership.Range) *Group {
	t.Helper()
	g := openGroup(t, d, Options{ID: id, Wall: func() int64 { return 1 << 40 }})
	replaceRange(t, g, ownership.Range{}, r)
	return g
}

// whilePiggybacking calls f when a request waits in the queue, which no batch takes along for
// now.
func whilePiggybacking(t *testing.T, g *Group, c command.Command, f func()) error {
	t.Helper()
	arm := func(armed bool) {
		g.piggyback.mu.Lock()
		defer g.piggyback.mu.Unlock()
		g.piggyback.timerArmed = armed
	}
	arm(true) // by us
	defer arm(false)
	var err error
	var wg sync.WaitGroup
	wg.Go(func() {
		var reply command.Reply
		if reply, err = g.Execute(context.Background(), Request{Piggyback: true, Command: c}); err == nil {
			err = reply.Err
		}
	})
	for waits := false; !waits; {
		g.piggyback.mu.Lock()
		waits = len(g.piggyback.calls) > 0
		g.piggyback.mu.Unlock()
	}
	f()
	wg.Wait()
	return err
}

func TestALateRequestIsDoneBeforeTheNextOneInItsBatch(t *testing.T) {
	d := newMemoryDisk(true)
	a, b := openTimeless(t, d, 1, servingRange("a", "m", 1)), openTimeless(t, d, 2, servingRange("m", "", 1))
	add := func(n int64) command.Command { return &command.Add{Key: positionOf("k"), Delta: n} }
	before := d.commits
	if err := whilePiggybacking(t, a, add(5), func() {
		if n := mustDo(t, a, add(1)).Int; n != 6 {
			t.Errorf("the next one finds %d, want 6", n)
		}
	}); err != nil {
		t.Error(err)
	}
	if err := whilePiggybacking(t, a, add(5), func() {
		replies, err := ExecuteJoint(context.Background(), []SubRequest{{a, Request{Command: add(1)}}, {b, Request{Command: newSet("x", "1")}}})
		if err != nil || replies[0].Int != 12 {
			t.Errorf("of several groups: %v, %v; want 12", replies, err)
		}
	}); err != nil {
		t.Error(err)
	}
	if n := d.commits - before; n != 2 {
		t.Errorf("%d writes, want 2", n)
	}
	if reply, err := a.Execute(context.Background(), Request{Piggyback: true, Command: add(1)}); err != nil || reply.Int != 13 {
		t.Errorf("with nobody to ride along with: %v, %v", reply, err)
	}
}

func TestALateRequestHearsWhatBecameOfItsBatch(t *testing.T) {
	d := newMemoryDisk(true)
	g := openTimeless(t, d, 1, servingRange("a", "m", 1))
	if err := whilePiggybacking(t, g, newSet("x", "1"), func() { mustDo(t, g, newSet("b", "1")) }); !errors.Is(err, ownership.ErrWrongGroup) {
		t.Errorf("a key of another: %v", err)
	}
	if err := whilePiggybacking(t, g, panicCommand{}, func() { _ = tryCommand(g, newSet("b", "1")) }); !errors.Is(err, ErrUnknown) {
		t.Errorf("after a panic: %v", err)
	}
	if _, err := g.Execute(context.Background(), Request{Piggyback: true, Command: newSet("b", "1")}); err == nil {
		t.Error("a poisoned group has executed it")
	}
	d = newMemoryDisk(true)
	g = openTimeless(t, d, 1, servingRange("a", "m", 1))
	d.refuse = errFull
	if err := whilePiggybacking(t, g, newSet("b", "1"), func() { _ = tryCommand(g, newSet("c", "1")) }); !errors.Is(err, errFull) {
		t.Errorf("on a full disk: %v", err)
	}
	d.refuse = ErrUncertain
	if err := whilePiggybacking(t, g, newSet("b", "1"), func() { _ = tryCommand(g, newSet("c", "1")) }); !errors.Is(err, ErrUnknown) {
		t.Errorf("after a failure: %v", err)
	}
	if _, err := g.Execute(context.Background(), Request{Piggyback: true, Command: newSet("b", "1")}); !errors.Is(err, ErrFailed) {
		t.Errorf("of a dead group: %v", err)
	}
	if err := g.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Execute(context.Background(), Request{Piggyback: true, Command: newSet("b", "1")}); !errors.Is(err, ErrClosed) {
		t.Errorf("of a closed group: %v", err)
	}
}

// panicCommand is a command that panics.
type panicCommand struct{}

func (panicCommand) Eval(*command.Env) command.Reply { panic("as asked") }

// urgentSet is a Set that is urgent.
type urgentSet struct{ *command.Set }

func (urgentSet) IsUrgent() bool { return true }

func TestUrgentCommandsUseWhatIsKeptForAFullDisk(t *testing.T) {
	d := newMemoryDisk(true)
	g := openOwner(t, d, 1, servingRange("a", "m", 1))
	d.refuseButUrgent = errFull
	if err := tryCommand(g, urgentSet{newSet("a", "1")}); err != nil {
		t.Errorf("by itself: %v", err)
	}
	batch, errs := []*call{}, make([]error, 3)
	for _, c := range []command.Command{newSet("b", "2"), urgentSet{newSet("c", "3")}, newSet("d", "4")} {
		batch = append(batch, &call{Request: Request{Command: c}})
	}
	if err := g.actor.CallBatch(context.Background(), batch, errs); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(errs[0], errFull) || errs[1] != nil || !errors.Is(errs[2], errFull) {
		t.Errorf("with others: %v", errs)
	}
	for key, want := range map[string]string{"a": "1", "b": "", "c": "3", "d": ""} {
		if got := readText(t, g, key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}

// A group that is closed does not start ahead of the machine's clock when it is opened
// again, though something late comes while it closes: that is executed before the last
// ledger, or refused.
func TestWhatIsLateWhileAGroupClosesReservesNoTime(t *testing.T) {
	d := newMemoryDisk(true)
	wall := &wallClock{}
	wall.ms.Store(1_000_000)
	g, err := Open(d, d, Options{OwnsAll: true, Wall: wall.readMS})
	if err != nil {
		t.Fatal(err)
	}
	late := func(k string) *call {
		c := &call{Request: Request{Command: newSet(k, "1")}, done: make(chan error, 1)}
		g.piggyback.add(c)
		return c
	}
	// What Close does, with something in between.
	before := late("a")
	if err := g.actor.Do(context.Background(), func(x *executor) { g.closeExecutor(x) }); err != nil {
		t.Fatal(err)
	}
	after := late("b")
	g.flushPiggyback()
	if err := <-before.done; err != nil {
		t.Errorf("what was late before: %v", err)
	}
	if err := <-after.done; !errors.Is(err, ErrClosed) {
		t.Errorf("what is late after it: %v", err)
	}
	if err := g.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if g, err = Open(d, d, Options{OwnsAll: true, Wall: wall.readMS}); err != nil {
		t.Fatal(err)
	}
	if now := g.NowMS(); now != wall.readMS() {
		t.Errorf("the clock starts at %d, the machine's is %d", now, wall.readMS())
	}
}
