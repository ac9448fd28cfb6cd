package group

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

func between(start, end string) partition.Span {
	s := partition.Span{Start: at(start)}
	if end != "" {
		s.End = at(end)
	}
	return s
}

func serving(start, end string, v partition.Version) own.Range {
	return own.Range{Span: between(start, end), Version: v, State: own.Serving}
}

func reown(t testing.TB, g *Group, expect, become own.Range) {
	t.Helper()
	c := &own.Reown{Become: []own.Range{become}}
	if expect.State != 0 {
		c.Expect = []own.Range{expect}
	}
	do(t, g, c)
}

// owner opens a group of a list with one range.
func owner(t testing.TB, d *disk, id partition.GroupID, r own.Range) *Group {
	t.Helper()
	g := open(t, d, Options{ID: id})
	reown(t, g, own.Range{}, r)
	return g
}

func try(g *Group, c command.Command) error {
	reply, err := g.Try(context.Background(), Request{Command: c})
	return errors.Join(err, reply.Err)
}

func set(key, value string) *command.Set {
	return &command.Set{Key: at(key), Value: []byte(value)}
}

func TestAGroupServesWhatItsListSaysAndNothingElse(t *testing.T) {
	d := newDisk(true)
	g := open(t, d, Options{ID: 1})
	for round := range 2 {
		for key, want := range map[string]error{"b": nil, "x": own.ErrWrongGroup} {
			if round == 0 {
				want = own.ErrWrongGroup // it has nothing yet
			}
			_, _, read := g.Read(context.Background(), at(key), nil)
			reply, peek := g.Peek(context.Background(), at(key), &command.Get{Key: at(key)})
			for what, err := range map[string]error{
				"set": try(g, set(key, "1")), "get": try(g, &command.Get{Key: at(key)}), "read": read, "peek": errors.Join(peek, reply.Err),
			} {
				if !errors.Is(err, want) {
					t.Errorf("round %d: %s of %s: %v, want %v", round, what, key, err, want)
				}
			}
		}
		if round == 0 {
			reown(t, g, own.Range{}, serving("a", "m", 1))
		}
	}
	if err := try(g, &command.Range{Start: at("a"), End: at("z"), Limit: 10}); !errors.Is(err, own.ErrWrongGroup) {
		t.Errorf("a range that is not all its own: %v", err)
	}
	g = open(t, d.crash(), Options{ID: 1})
	if got := text(t, g, "b"); got != "1" || !errors.Is(try(g, set("x", "1")), own.ErrWrongGroup) {
		t.Errorf("after a restart b is %q, or x is served", got)
	}
}

func TestWritersOfAFrozenRangeWaitAndReadersDoNot(t *testing.T) {
	r := serving("a", "m", 1)
	g := owner(t, newDisk(true), 1, r)
	do(t, g, set("b", "1"))
	frozen := r
	frozen.State, frozen.Job = own.Frozen, 9
	reown(t, g, r, frozen)
	if err := try(g, set("b", "2")); !errors.Is(err, own.ErrFrozen) {
		t.Errorf("a write: %v, want ErrFrozen", err)
	}
	// One that changes nothing leaves a record of its request all the same.
	reply, err := g.Try(context.Background(), Request{Command: &command.Delete{Keys: []partition.Position{at("c")}}, Key: at("c"), ID: requestAt(g.NowMS(), 1)})
	if err != nil || !errors.Is(reply.Err, own.ErrFrozen) {
		t.Errorf("a delete of nothing with an id: %v, %v, want ErrFrozen", reply, err)
	}
	if got := text(t, g, "b"); got != "1" {
		t.Errorf("read %q", got)
	}
	var wg sync.WaitGroup
	wg.Go(func() { do(t, g, set("b", "3")) })
	thawed := r
	thawed.Job = 9
	reown(t, g, frozen, thawed)
	wg.Wait()
	if got := text(t, g, "b"); got != "3" {
		t.Errorf("the writer that waited left %q", got)
	}
}

