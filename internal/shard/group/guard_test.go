package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/partition"
)

func spanBetween(start, end string) partition.Span {
	s := partition.Span{Start: positionOf(start)}
	if end != "" {
		s.End = positionOf(end)
	}
	return s
}

func servingRange(start, end string, v partition.Version) ownership.Range {
	return ownership.Range{Span: spanBetween(start, end), Version: v, State: ownership.Serving}
}

func replaceRange(t testing.TB, g *Group, expect, become ownership.Range) {
	t.Helper()
	c := &ownership.ChangeOwnership{Become: []ownership.Range{become}}
	if expect.State != 0 {
		c.Expect = []ownership.Range{expect}
	}
	mustDo(t, g, c)
}

// openOwner opens a group of a list with one range.
func openOwner(t testing.TB, d *memoryDisk, id partition.GroupID, r ownership.Range) *Group {
	t.Helper()
	g := openGroup(t, d, Options{ID: id})
	replaceRange(t, g, ownership.Range{}, r)
	return g
}

func tryCommand(g *Group, c command.Command) error {
	reply, err := g.Execute(context.Background(), Request{NoWait: true, Command: c})
	return errors.Join(err, reply.Err)
}

func newSet(key, value string) *command.Set {
	return &command.Set{Key: positionOf(key), Value: []byte(value)}
}

func TestAGroupServesWhatItsListSaysAndNothingElse(t *testing.T) {
	d := newMemoryDisk(true)
	g := openGroup(t, d, Options{ID: 1})
	for round := range 2 {
		for key, want := range map[string]error{"b": nil, "x": ownership.ErrWrongGroup} {
			if round == 0 {
				want = ownership.ErrWrongGroup // it has nothing yet
			}
			_, _, read := g.Read(context.Background(), positionOf(key), nil)
			reply, peek := g.EvalReadOnly(context.Background(), positionOf(key), &command.Get{Key: positionOf(key)})
			for what, err := range map[string]error{
				"set": tryCommand(g, newSet(key, "1")), "get": tryCommand(g, &command.Get{Key: positionOf(key)}), "read": read, "peek": errors.Join(peek, reply.Err),
			} {
				if !errors.Is(err, want) {
					t.Errorf("round %d: %s of %s: %v, want %v", round, what, key, err, want)
				}
			}
		}
		if round == 0 {
			replaceRange(t, g, ownership.Range{}, servingRange("a", "m", 1))
		}
	}
	if err := tryCommand(g, &command.Range{Start: positionOf("a"), End: positionOf("z"), Limit: 10}); !errors.Is(err, ownership.ErrWrongGroup) {
		t.Errorf("a range that is not all its own: %v", err)
	}
	g = openGroup(t, d.crashCopy(), Options{ID: 1})
	if got := readText(t, g, "b"); got != "1" || !errors.Is(tryCommand(g, newSet("x", "1")), ownership.ErrWrongGroup) {
		t.Errorf("after a restart b is %q, or x is served", got)
	}
}

func TestWritersOfAFrozenRangeWaitAndReadersDoNot(t *testing.T) {
	r := servingRange("a", "m", 1)
	g := openOwner(t, newMemoryDisk(true), 1, r)
	mustDo(t, g, newSet("b", "1"))
	frozen := r
	frozen.State, frozen.Job = ownership.Frozen, 9
	replaceRange(t, g, r, frozen)
	if err := tryCommand(g, newSet("b", "2")); !errors.Is(err, ownership.ErrFrozen) {
		t.Errorf("a write: %v, want ErrFrozen", err)
	}
	// One that changes nothing leaves a record of its request all the same.
	reply, err := g.Execute(context.Background(), Request{NoWait: true, Command: &command.Delete{Keys: []partition.Position{positionOf("c")}}, Key: positionOf("c"), ID: requestAt(g.NowMS(), 1)})
	if err != nil || !errors.Is(reply.Err, ownership.ErrFrozen) {
		t.Errorf("a delete of nothing with an id: %v, %v, want ErrFrozen", reply, err)
	}
	if got := readText(t, g, "b"); got != "1" {
		t.Errorf("read %q", got)
	}
	var wg sync.WaitGroup
	wg.Go(func() { mustDo(t, g, newSet("b", "3")) })
	thawed := r
	thawed.Job = 9
	replaceRange(t, g, frozen, thawed)
	wg.Wait()
	if got := readText(t, g, "b"); got != "3" {
		t.Errorf("the writer that waited left %q", got)
	}
}

