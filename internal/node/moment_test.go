package node

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

// momentLab is a node with a key, and a clock that a test turns.
func momentLab(t *testing.T) (n *Node, key partition.Position, wall *int64) {
	wall = new(int64)
	*wall = 1 << 40
	o := small(1)
	o.Wall = func() int64 { return *wall }
	n = open(t, o)
	t.Cleanup(func() { _ = n.Close(ctx) })
	k, err := n.Keyspace(DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	key = k.AppendPosition(nil, []byte("k"))
	return n, key, wall
}

func set(t *testing.T, p *Part, key partition.Position) {
	t.Helper()
	if err := p.do(ctx, &command.Set{Key: key}); err != nil {
		t.Fatal(err)
	}
}

// taken tells whether a view is one of snapshots.
func taken(v *View) bool { return v.sides[0].snap != nil }

func TestAFewRowsAreReadWithoutASnapshot(t *testing.T) {
	n, key, _ := momentLab(t)
	for range 3 { // after the first open, and after commits
		calls := 0
		err := n.At(ctx, n.Hosts(), func(v *View) error {
			if taken(v) {
				t.Error("it took a snapshot")
			}
			calls++
			return nil
		})
		if err != nil || calls != 1 {
			t.Errorf("%d calls, %v", calls, err)
		}
		set(t, n.Parts()[0], key)
	}
}

// Whatever changes while rows are read: the last call has them of one moment.
func TestRowsThatChangeMeanwhileAreReadAgain(t *testing.T) {
	n, key, wall := momentLab(t)
	set(t, n.Parts()[0], key)
	for what, change := range map[string]func(){
		"a commit": func() { set(t, n.Parts()[0], key) },
		"the time": func() { *wall++ },
	} {
		calls := 0
		err := n.At(ctx, n.Hosts(), func(v *View) error {
			now, _ := v.NowMS(key)
			snapshot := taken(v)
			if calls++; snapshot != (calls > glances) || now != n.Parts()[0].Group.NowMS() {
				t.Errorf("%s: call %d: a snapshot %v at %d", what, calls, snapshot, now)
			}
			before, _, err := v.Get(effect.Rows.AppendKey(nil, key), nil)
			if err != nil {
				t.Fatal(err)
			}
			change()
			if after, _, err := v.Get(effect.Rows.AppendKey(nil, key), nil); snapshot && (err != nil || string(after) != string(before)) {
				t.Errorf("%s: the row of a snapshot changes: %v", what, err)
			}
			return nil
		})
		if err != nil || calls != glances+1 {
			t.Errorf("%s: %d calls, %v", what, calls, err)
		}
	}
	bad := errors.New("bad")
	if err := n.At(ctx, n.Hosts(), func(*View) error { return bad }); err != bad {
		t.Errorf("an error of the reader: %v", err)
	}
}

// A clock that never shows the same time twice does not keep anybody from a moment.
func TestAViewIsTakenWhileTimeRunsOn(t *testing.T) {
	o := small(1)
	o.Groups = 3
	wall := int64(1 << 40)
	var mu sync.Mutex
	o.Wall = func() int64 {
		mu.Lock()
		defer mu.Unlock()
		wall++
		return wall
	}
	n := open(t, o)
	defer n.Close(ctx)
	k, err := n.Keyspace(DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	key := k.AppendPosition(nil, []byte("k"))
	set(t, n.PartOf(key), key)
	v, err := n.View(ctx, n.Hosts()...)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if _, ok, err := v.Get(effect.Rows.AppendKey(nil, key), nil); err != nil || !ok {
		t.Errorf("the row is missing: %v", err)
	}
	if now, err := v.NowMS(key); err != nil || now > n.PartOf(key).Group.NowMS() {
		t.Errorf("it is of %d, %v", now, err)
	}
}

// Whoever hands a range over needs the groups, and many may wait for him: they look when he is
// done, and not again and again until then.
func TestNobodyLooksAtStoresBetweenWhichARangeIsHandedOver(t *testing.T) {
	var looks atomic.Int64 // a look reads the clocks of all groups
	o := small(2)
	o.Wall = func() int64 {
		looks.Add(1)
		return 1 << 40
	}
	n := open(t, o)
	defer n.Close(ctx)
	end := n.handing.begin()
	before := looks.Load()
	views := make(chan error, 8)
	for range cap(views) {
		go func() {
			v, err := n.View(ctx, n.Hosts()...)
			if err == nil {
				v.Close()
			}
			views <- err
		}()
	}
	time.Sleep(handingMost / 2)
	if looked := looks.Load() - before; looked > 100 || len(views) > 0 {
		t.Errorf("while a range is handed over clocks were read %d times, and there were %d views", looked, len(views))
	}
	end()
	for range cap(views) {
		if err := <-views; err != nil {
			t.Error(err)
		}
	}
}