func TestJointRequestsHappenTogetherOrNotAtAll(t *testing.T) {
	d := newDisk(true)
	a, b := owner(t, d, 1, serving("a", "m", 1)), owner(t, d, 2, serving("m", "", 1))
	do(t, a, &command.Add{Key: at("alice"), Delta: 1000})
	do(t, b, &command.Add{Key: at("zoe"), Delta: 1000})
	move := func(n int64) []Piece {
		return []Piece{
			{a, Request{Command: &command.Add{Key: at("alice"), Delta: -n}}},
			{b, Request{Command: &command.Add{Key: at("zoe"), Delta: n}}},
		}
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for range 50 {
				pieces := move(int64(w + 1))
				if w%2 == 0 {
					pieces[0], pieces[1] = pieces[1], pieces[0] // any order
				}
				replies, err := Joint(context.Background(), pieces)
				if err != nil || replies[0].Err != nil || replies[1].Err != nil {
					t.Errorf("%v %v", replies, err)
				}
				do(t, a, &command.Add{Key: at("bob"), Delta: 1}) // others go on
			}
		})
	}
	wg.Wait()
	if x, y := text(t, a, "alice"), text(t, b, "zoe"); x != "500" || y != "1500" {
		t.Errorf("%s and %s, want 500 and 1500", x, y)
	}
	replies, err := Joint(context.Background(), []Piece{
		{a, Request{Command: &command.Add{Key: at("alice"), Delta: 1}}}, {b, Request{Command: &command.Add{Key: at("bob"), Delta: 1}}},
	})
	if err != nil || replies[0].Err != nil || !errors.Is(replies[1].Err, own.ErrWrongGroup) {
		t.Errorf("with a key of another: %v %v", replies, err)
	}
	d.refuse = errors.New("disk full")
	if _, err := Joint(context.Background(), move(1)); !errors.Is(err, d.refuse) {
		t.Errorf("on a full disk: %v", err)
	}
	d.refuse = nil
	if x, y := text(t, a, "alice"), text(t, b, "zoe"); x != "500" || y != "1500" {
		t.Errorf("what was refused has changed something: %s and %s", x, y)
	}
	if reply := do(t, a, &command.Add{Key: at("alice"), Delta: 1}); reply.Int != 501 {
		t.Errorf("the next one says %d", reply.Int)
	}
}

func TestARangeIsHandedOverWithItsVersionsAndItsTime(t *testing.T) {
	d := newDisk(true)
	var wall wallClock
	wall.ms.Store(5000)
	r := serving("a", "m", 1)
	a, b := open(t, d, Options{ID: 1, Wall: wall.read}), open(t, d, Options{ID: 2, Wall: func() int64 { return 100 }})
	reown(t, a, own.Range{}, r)
	reown(t, b, own.Range{}, serving("m", "", 1))
	for i := range 10 {
		do(t, a, set("k", strconv.Itoa(i)))
	}
	row, _, _ := a.Read(context.Background(), at("k"), nil)
	gone, come := r, r
	gone.State, gone.Version, come.Version = own.Foreign, 2, 2
	replies, err := Joint(context.Background(), []Piece{
		{a, Request{Command: &own.Reown{Expect: []own.Range{r}, Become: []own.Range{gone}}}},
		{b, Request{Command: &own.Reown{Become: []own.Range{come}, VersionFloor: row.Version + 1, ClockFloorMS: a.NowMS()}}},
	})
	if err != nil || replies[0].Err != nil || replies[1].Err != nil {
		t.Fatalf("%v %v", replies, err)
	}
	if _, _, err := a.Read(context.Background(), at("k"), nil); !errors.Is(err, own.ErrWrongGroup) {
		t.Errorf("the giver still reads: %v", err)
	}
	if got := text(t, b, "k"); got != "9" {
		t.Errorf("the taker reads %q", got)
	}
	if reply := do(t, b, set("k", "10")); reply.Version <= row.Version {
		t.Errorf("version %d follows %d", reply.Version, row.Version)
	}
	if b.NowMS() < 5000 {
		t.Errorf("time went back to %d", b.NowMS())
	}
}