func TestJointRequestsHappenTogetherOrNotAtAll(t *testing.T) {
	d := newMemoryDisk(true)
	a, b := openOwner(t, d, 1, servingRange("a", "m", 1)), openOwner(t, d, 2, servingRange("m", "", 1))
	mustDo(t, a, &command.Add{Key: positionOf("alice"), Delta: 1000})
	mustDo(t, b, &command.Add{Key: positionOf("zoe"), Delta: 1000})
	move := func(n int64) []SubRequest {
		return []SubRequest{
			{a, Request{Command: &command.Add{Key: positionOf("alice"), Delta: -n}}},
			{b, Request{Command: &command.Add{Key: positionOf("zoe"), Delta: n}}},
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
				replies, err := ExecuteJoint(context.Background(), pieces)
				if err != nil || replies[0].Err != nil || replies[1].Err != nil {
					t.Errorf("%v %v", replies, err)
				}
				mustDo(t, a, &command.Add{Key: positionOf("bob"), Delta: 1}) // others go on
			}
		})
	}
	wg.Wait()
	if x, y := readText(t, a, "alice"), readText(t, b, "zoe"); x != "500" || y != "1500" {
		t.Errorf("%s and %s, want 500 and 1500", x, y)
	}
	replies, err := ExecuteJoint(context.Background(), []SubRequest{
		{a, Request{Command: &command.Add{Key: positionOf("alice"), Delta: 1}}}, {b, Request{Command: &command.Add{Key: positionOf("bob"), Delta: 1}}},
	})
	if err != nil || replies[0].Err != nil || !errors.Is(replies[1].Err, ownership.ErrWrongGroup) {
		t.Errorf("with a key of another: %v %v", replies, err)
	}
	d.refuse = errors.New("disk full")
	if _, err := ExecuteJoint(context.Background(), move(1)); !errors.Is(err, d.refuse) {
		t.Errorf("on a full disk: %v", err)
	}
	d.refuse = nil
	if x, y := readText(t, a, "alice"), readText(t, b, "zoe"); x != "500" || y != "1500" {
		t.Errorf("what was refused has changed something: %s and %s", x, y)
	}
	if reply := mustDo(t, a, &command.Add{Key: positionOf("alice"), Delta: 1}); reply.Int != 501 {
		t.Errorf("the next one says %d", reply.Int)
	}
}

func TestARangeIsHandedOverWithItsVersionsAndItsTime(t *testing.T) {
	d := newMemoryDisk(true)
	var wall wallClock
	wall.ms.Store(5000)
	r := servingRange("a", "m", 1)
	a, b := openGroup(t, d, Options{ID: 1, Wall: wall.readMS}), openGroup(t, d, Options{ID: 2, Wall: func() int64 { return 100 }})
	replaceRange(t, a, ownership.Range{}, r)
	replaceRange(t, b, ownership.Range{}, servingRange("m", "", 1))
	for i := range 10 {
		mustDo(t, a, newSet("k", strconv.Itoa(i)))
	}
	row, _, _ := a.Read(context.Background(), positionOf("k"), nil)
	gone, come := r, r
	gone.State, gone.Version, come.Version = ownership.Foreign, 2, 2
	replies, err := ExecuteJoint(context.Background(), []SubRequest{
		{a, Request{Command: &ownership.ChangeOwnership{Expect: []ownership.Range{r}, Become: []ownership.Range{gone}}}},
		{b, Request{Command: &ownership.ChangeOwnership{Become: []ownership.Range{come}, VersionFloor: row.Version + 1, ClockFloorMS: a.NowMS()}}},
	})
	if err != nil || replies[0].Err != nil || replies[1].Err != nil {
		t.Fatalf("%v %v", replies, err)
	}
	if _, _, err := a.Read(context.Background(), positionOf("k"), nil); !errors.Is(err, ownership.ErrWrongGroup) {
		t.Errorf("the giver still reads: %v", err)
	}
	if got := readText(t, b, "k"); got != "9" {
		t.Errorf("the taker reads %q", got)
	}
	if reply := mustDo(t, b, newSet("k", "10")); reply.Version <= row.Version {
		t.Errorf("version %d follows %d", reply.Version, row.Version)
	}
	if b.NowMS() < 5000 {
		t.Errorf("time went back to %d", b.NowMS())
	}
}

