package group

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// jointFixture are groups of one log, each with a letter, and the requests that they get
// together.
type jointFixture struct {
	testing.TB
	disk   *memoryDisk
	groups []*Group
	nowMS  int64
}

func newJointFixture(t testing.TB, groups int) *jointFixture {
	j := &jointFixture{TB: t, disk: newMemoryDisk(true), nowMS: 1 << 40}
	joints := NewJointQueue()
	for i := range groups {
		g := openGroup(t, j.disk, Options{ID: partition.GroupID(i + 1), JointQueue: joints, Wall: func() int64 { return j.nowMS }})
		replaceRange(t, g, ownership.Range{}, servingRange(groupLetter(i), groupLetter(i+1), 1))
		j.groups = append(j.groups, g)
	}
	return j
}

func groupLetter(i int) string { return string(rune('a' + i)) }

// newTransfer makes a request that takes from a group and gives to another.
func (j *jointFixture) newTransfer(from, to int, n int64) []SubRequest {
	add := func(g int, n int64) SubRequest {
		return SubRequest{j.groups[g], Request{Command: &command.Add{Key: positionOf(groupLetter(g)), Delta: n}, Key: positionOf(groupLetter(g))}}
	}
	return []SubRequest{add(from, -n), add(to, n)}
}

func (j *jointFixture) transferCall(from, to int, n int64) *jointCall {
	return newJointCall(j.newTransfer(from, to, n))
}

// failingCall makes one whose second part is of a key that its group does not have.
func (j *jointFixture) failingCall(from, to int) *jointCall {
	c := j.transferCall(from, to, 1000)
	c.parts[1].Command = &command.Add{Key: positionOf("zzz"), Delta: 1}
	return c
}

// hasFailed reports whether a part of a joint request has failed.
func (j *jointCall) hasFailed() bool {
	return slices.ContainsFunc(j.listReplies(), func(r command.Reply) bool { return r.Err != nil })
}

// checkValues checks what the groups have.
func (j *jointFixture) checkValues(want ...int64) {
	j.Helper()
	for i, n := range want {
		if got := readText(j, j.groups[i], groupLetter(i)); got != strconv.FormatInt(n, 10) {
			j.Errorf("group %d has %q, want %d", i, got, n)
		}
	}
}

func TestJointRequestsOfOneBatchShareAWriteAndFailAlone(t *testing.T) {
	j := newJointFixture(t, 3)
	before := j.disk.commits
	calls := []*jointCall{j.transferCall(0, 1, 5), j.failingCall(0, 1), j.transferCall(1, 2, 3), j.failingCall(2, 0), j.transferCall(2, 0, 1)}
	executeJoint(context.Background(), calls)
	for i, c := range calls {
		if c.err != nil || c.hasFailed() != (i == 1 || i == 3) {
			t.Errorf("request %d: %v %v", i, c.listReplies(), c.err)
		}
	}
	if n := calls[4].parts[0].reply.Int; n != 2 {
		t.Errorf("the last one finds %d, want 2: it comes after the others", n)
	}
	if n := j.disk.commits - before; n != 1 {
		t.Errorf("%d writes, want 1", n)
	}
	j.checkValues(-4, 2, 2)
}

func TestARequestOfSeveralGroupsIsExecutedOnceInABatchToo(t *testing.T) {
	j := newJointFixture(t, 2)
	named := func(id RequestID) *jointCall {
		pieces := j.newTransfer(0, 1, 1)
		pieces[1].Request.ID = id
		return newJointCall(pieces)
	}
	a, b := requestAt(j.nowMS, 1), requestAt(j.nowMS, 2)
	failed := named(b)
	failed.parts[0].Command = &command.Add{Key: positionOf("zzz"), Delta: 1}
	calls := []*jointCall{named(a), failed, named(b), named(a), named(b), named(a)}
	executeJoint(context.Background(), calls)
	for i, c := range calls {
		if c.err != nil || c.replayed != (i > 2) || c.hasFailed() != (i == 1) {
			t.Errorf("request %d: recalled %v, %v %v", i, c.replayed, c.listReplies(), c.err)
		}
	}
	j.checkValues(-2, 2)
	j.disk.refuse = errFull
	calls = []*jointCall{j.transferCall(0, 1, 1), named(a), j.failingCall(0, 1)}
	executeJoint(context.Background(), calls)
	if !errors.Is(calls[0].err, errFull) || calls[1].err != nil || !calls[1].replayed || !errors.Is(calls[2].err, errFull) {
		t.Errorf("on a full disk: %v, %v, %v", calls[0].err, calls[1].err, calls[2].err)
	}
	j.disk.refuse = nil
	executeJoint(context.Background(), []*jointCall{j.transferCall(0, 1, 1)})
	j.checkValues(-3, 3)
}