func TestPlainCommandsWaitForATransactionAndReadersSeeItDecided(t *testing.T) {
	d := newDisk(true)
	outcome := txn.Undecided
	g := open(t, d, Options{ID: 1, Decided: func(context.Context, txn.Lock) (txn.Outcome, error) { return outcome, nil }})
	reown(t, g, own.Range{}, serving("a", "", 1))
	do(t, g, set("k", "old"))
	deadline := g.NowMS() + 60_000
	id := txn.ID{1}
	do(t, g, &txn.Prepare{
		ID: id, Decider: 2, DeadlineMS: deadline,
		Part: txn.Part{Span: between("a", ""), Writes: []command.Command{set("k", "new")}},
	})
	if err := try(g, set("k", "other")); !errors.Is(err, txn.ErrLocked) {
		t.Errorf("a write under the lock: %v", err)
	}
	if got := text(t, g, "k"); got != "old" {
		t.Errorf("undecided: read %q", got)
	}
	if outcome = txn.Committed; text(t, g, "k") != "new" {
		t.Errorf("decided: read %q", text(t, g, "k"))
	}
	var wg sync.WaitGroup
	wg.Go(func() { do(t, g, &command.Append{Key: at("k"), Tail: []byte("er")}) })
	do(t, g, &txn.Resolve{ID: id, Span: between("a", ""), Commit: true, DeadlineMS: deadline})
	wg.Wait()
	if got := text(t, g, "k"); got != "newer" {
		t.Errorf("resolved: read %q", got)
	}
	g = open(t, d.crash(), Options{ID: 1})
	if got := text(t, g, "k"); got != "newer" || g.visible.locked.Load() != 0 {
		t.Errorf("after a restart: %q with %d locks", got, g.visible.locked.Load())
	}
}

func TestLocksAreThereAfterARestartAndTakenBackWithARefusedBatch(t *testing.T) {
	d := newDisk(true)
	g := owner(t, d, 1, serving("a", "", 1))
	prepare := func(n byte, key string) error {
		return try(g, &txn.Prepare{
			ID: txn.ID{n}, Decider: 2, DeadlineMS: g.NowMS() + 60_000,
			Part: txn.Part{Span: between("a", ""), Writes: []command.Command{set(key, "new")}},
		})
	}
	d.refuse = errors.New("disk full")
	if err := prepare(1, "k"); !errors.Is(err, d.refuse) {
		t.Fatal(err)
	}
	d.refuse = nil
	if err := try(g, set("k", "1")); err != nil {
		t.Errorf("a lock is left of what was refused: %v", err)
	}
	if err := prepare(2, "k"); err != nil {
		t.Fatal(err)
	}
	g = open(t, d.crash(), Options{ID: 1})
	if err := try(g, set("k", "2")); !errors.Is(err, txn.ErrLocked) {
		t.Errorf("after a restart: %v, want ErrLocked", err)
	}
	if err := try(g, set(fmt.Sprint("k", 2), "2")); err != nil {
		t.Errorf("another key: %v", err)
	}
}

func TestASplitLeavesNoLockOnBothSides(t *testing.T) {
	whole := serving("a", "", 1)
	g := owner(t, newDisk(true), 1, whole)
	do(t, g, &txn.Prepare{
		ID: txn.ID{1}, Decider: 2, DeadlineMS: g.NowMS() + 60_000,
		Part: txn.Part{Span: between("a", ""), Ranges: []command.RangeRead{{Start: at("b"), End: at("x")}}, Writes: []command.Command{set("y", "1")}},
	})
	left, right := serving("a", "m", 2), serving("m", "", 2)
	do(t, g, &own.Reown{Expect: []own.Range{whole}, Become: []own.Range{left, right}})
	gone := right
	gone.State, gone.Version = own.Foreign, 3
	reown(t, g, right, gone)
	if err := try(g, set("c", "1")); !errors.Is(err, txn.ErrLocked) {
		t.Errorf("the left half of the range is not locked: %v", err)
	}
	if n := g.visible.locked.Load(); n != 1 {
		t.Errorf("%d locks are left, want that of the left half", n)
	}
}