func TestPlainCommandsWaitForATransactionAndReadersSeeItDecided(t *testing.T) {
	d := newMemoryDisk(true)
	outcome := txn.Undecided
	g := openGroup(t, d, Options{ID: 1, LookupOutcome: func(context.Context, txn.Lock) (txn.Outcome, error) { return outcome, nil }})
	replaceRange(t, g, ownership.Range{}, servingRange("a", "", 1))
	mustDo(t, g, newSet("k", "old"))
	deadline := g.NowMS() + 60_000
	id := txn.ID{1}
	mustDo(t, g, &txn.Prepare{
		ID: id, CoordinatorGroup: 2, DeadlineMS: deadline,
		Participant: txn.Participant{Span: spanBetween("a", ""), Writes: []command.Command{newSet("k", "new")}},
	})
	if err := tryCommand(g, newSet("k", "other")); !errors.Is(err, txn.ErrLocked) {
		t.Errorf("a write under the lock: %v", err)
	}
	if got := readText(t, g, "k"); got != "old" {
		t.Errorf("undecided: read %q", got)
	}
	if outcome = txn.Committed; readText(t, g, "k") != "new" {
		t.Errorf("decided: read %q", readText(t, g, "k"))
	}
	var wg sync.WaitGroup
	wg.Go(func() { mustDo(t, g, &command.Append{Key: positionOf("k"), Suffix: []byte("er")}) })
	mustDo(t, g, &txn.Resolve{ID: id, Span: spanBetween("a", ""), Commit: true, DeadlineMS: deadline})
	wg.Wait()
	if got := readText(t, g, "k"); got != "newer" {
		t.Errorf("resolved: read %q", got)
	}
	g = openGroup(t, d.crashCopy(), Options{ID: 1})
	if got := readText(t, g, "k"); got != "newer" || g.published.lockCount.Load() != 0 {
		t.Errorf("after a restart: %q with %d locks", got, g.published.lockCount.Load())
	}
}

func TestLocksAreThereAfterARestartAndTakenBackWithARefusedBatch(t *testing.T) {
	d := newMemoryDisk(true)
	g := openOwner(t, d, 1, servingRange("a", "", 1))
	prepare := func(n byte, key string) error {
		return tryCommand(g, &txn.Prepare{
			ID: txn.ID{n}, CoordinatorGroup: 2, DeadlineMS: g.NowMS() + 60_000,
			Participant: txn.Participant{Span: spanBetween("a", ""), Writes: []command.Command{newSet(key, "new")}},
		})
	}
	d.refuse = errors.New("disk full")
	if err := prepare(1, "k"); !errors.Is(err, d.refuse) {
		t.Fatal(err)
	}
	d.refuse = nil
	if err := tryCommand(g, newSet("k", "1")); err != nil {
		t.Errorf("a lock is left of what was refused: %v", err)
	}
	if err := prepare(2, "k"); err != nil {
		t.Fatal(err)
	}
	g = openGroup(t, d.crashCopy(), Options{ID: 1})
	if err := tryCommand(g, newSet("k", "2")); !errors.Is(err, txn.ErrLocked) {
		t.Errorf("after a restart: %v, want ErrLocked", err)
	}
	if err := tryCommand(g, newSet(fmt.Sprint("k", 2), "2")); err != nil {
		t.Errorf("another key: %v", err)
	}
}

func TestASplitLeavesNoLockOnBothSides(t *testing.T) {
	whole := servingRange("a", "", 1)
	g := openOwner(t, newMemoryDisk(true), 1, whole)
	mustDo(t, g, &txn.Prepare{
		ID: txn.ID{1}, CoordinatorGroup: 2, DeadlineMS: g.NowMS() + 60_000,
		Participant: txn.Participant{Span: spanBetween("a", ""), Ranges: []command.RangeRead{{Start: positionOf("b"), End: positionOf("x")}}, Writes: []command.Command{newSet("y", "1")}},
	})
	left, right := servingRange("a", "m", 2), servingRange("m", "", 2)
	mustDo(t, g, &ownership.ChangeOwnership{Expect: []ownership.Range{whole}, Become: []ownership.Range{left, right}})
	gone := right
	gone.State, gone.Version = ownership.Foreign, 3
	replaceRange(t, g, right, gone)
	if err := tryCommand(g, newSet("c", "1")); !errors.Is(err, txn.ErrLocked) {
		t.Errorf("the left half of the range is not locked: %v", err)
	}
	if n := g.published.lockCount.Load(); n != 1 {
		t.Errorf("%d locks are left, want that of the left half", n)
	}
}

// ownershipGroup is a group whose ranges come, go and are cut while keys are locked.
type ownershipGroup struct {
	*Group
	disk    *memoryDisk
	version partition.Version
	next    byte
}

