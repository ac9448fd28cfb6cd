package group

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

// A group may fail for good while the requests of a joint batch are admitted: then
// nothing of one that was admitted before is committed.
func TestAJointRequestIsWholeThoughAGroupDiesAtAnothersAdmission(t *testing.T) {
	j := newJointly(t, 2)
	taker := &jointCall{pieces: []Piece{{j.groups[0], Request{Command: &own.Reown{ClockFloorMS: j.nowMS + 1<<30}}}}}
	taker.replies = make([]command.Reply, 1)
	first := j.pass(0, 1, 5)
	n := 0
	j.disk.before = func() { // the first write, which is that of the admission, fails
		if n++; n == 1 {
			j.disk.refuse, j.disk.commits = ErrUncertain, 0
		} else {
			j.disk.refuse = nil
		}
	}
	doJoint(context.Background(), []*jointCall{first, taker})
	j.disk.before, j.disk.refuse = nil, nil
	if got := text(t, j.groups[1], "b"); first.err == nil && !first.failed() || got != "" {
		t.Errorf("it was told %v %v; group 2 has %q, group 1 has died without its half", first.replies, first.err, got)
	}
}

// Whoever looks at a group while it retires never hears that it is closed.
func TestWhoIsReadyWhileAGroupRetiresHearsNothingOfIt(t *testing.T) {
	ctx := context.Background()
	var closed atomic.Int64
	for range 300 {
		d := newDisk(true)
		g := owner(t, d, 2, serving("m", "", 1))
		was := serving("m", "", 1)
		gone := was
		gone.State, gone.Version = own.Foreign, 2
		reown(t, g, was, gone)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for !g.retired.Load() {
					if err := g.Ready(ctx); errors.Is(err, ErrClosed) {
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

// Requests that give room back are executed on a full disk, whoever else is refused with
// them: writers of the group, or of several.
func TestUrgentRequestsFindRoomOnAFullDisk(t *testing.T) {
	d := newDisk(true)
	joints := NewJoints()
	var groups []*Group
	for i := range 2 {
		g, err := Open(d, d, Options{ID: partition.GroupID(i + 1), Joints: joints})
		if err != nil {
			t.Fatal(err)
		}
		reown(t, g, own.Range{}, serving(letter(i), letter(i+1), 1))
		do(t, g, set(letter(i), "1"))
		groups = append(groups, g)
	}
	d.refuseButUrgent = errFull
	a, b := Request{Command: set("aa", "1")}, Request{Command: set("bb", "1")}
	for who, write := range map[string]func(){
		"a writer of the group":     func() { _, _ = groups[0].Try(context.Background(), a) },
		"writers of several groups": func() { _, _ = TryJoint(context.Background(), []Piece{{groups[0], a}, {groups[1], b}}) },
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
			a := Request{Command: &forgetRows{keys: [][]byte{effect.Rows.AppendKey(nil, at("a"))}}}
			b := Request{Command: &forgetRows{keys: [][]byte{effect.Rows.AppendKey(nil, at("b"))}}}
			if _, err := groups[0].TryLater(context.Background(), a); err != nil {
				t.Errorf("beside %s: %v", who, err)
			}
			if _, err := TryJoint(context.Background(), []Piece{{groups[0], a}, {groups[1], b}}); err != nil {
				t.Errorf("of two groups, beside %s: %v", who, err)
			}
		}
		stop.Store(true)
		wg.Wait()
	}
}