func TestJointRequestsOfALogThatFailsAreUnknown(t *testing.T) {
	j := newJointFixture(t, 2)
	j.disk.refuse = ErrUncertain
	calls := []*jointCall{j.transferCall(0, 1, 1), j.failingCall(0, 1)}
	executeJoint(context.Background(), calls)
	if !errors.Is(calls[0].err, ErrUnknown) || errors.Is(calls[1].err, ErrUnknown) || !errors.Is(calls[1].err, ErrFailed) {
		t.Errorf("%v and %v", calls[0].err, calls[1].err)
	}
	if _, err := ExecuteJoint(context.Background(), j.newTransfer(0, 1, 1)); !errors.Is(err, ErrFailed) || errors.Is(err, ErrUnknown) {
		t.Errorf("the next: %v", err)
	}
}

func TestAGroupThatIsClosedRefusesOnlyItsOwn(t *testing.T) {
	j := newJointFixture(t, 3)
	if err := j.groups[2].Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	calls := []*jointCall{j.transferCall(0, 1, 1), j.transferCall(1, 2, 1), j.transferCall(0, 1, 1)}
	executeJoint(context.Background(), calls)
	if calls[0].err != nil || calls[2].err != nil || !errors.Is(calls[1].err, ErrClosed) {
		t.Errorf("%v, %v, %v", calls[0].err, calls[1].err, calls[2].err)
	}
	j.checkValues(-2, 2)
}

func TestManyJointRequestsLoseNothingAndShareWrites(t *testing.T) {
	j := newJointFixture(t, 4)
	j.disk.before = func() { time.Sleep(100 * time.Microsecond) }
	before := j.disk.commits
	const clients, each = 16, 25
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range each {
				from := rand.IntN(4)
				replies, err := ExecuteJoint(context.Background(), j.newTransfer(from, (from+1+rand.IntN(3))%4, 1))
				if err != nil || replies[0].Err != nil || replies[1].Err != nil {
					t.Errorf("%v %v", replies, err)
				}
				mustDo(t, j.groups[from], &command.Add{Key: positionOf(groupLetter(from) + "x"), Delta: 1}) // others go on
			}
		})
	}
	wg.Wait()
	sum := 0
	for i := range 4 {
		n, _ := strconv.Atoi(readText(t, j.groups[i], groupLetter(i)))
		sum += n
	}
	if n := j.disk.commits - before; sum != 0 || n >= 2*clients*each {
		t.Errorf("%d are lost, %d writes of %d requests", sum, n, 2*clients*each)
	}
}

func TestWhoLeavesAJointRequestKnowsThatItDidNotHappen(t *testing.T) {
	j := newJointFixture(t, 2)
	entered, leave := make(chan struct{}), make(chan struct{})
	j.disk.before = sync.OnceFunc(func() {
		close(entered)
		<-leave
	})
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = ExecuteJoint(context.Background(), j.newTransfer(0, 1, 1)) })
	<-entered
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := ExecuteJoint(ctx, j.newTransfer(0, 1, 1)); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnknown) {
		t.Errorf("who left hears %v", err)
	}
	close(leave)
	wg.Wait()
	if _, err := ExecuteJoint(context.Background(), j.newTransfer(0, 1, 1)); err != nil {
		t.Error(err)
	}
	j.checkValues(-2, 2)
}

