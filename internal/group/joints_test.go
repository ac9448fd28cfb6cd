package group

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

// jointly are groups of one log, each with a letter, and the requests that they get
// together.
type jointly struct {
	testing.TB
	disk   *disk
	groups []*Group
	nowMS  int64
}

func newJointly(t testing.TB, groups int) *jointly {
	j := &jointly{TB: t, disk: newDisk(true), nowMS: 1 << 40}
	joints := NewJoints()
	for i := range groups {
		g := open(t, j.disk, Options{ID: partition.GroupID(i + 1), Joints: joints, Wall: func() int64 { return j.nowMS }})
		reown(t, g, own.Range{}, serving(letter(i), letter(i+1), 1))
		j.groups = append(j.groups, g)
	}
	return j
}

func letter(i int) string { return string(rune('a' + i)) }

// pass makes a request that takes from a group and gives to another.
func (j *jointly) pass(from, to int, n int64) *jointCall {
	add := func(g int, n int64) Piece {
		return Piece{j.groups[g], Request{Command: &command.Add{Key: at(letter(g)), Delta: n}, Key: at(letter(g))}}
	}
	return &jointCall{pieces: []Piece{add(from, -n), add(to, n)}, replies: make([]command.Reply, 2)}
}

// failing makes one whose second part is of a key that its group does not have.
func (j *jointly) failing(from, to int) *jointCall {
	c := j.pass(from, to, 1000)
	c.pieces[1].Request.Command = &command.Add{Key: at("zzz"), Delta: 1}
	return c
}

// have tells what the groups have.
func (j *jointly) have(want ...int64) {
	j.Helper()
	for i, n := range want {
		if got := text(j, j.groups[i], letter(i)); got != strconv.FormatInt(n, 10) {
			j.Errorf("group %d has %q, want %d", i, got, n)
		}
	}
}

func TestJointRequestsOfOneBatchShareAWriteAndFailAlone(t *testing.T) {
	j := newJointly(t, 3)
	before := j.disk.commits
	calls := []*jointCall{j.pass(0, 1, 5), j.failing(0, 1), j.pass(1, 2, 3), j.failing(2, 0), j.pass(2, 0, 1)}
	doJoint(context.Background(), calls)
	for i, c := range calls {
		if c.err != nil || c.failed() != (i == 1 || i == 3) {
			t.Errorf("request %d: %v %v", i, c.replies, c.err)
		}
	}
	if n := calls[4].replies[0].Int; n != 2 {
		t.Errorf("the last one finds %d, want 2: it comes after the others", n)
	}
	if n := j.disk.commits - before; n != 1 {
		t.Errorf("%d writes, want 1", n)
	}
	j.have(-4, 2, 2)
}

func TestARequestOfSeveralGroupsIsExecutedOnceInABatchToo(t *testing.T) {
	j := newJointly(t, 2)
	named := func(id RequestID) *jointCall {
		c := j.pass(0, 1, 1)
		c.pieces[1].Request.ID = id
		return c
	}
	a, b := requestAt(j.nowMS, 1), requestAt(j.nowMS, 2)
	failed := named(b)
	failed.pieces[0].Request.Command = &command.Add{Key: at("zzz"), Delta: 1}
	calls := []*jointCall{named(a), failed, named(b), named(a), named(b), named(a)}
	doJoint(context.Background(), calls)
	for i, c := range calls {
		if c.err != nil || c.recalled != (i > 2) || c.failed() != (i == 1) {
			t.Errorf("request %d: recalled %v, %v %v", i, c.recalled, c.replies, c.err)
		}
	}
	j.have(-2, 2)
	j.disk.refuse = errFull
	calls = []*jointCall{j.pass(0, 1, 1), named(a), j.failing(0, 1)}
	doJoint(context.Background(), calls)
	if !errors.Is(calls[0].err, errFull) || calls[1].err != nil || !calls[1].recalled || !errors.Is(calls[2].err, errFull) {
		t.Errorf("on a full disk: %v, %v, %v", calls[0].err, calls[1].err, calls[2].err)
	}
	j.disk.refuse = nil
	doJoint(context.Background(), []*jointCall{j.pass(0, 1, 1)})
	j.have(-3, 3)
}

func TestJointRequestsOfALogThatFailsAreUnknown(t *testing.T) {
	j := newJointly(t, 2)
	j.disk.refuse = ErrUncertain
	calls := []*jointCall{j.pass(0, 1, 1), j.failing(0, 1)}
	doJoint(context.Background(), calls)
	if !errors.Is(calls[0].err, ErrUnknown) || errors.Is(calls[1].err, ErrUnknown) || !errors.Is(calls[1].err, ErrFailed) {
		t.Errorf("%v and %v", calls[0].err, calls[1].err)
	}
	if _, err := TryJoint(context.Background(), j.pass(0, 1, 1).pieces); !errors.Is(err, ErrFailed) || errors.Is(err, ErrUnknown) {
		t.Errorf("the next: %v", err)
	}
}

func TestAGroupThatIsClosedRefusesOnlyItsOwn(t *testing.T) {
	j := newJointly(t, 3)
	if err := j.groups[2].Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	calls := []*jointCall{j.pass(0, 1, 1), j.pass(1, 2, 1), j.pass(0, 1, 1)}
	doJoint(context.Background(), calls)
	if calls[0].err != nil || calls[2].err != nil || !errors.Is(calls[1].err, ErrClosed) {
		t.Errorf("%v, %v, %v", calls[0].err, calls[1].err, calls[2].err)
	}
	j.have(-2, 2)
}

func TestManyJointRequestsLoseNothingAndShareWrites(t *testing.T) {
	j := newJointly(t, 4)
	j.disk.before = func() { time.Sleep(100 * time.Microsecond) }
	before := j.disk.commits
	const clients, each = 16, 25
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range each {
				from := rand.IntN(4)
				replies, err := Joint(context.Background(), j.pass(from, (from+1+rand.IntN(3))%4, 1).pieces)
				if err != nil || replies[0].Err != nil || replies[1].Err != nil {
					t.Errorf("%v %v", replies, err)
				}
				do(t, j.groups[from], &command.Add{Key: at(letter(from) + "x"), Delta: 1}) // others go on
			}
		})
	}
	wg.Wait()
	sum := 0
	for i := range 4 {
		n, _ := strconv.Atoi(text(t, j.groups[i], letter(i)))
		sum += n
	}
	if n := j.disk.commits - before; sum != 0 || n >= 2*clients*each {
		t.Errorf("%d are lost, %d writes of %d requests", sum, n, 2*clients*each)
	}
}

func TestWhoLeavesAJointRequestKnowsThatItDidNotHappen(t *testing.T) {
	j := newJointly(t, 2)
	entered, leave := make(chan struct{}), make(chan struct{})
	j.disk.before = sync.OnceFunc(func() {
		close(entered)
		<-leave
	})
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = Joint(context.Background(), j.pass(0, 1, 1).pieces) })
	<-entered
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := Joint(ctx, j.pass(0, 1, 1).pieces); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnknown) {
		t.Errorf("who left hears %v", err)
	}
	close(leave)
	wg.Wait()
	if _, err := Joint(context.Background(), j.pass(0, 1, 1).pieces); err != nil {
		t.Error(err)
	}
	j.have(-2, 2)
}