// changeRange gives ranges another form.
func (p *ownershipGroup) changeRange(t *rapid.T) {
	list := slices.Collect(p.OwnershipTable().All())
	r := list[rapid.IntRange(0, len(list)-1).Draw(t, "range")]
	p.version++
	become := r
	become.Version = p.version
	made := []ownership.Range{become}
	switch kind := rapid.IntRange(0, 4).Draw(t, "change"); {
	case kind == 0:
		made[0].State = ownership.Foreign
	case kind == 1:
		made[0].State = ownership.Serving
	case kind == 2:
		made[0].State = ownership.Frozen
	case r.State != ownership.Serving:
	case kind == 3: // all of it goes, without a record
		made = nil
		defer p.changeOwnership(t, nil, []ownership.Range{{Span: r.Span, Version: p.version, State: ownership.Foreign}})
	default:
		middle := positionOf(fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "middle")))
		if !r.Span.Contains(middle) || string(middle) == string(r.Span.Start) {
			return
		}
		left, right := become, become
		left.Span.End, right.Span.Start = middle, middle
		made = []ownership.Range{left, right}
	}
	p.changeOwnership(t, []ownership.Range{r}, made)
}

func (p *ownershipGroup) changeOwnership(t *rapid.T, expect, become []ownership.Range) {
	reply, err := p.Execute(context.Background(), Request{NoWait: true, Command: &ownership.ChangeOwnership{Expect: expect, Become: become}})
	if err != nil || reply.Err != nil {
		t.Fatal(err, reply.Err)
	}
}

// prepareTxn prepares a transaction, as far as that is possible.
func (p *ownershipGroup) prepareTxn(t *rapid.T) {
	key := fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "key"))
	r, ok := p.OwnershipTable().Find(positionOf(key))
	if !ok || r.State != ownership.Serving {
		return
	}
	p.next++
	part := txn.Participant{Span: r.Span, Writes: []command.Command{newSet(key, "new")}}
	if rapid.Bool().Draw(t, "range") {
		part.Ranges = []command.RangeRead{{Start: positionOf(key), End: r.Span.End}}
	}
	_, err := p.Execute(context.Background(), Request{NoWait: true, Command: &txn.Prepare{ID: txn.ID{p.next}, CoordinatorGroup: 9, DeadlineMS: p.NowMS() + 60_000, Participant: part}})
	if err != nil {
		t.Fatal(err)
	}
}

func (p *ownershipGroup) resolveTxn(t *rapid.T) {
	id := txn.ID{byte(rapid.IntRange(0, int(p.next)).Draw(t, "transaction"))}
	for r := range p.OwnershipTable().All() {
		if r.State == ownership.Serving {
			c := &txn.Resolve{ID: id, Span: r.Span, Commit: id[0]%2 == 0, DeadlineMS: p.NowMS()}
			if _, err := p.Execute(context.Background(), Request{NoWait: true, Command: c}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// What is locked is what the records of the ranges have, and readers see just that.
func TestLocksFollowTheRangesThatComeAndGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newMemoryDisk(true)
		g, err := Open(d, d, Options{ID: 1})
		if err != nil {
			t.Fatal(err)
		}
		p := &ownershipGroup{Group: g, disk: d}
		p.changeOwnership(t, nil, []ownership.Range{{Span: spanBetween("0", ""), State: ownership.Serving}})
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				p.prepareTxn(t)
			case 2:
				p.changeRange(t)
			default:
				p.resolveTxn(t)
			}
			p.compareLocks(t)
		}
	})
}