// A group may fail for good while the requests of a joint batch are admitted: then
// nothing of one that was admitted before is committed.
func TestAJointRequestIsWholeThoughAGroupDiesAtAnothersAdmission(t *testing.T) {
	j := newJointFixture(t, 2)
	taker := newJointCall([]SubRequest{{j.groups[0], Request{Command: &ownership.ChangeOwnership{ClockFloorMS: j.nowMS + 1<<30}}}})
	first := j.transferCall(0, 1, 5)
	n := 0
	j.disk.before = func() { // the first write, which is that of the admission, fails
		if n++; n == 1 {
			j.disk.refuse, j.disk.commits = ErrUncertain, 0
		} else {
			j.disk.refuse = nil
		}
	}
	executeJoint(context.Background(), []*jointCall{first, taker})
	j.disk.before, j.disk.refuse = nil, nil
	if got := readText(t, j.groups[1], "b"); first.err == nil && !first.hasFailed() || got != "" {
		t.Errorf("it was told %v %v; group 2 has %q, group 1 has died without its half", first.listReplies(), first.err, got)
	}
}

// A caller that reads a group while it retires never gets the error that it is closed.
func TestWhoIsReadyWhileAGroupRetiresHearsNothingOfIt(t *testing.T) {
	ctx := context.Background()
	var closed atomic.Int64
	for range 300 {
		d := newMemoryDisk(true)
		g := openOwner(t, d, 2, servingRange("m", "", 1))
		was := servingRange("m", "", 1)
		gone := was
		gone.State, gone.Version = ownership.Foreign, 2
		replaceRange(t, g, was, gone)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for !g.retired.Load() {
					if err := g.ReadBarrier(ctx); errors.Is(err, ErrClosed) {
						closed.Add(1)
						return
					}
					runtime.Gosched()
				}
			})
		}
		_ = g.Retire(ctx)
		wg.Wait()
	}
	if closed := closed.Load(); closed > 0 {
		t.Errorf("%d readers heard that it is closed", closed)
	}
}

// Requests that free space are executed on a full disk, whatever other requests are refused with
// them: writers of the group, or of several.
func TestUrgentRequestsFindRoomOnAFullDisk(t *testing.T) {
	d := newMemoryDisk(true)
	joints := NewJointQueue()
	var groups []*Group
	for i := range 2 {
		g, err := Open(d, d, Options{ID: partition.GroupID(i + 1), JointQueue: joints})
		if err != nil {
			t.Fatal(err)
		}
		replaceRange(t, g, ownership.Range{}, servingRange(groupLetter(i), groupLetter(i+1), 1))
		mustDo(t, g, newSet(groupLetter(i), "1"))
		groups = append(groups, g)
	}
	d.refuseButUrgent = errFull
	a, b := Request{NoWait: true, Command: newSet("aa", "1")}, Request{NoWait: true, Command: newSet("bb", "1")}
	for who, write := range map[string]func(){
		"a writer of the group":     func() { _, _ = groups[0].Execute(context.Background(), a) },
		"writers of several groups": func() { _, _ = ExecuteJoint(context.Background(), []SubRequest{{groups[0], a}, {groups[1], b}}) },
	} {
		var stop atomic.Bool
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for !stop.Load() {
					write()
				}
			})
		}
		for range 100 {
			a := Request{NoWait: true, Command: &deleteRows{keys: [][]byte{effect.Rows.AppendKey(nil, positionOf("a"))}}}
			b := Request{NoWait: true, Command: &deleteRows{keys: [][]byte{effect.Rows.AppendKey(nil, positionOf("b"))}}}
			late := a
			late.Piggyback = true
			if _, err := groups[0].Execute(context.Background(), late); err != nil {
				t.Errorf("beside %s: %v", who, err)
			}
			if _, err := ExecuteJoint(context.Background(), []SubRequest{{groups[0], a}, {groups[1], b}}); err != nil {
				t.Errorf("of two groups, beside %s: %v", who, err)
			}
		}
		stop.Store(true)
		wg.Wait()
	}
}
