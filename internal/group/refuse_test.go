package group

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
)

var errFull = errors.New("disk full")

// requestAt is an id that was made at a time.
func requestAt(ms int64, n byte) RequestID {
	id := RequestID{15: n}
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	return id
}

func TestAWriteIsNotAcknowledgedIfItsReservationWasRefused(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1_000_000)
	d := newDisk(true)
	g := open(t, d, Options{Wall: wall.read})
	do(t, g, &command.Set{Key: at("a"), Value: []byte("1")})
	d.refuse = errFull
	wall.ms.Add(time.Hour.Milliseconds()) // more time has to be reserved
	if _, err := g.Do(context.Background(), Request{Command: &command.Set{Key: at("a"), Value: []byte("2")}}); !errors.Is(err, errFull) {
		t.Errorf("the write: %v, want %v", err, errFull)
	}
	if reply := do(t, g, &command.Get{Key: at("a")}); string(reply.Bytes) != "1" {
		t.Errorf("a read at that time says %q, want 1", reply.Bytes)
	}
	d.refuse = nil
	do(t, g, &command.Set{Key: at("a"), Value: []byte("3")})
	if got := text(t, g, "a"); got != "3" {
		t.Errorf("later it is %q, want 3", got)
	}
}

func TestARetryOfWhatWasExecutedIsAnsweredOnAFullDisk(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1 << 40)
	d := newDisk(true)
	g := open(t, d, Options{Wall: wall.read})
	add := func(id RequestID) (command.Reply, error) {
		return g.Do(context.Background(), Request{Command: &command.Add{Key: at("n"), Delta: 5}, Key: at("n"), ID: id})
	}
	first, err := add(requestAt(wall.read(), 1))
	if err != nil {
		t.Fatal(err)
	}
	d.refuse = errFull
	if again, err := add(requestAt(wall.read(), 1)); err != nil || again.Int != first.Int {
		t.Errorf("the retry: %+v, %v; want %+v", again, err, first)
	}
	if _, err := add(requestAt(wall.read(), 2)); !errors.Is(err, errFull) {
		t.Errorf("a new request: %v, want %v", err, errFull)
	}
}

func TestTwoCallsOfOneRequestInABatchHaveOneFate(t *testing.T) {
	for name, refuse := range map[string]error{"committed": nil, "refused": errFull, "uncertain": ErrUncertain} {
		t.Run(name, func(t *testing.T) {
			var wall wallClock
			wall.ms.Store(1 << 40)
			d := newDisk(true)
			g := open(t, d, Options{Wall: wall.read})
			d.refuse = refuse
			id := requestAt(wall.read(), 1)
			add := func() *call {
				return &call{Request: Request{Command: &command.Add{Key: at("n"), Delta: 5}, Key: at("n"), ID: id}}
			}
			batch, errs := []*call{add(), add()}, make([]error, 2)
			if err := g.actor.CallBatch(context.Background(), batch, errs); err != nil {
				t.Fatal(err)
			}
			want := refuse
			if refuse == ErrUncertain {
				want = ErrUnknown
			}
			if !errors.Is(errs[0], want) || !errors.Is(errs[1], want) {
				t.Errorf("one hears %v, the other %v, want %v", errs[0], errs[1], want)
			}
			if refuse == nil && (batch[0].reply.Int != 5 || batch[1].reply.Int != 5) {
				t.Errorf("one hears %d, the other %d, want 5", batch[0].reply.Int, batch[1].reply.Int)
			}
		})
	}
}

func TestACommandThatIsAbandonedIsUnknownAndMayStillHappen(t *testing.T) {
	d := newDisk(true)
	g := open(t, d, Options{})
	inside, goOn := make(chan struct{}), make(chan struct{})
	d.before = func() {
		d.before = nil
		close(inside)
		<-goOn
	}
	first := make(chan error, 1)
	go func() {
		_, err := g.Do(context.Background(), Request{Command: &command.Set{Key: at("a"), Value: []byte("1")}})
		first <- err
	}()
	<-inside
	ctx, cancel := context.WithCancel(context.Background())
	second := make(chan error, 1)
	go func() {
		_, err := g.Do(ctx, Request{Command: &command.Set{Key: at("b"), Value: []byte("2")}})
		second <- err
	}()
	for g.Metrics().QueueDepth == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-second; !errors.Is(err, ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("the one that left hears %v, want ErrUnknown", err)
	}
	close(goOn)
	if err := <-first; err != nil {
		t.Errorf("the other one: %v", err)
	}
	if err := g.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, found, _ := d.Get(effect.Rows.AppendKey(nil, at("b")), nil); !found {
		t.Error("what was accepted was not executed")
	}
}

// gate is open as long as it has no reason.
type gate struct{ why atomic.Pointer[error] }

func (g *gate) close(err error) { g.why.Store(&err) }

func (g *gate) Check() error {
	if err := g.why.Load(); err != nil {
		return *err
	}
	return nil
}

// Whoever closes a gate and then has a request answered sees all that passed.
func TestAGateIsAskedWhenTheTurnHasCome(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1 << 40)
	d := newDisk(true)
	g := open(t, d, Options{Wall: wall.read})
	shut := errors.New("shut")
	var door gate
	set := func(key string, id RequestID) Request {
		return Request{Command: &command.Set{Key: at(key), Value: []byte("1")}, Key: at(key), ID: id, Gate: &door}
	}
	id := requestAt(wall.read(), 1)
	if reply, err := g.Do(context.Background(), set("a", id)); err != nil || reply.Err != nil {
		t.Fatal(err, reply.Err)
	}
	inside, goOn := make(chan struct{}), make(chan struct{})
	d.before = func() {
		d.before = nil
		close(inside)
		<-goOn
	}
	replies := make(chan error, 2)
	send := func(key string) {
		reply, err := g.Do(context.Background(), set(key, RequestID{}))
		replies <- errors.Join(err, reply.Err)
	}
	go send("passed")
	<-inside
	go send("late") // it waits for its turn
	for g.Metrics().QueueDepth == 0 {
		time.Sleep(time.Millisecond)
	}
	door.close(shut)
	close(goOn)
	do(t, g, &command.Get{Key: at("a")})
	if got := text(t, g, "passed"); got != "1" {
		t.Errorf("what passed the gate is not there: %q", got)
	}
	if a, b := <-replies, <-replies; (a == nil) == (b == nil) || !errors.Is(errors.Join(a, b), shut) {
		t.Errorf("one hears %v, the other %v: want nil and %v", a, b, shut)
	}
	if got := text(t, g, "late"); got != "" {
		t.Errorf("what came late has passed: %q", got)
	}
	// A request that was executed before does not pass either.
	if reply, err := g.Do(context.Background(), set("a", id)); err != nil || !errors.Is(reply.Err, shut) {
		t.Errorf("a retry: %+v, %v, want %v", reply, err, shut)
	}
}

func FuzzALedgerThatIsReadIsWrittenTheSame(f *testing.F) {
	l := ledger{seq: 1, versionCeiling: 2, clockCeiling: 3, mixed: true}
	f.Add(l.append(nil))
	f.Add([]byte{2, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := decodeLedger(b)
		if err == nil && string(l.append(nil)) != string(b) {
			t.Fatalf("%x is written as %x", b, l.append(nil))
		}
	})
}