// compareLocks compares the locks with what a restart finds.
func (p *ownershipGroup) compareLocks(t *rapid.T) {
	fresh, err := openGuard(p.disk, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	want := formatLocks(fresh.locks)
	if err := p.actor.Do(context.Background(), func(x *executor) {
		if got := formatLocks(x.guard.locks); !slices.Equal(got, want) {
			t.Fatalf("locked are\n%q, a restart finds\n%q", got, want)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if got := formatLocks(p.published.locks); !slices.Equal(got, want) || int(p.published.lockCount.Load()) != len(want) {
		t.Fatalf("readers see\n%q, not\n%q", got, want)
	}
}

func formatLocks(l *txn.Locks) (found []string) {
	for _, lock := range l.ListAll() {
		found = append(found, fmt.Sprintf("%x %q %q %v %v", lock.Txn[:1], lock.Start, lock.End, lock.Write, lock.Range))
	}
	return found
}

// All keys that expire are searched for when a range has come, which takes as long as there are
// such. With a split, no range comes.
func TestOnlyARangeThatComesMakesTheGroupLookForWhatExpires(t *testing.T) {
	whole := servingRange("a", "", 1)
	g := openOwner(t, newMemoryDisk(true), 1, whole)
	if _, err := g.Housekeep(context.Background()); err != nil {
		t.Fatal(err)
	}
	horizon := func() (at int64) {
		if err := g.actor.Do(context.Background(), func(x *executor) { at = x.expiries.horizon }); err != nil {
			t.Fatal(err)
		}
		return at
	}
	left, right := servingRange("a", "m", 2), servingRange("m", "", 2)
	mustDo(t, g, &ownership.ChangeOwnership{Expect: []ownership.Range{whole}, Become: []ownership.Range{left, right}})
	if horizon() == unknownHorizon {
		t.Error("a split makes it look for what expires")
	}
	gone := right
	gone.State, gone.Version = ownership.Foreign, 3
	replaceRange(t, g, right, gone)
	if horizon() == unknownHorizon {
		t.Error("a range that goes makes it look for what expires")
	}
	right.Version = 4
	replaceRange(t, g, gone, right)
	if horizon() != unknownHorizon {
		t.Error("what has come may expire, and nobody looks")
	}
}

// memoryLog is a log and a state that take no time: what is measured is the group. It
// cannot be scanned.
type memoryLog map[string][]byte

func (m memoryLog) Commit(_ bool, effects []byte) error {
	batch, err := effect.Parse(effects)
	for _, op := range batch.All() {
		if delete(m, string(op.Key)); !op.Delete {
			m[string(op.Key)] = bytes.Clone(op.Value)
		}
	}
	return err
}

func (m memoryLog) Get(key, dst []byte) ([]byte, bool, error) {
	v, ok := m[string(key)]
	return append(dst, v...), ok, nil
}

func (m memoryLog) Sync() error                                                    { return nil }
func (m memoryLog) ReadBarrier(context.Context) error                              { return nil }
func (m memoryLog) Scan(_, _ []byte, _ bool, _ func(key, value []byte) bool) error { return nil }

// What a command costs in a group with many ranges, and with many locks.
func BenchmarkMany(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		for _, locks := range []int{0, 10_000} {
			m := memoryLog{}
			g, err := Open(m, m, Options{ID: 1})
			if err != nil {
				b.Fatal(err)
			}
			key := func(i int) string { return fmt.Sprintf("customer/%08d/order", i*7919) }
			ranges := make([]ownership.Range, n)
			for i := range ranges {
				if ranges[i] = servingRange(key(i), key(i+1), 1); i == n-1 {
					ranges[i].Span.End = nil
				}
			}
			mustDo(b, g, &ownership.ChangeOwnership{Become: ranges})
			for i := range locks {
				s := ranges[n-1].Span
				mustDo(b, g, &txn.Prepare{
					ID: txn.ID{1, byte(i >> 8), byte(i)}, CoordinatorGroup: 9, DeadlineMS: g.NowMS() + 1e9,
					Participant: txn.Participant{Span: s, Writes: []command.Command{newSet(fmt.Sprintf("%s/%06d", key(n-1), i), "x")}},
				})
			}
			name := fmt.Sprintf("ranges=%d/locks=%d", n, locks)
			b.Run("do=set/"+name, func(b *testing.B) {
				c := newSet(key(3)+"/x", "value")
				for b.Loop() {
					mustDo(b, g, c)
				}
			})
			b.Run("do=split+merge/"+name, func(b *testing.B) {
				whole := ranges[5]
				left, right := servingRange(key(5), key(5)+"m", 2), servingRange(key(5)+"m", key(6), 2)
				for b.Loop() {
					mustDo(b, g, &ownership.ChangeOwnership{Expect: []ownership.Range{whole}, Become: []ownership.Range{left, right}})
					mustDo(b, g, &ownership.ChangeOwnership{Expect: []ownership.Range{left, right}, Become: []ownership.Range{whole}})
				}
			})
			b.Run("do=prepare+resolve/"+name, func(b *testing.B) {
				p := &txn.Prepare{
					CoordinatorGroup: 9, DeadlineMS: g.NowMS() + 1e9,
					Participant: txn.Participant{Span: ranges[5].Span, Writes: []command.Command{newSet(key(5)+"/x", "x")}},
				}
				for i := 0; b.Loop(); i++ {
					p.ID = txn.ID{2, byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)}
					mustDo(b, g, p)
					mustDo(b, g, &txn.Resolve{ID: p.ID, Span: p.Participant.Span, Commit: true, DeadlineMS: p.DeadlineMS})
				}
			})
		}
	}
}
