package group

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
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
	d := newMemoryDisk(true)
	g := openGroup(t, d, Options{Wall: wall.readMS})
	mustDo(t, g, &command.Set{Key: positionOf("a"), Value: []byte("1")})
	d.refuse = errFull
	wall.ms.Add(time.Hour.Milliseconds()) // more time has to be reserved
	if _, err := g.Execute(context.Background(), Request{Command: &command.Set{Key: positionOf("a"), Value: []byte("2")}}); !errors.Is(err, errFull) {
		t.Errorf("the write: %v, want %v", err, errFull)
	}
	if reply := mustDo(t, g, &command.Get{Key: positionOf("a")}); string(reply.Bytes) != "1" {
		t.Errorf("a read at that time says %q, want 1", reply.Bytes)
	}
	d.refuse = nil
	mustDo(t, g, &command.Set{Key: positionOf("a"), Value: []byte("3")})
	if got := readText(t, g, "a"); got != "3" {
		t.Errorf("later it is %q, want 3", got)
	}
}

func TestARetryOfWhatWasExecutedIsAnsweredOnAFullDisk(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1 << 40)
	d := newMemoryDisk(true)
	g := openGroup(t, d, Options{Wall: wall.readMS})
	add := func(id RequestID) (command.Reply, error) {
		return g.Execute(context.Background(), Request{Command: &command.Add{Key: positionOf("n"), Delta: 5}, Key: positionOf("n"), ID: id})
	}
	first, err := add(requestAt(wall.readMS(), 1))
	if err != nil {
		t.Fatal(err)
	}
	d.refuse = errFull
	if again, err := add(requestAt(wall.readMS(), 1)); err != nil || again.Int != first.Int {
		t.Errorf("the retry: %+v, %v; want %+v", again, err, first)
	}
	if _, err := add(requestAt(wall.readMS(), 2)); !errors.Is(err, errFull) {
		t.Errorf("a new request: %v, want %v", err, errFull)
	}
}

func TestTwoCallsOfOneRequestInABatchHaveOneFate(t *testing.T) {
	for name, refuse := range map[string]error{"committed": nil, "refused": errFull, "uncertain": ErrUncertain} {
		t.Run(name, func(t *testing.T) {
			var wall wallClock
			wall.ms.Store(1 << 40)
			d := newMemoryDisk(true)
			g := openGroup(t, d, Options{Wall: wall.readMS})
			d.refuse = refuse
			id := requestAt(wall.readMS(), 1)
			add := func() *call {
				return &call{Request: Request{Command: &command.Add{Key: positionOf("n"), Delta: 5}, Key: positionOf("n"), ID: id}}
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
	d := newMemoryDisk(true)
	g := openGroup(t, d, Options{})
	inside, goOn := make(chan struct{}), make(chan struct{})
	d.before = func() {
		d.before = nil
		close(inside)
		<-goOn
	}
	first := make(chan error, 1)
	go func() {
		_, err := g.Execute(context.Background(), Request{Command: &command.Set{Key: positionOf("a"), Value: []byte("1")}})
		first <- err
	}()
	<-inside
	ctx, cancel := context.WithCancel(context.Background())
	second := make(chan error, 1)
	go func() {
		_, err := g.Execute(ctx, Request{Command: &command.Set{Key: positionOf("b"), Value: []byte("2")}})
		second <- err
	}()
	eventually.Holds(t, "a command waits", func() bool { return g.Metrics().QueueDepth > 0 })
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
	if _, found, _ := d.Get(effect.Rows.AppendKey(nil, positionOf("b")), nil); !found {
		t.Error("what was accepted was not executed")
	}
}

// testGate is open as long as it has no reason.
type testGate struct{ why atomic.Pointer[error] }

func (g *testGate) close(err error) { g.why.Store(&err) }

func (g *testGate) CheckOpen() error {
	if err := g.why.Load(); err != nil {
		return *err
	}
	return nil
}

// A caller that closes a gate and then gets a reply sees all that passed.
func TestAGateIsAskedWhenTheTurnHasCome(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1 << 40)
	d := newMemoryDisk(true)
	g := openGroup(t, d, Options{Wall: wall.readMS})
	shut := errors.New("shut")
	var door testGate
	set := func(key string, id RequestID) Request {
		return Request{Command: &command.Set{Key: positionOf(key), Value: []byte("1")}, Key: positionOf(key), ID: id, Gate: &door}
	}
	id := requestAt(wall.readMS(), 1)
	if reply, err := g.Execute(context.Background(), set("a", id)); err != nil || reply.Err != nil {
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
		reply, err := g.Execute(context.Background(), set(key, RequestID{}))
		replies <- errors.Join(err, reply.Err)
	}
	go send("passed")
	<-inside
	go send("late") // it waits for its turn
	eventually.Holds(t, "a command waits", func() bool { return g.Metrics().QueueDepth > 0 })
	door.close(shut)
	close(goOn)
	mustDo(t, g, &command.Get{Key: positionOf("a")})
	if got := readText(t, g, "passed"); got != "1" {
		t.Errorf("what passed the gate is not there: %q", got)
	}
	if a, b := <-replies, <-replies; (a == nil) == (b == nil) || !errors.Is(errors.Join(a, b), shut) {
		t.Errorf("one hears %v, the other %v: want nil and %v", a, b, shut)
	}
	if got := readText(t, g, "late"); got != "" {
		t.Errorf("what came late has passed: %q", got)
	}
	// A request that was executed before does not pass either.
	if reply, err := g.Execute(context.Background(), set("a", id)); err != nil || !errors.Is(reply.Err, shut) {
		t.Errorf("a retry: %+v, %v, want %v", reply, err, shut)
	}
}

func FuzzALedgerThatIsReadIsWrittenTheSame(f *testing.F) {
	l := ledger{seqCeiling: 1, versionCeiling: 2, clockCeiling: 3, mixed: true}
	f.Add(l.appendRecord(nil))
	f.Add([]byte{2, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := decodeLedger(b)
		if err == nil && string(l.appendRecord(nil)) != string(b) {
			t.Fatalf("%x is written as %x", b, l.appendRecord(nil))
		}
	})
}

// tryNonBlocking executes commands, on one chain each second of them, and returns what became of them.
func tryNonBlocking(g *Group, commands ...command.Command) (became []string) {
	var m Pipeline
	for i, c := range commands {
		m.Add(g, Request{Command: c, Key: positionOf("key"), NonBlocking: true}, uint64(1+i%2))
	}
	m.Execute()
	for i := range commands {
		reply, err := m.Reply(i)
		switch err = errors.Join(err, reply.Err); {
		case errors.Is(err, ErrWouldBlock):
			became = append(became, "cold")
		case errors.Is(err, ErrSkipped):
			became = append(became, "behind")
		case err != nil:
			became = append(became, err.Error())
		default:
			became = append(became, "done")
		}
	}
	return became
}

// What is in a hurry is not executed if it takes a disk, and neither is what comes behind it.
func TestAHastyRequestWaitsForNoDisk(t *testing.T) {
	d, g := openCached(t, Options{OwnsAll: true})
	mustDo(t, g, newSet("near", "1"))
	mustDo(t, g, newSet("far", "1"))
	mustDo(t, g, &command.HSet{Key: positionOf("hash"), Fields: []command.FieldValue{{Field: []byte("f"), Value: []byte("1")}}})
	d.unknown[string(append(AppendRowKeyPrefix(nil), positionOf("far")...))] = true
	*d.slow = true
	read := func(key string) command.Command { return &command.Get{Key: positionOf(key)} }
	far := []command.Command{&command.Add{Key: positionOf("far"), Delta: 1}, &command.HGetAll{Key: positionOf("hash")}}
	for _, c := range far {
		if got := strings.Join(tryNonBlocking(g, read("near"), read("near"), c, read("near"), read("near"), read("near")), " "); got != "done done cold done behind done" {
			t.Errorf("%T: %s", c, got)
		}
	}
	if got := readText(t, g, "far"); got != "1" {
		t.Errorf("what was not executed has left %q", got)
	}
	g.PrefetchCommand(&command.Add{Key: positionOf("far"), Delta: 1})
	if got := readText(t, g, "far"); got != "1" {
		t.Errorf("a rehearsal has left %q", got)
	}
	d.unknown[string(append(AppendRowKeyPrefix(nil), positionOf("far")...))] = true
	*d.slow = false
	if got := strings.Join(tryNonBlocking(g, far...), " "); got != "done done" {
		t.Errorf("when it is near: %s", got)
	}
	if got := readText(t, g, "far"); got != "2" {
		t.Errorf("what was executed has left %q", got)
	}
}

// The answers of what is executed together are of some size.
func TestAnswersOfHastyRequestsAreBounded(t *testing.T) {
	_, g := openCached(t, Options{OwnsAll: true})
	const size = 1 << 20
	mustDo(t, g, newSet("large", strings.Repeat("x", size)))
	reads := make([]command.Command, 2*maxRunAnswerBytes/size)
	for i := range reads {
		reads[i] = &command.Get{Key: positionOf("large")}
	}
	for range 2 { // each run has its own room
		done := 0
		for i, became := range tryNonBlocking(g, reads...) {
			switch {
			case became == "done" && done == i:
				done++
			case became != "behind":
				t.Errorf("request %d: %s, behind %d that are done", i, became, done)
			}
		}
		if done < maxRunAnswerBytes/size || done > maxRunAnswerBytes/size+2 {
			t.Errorf("%d of %d are done", done, len(reads))
		}
	}
}

// So is what they read that is not in memory, though it is near.
func TestReadsOfHastyRequestsAreBounded(t *testing.T) {
	d, g := openCached(t, Options{OwnsAll: true, Queue: 2 * maxUncachedReads})
	mustDo(t, g, newSet("near", "1"))
	mustDo(t, g, &command.HSet{Key: positionOf("hash"), Fields: []command.FieldValue{{Field: []byte("f"), Value: []byte("1")}}})
	d.unknown[string(append(AppendRowKeyPrefix(nil), positionOf("near")...))] = true
	for _, c := range []struct {
		command command.Command
		most    int
	}{{&command.Get{Key: positionOf("near")}, maxUncachedReads}, {&command.HGetAll{Key: positionOf("hash")}, maxUncachedReads / uncachedScanCost}} {
		for range 2 { // each run has its own
			done, calls := 0, make([]command.Command, 2*maxUncachedReads)
			for i := range calls {
				calls[i] = c.command
			}
			for _, became := range tryNonBlocking(g, calls...) {
				if became == "done" {
					done++
				}
			}
			if done != c.most {
				t.Errorf("%T: %d are done in one run, want %d", c.command, done, c.most)
			}
		}
	}
}

// What would hold up others for long is not executed in a hurry: a scan of many rows or bytes, and, if it
// only reads, many lookups. One large row alone is none too many.
func TestHasty_ReadsOfManyRows_AreRefused(t *testing.T) {
	_, g := openCached(t, Options{OwnsAll: true})
	fill := func(name string, fields, size int) {
		c := &command.HSet{Key: positionOf(name)}
		for i := range fields {
			c.Fields = append(c.Fields, command.FieldValue{Field: fmt.Appendf(nil, "%06d", i), Value: make([]byte, size)})
		}
		mustDo(t, g, c)
	}
	fill("small", maxNonBlockingRows/2, 1)
	fill("many", maxNonBlockingRows+1, 1)
	fill("wide", 16, maxNonBlockingBytes/8)
	mustDo(t, g, newSet("large", strings.Repeat("x", 3*maxNonBlockingBytes)))
	names := make([][]byte, maxNonBlockingRows+1)
	for i := range names {
		names[i] = fmt.Appendf(nil, "%06d", i)
	}
	for _, c := range []struct {
		command command.Command
		reads   bool
		long    bool
	}{
		{&command.HGetAll{Key: positionOf("small")}, true, false},
		{&command.HGetAll{Key: positionOf("many")}, true, true},
		{&command.HGetAll{Key: positionOf("many")}, false, true}, // a RENAME, say
		{&command.HGetAll{Key: positionOf("wide")}, true, true},
		{&command.HScan{Key: positionOf("many"), Limit: 10}, true, false},
		{&command.HMGet{Key: positionOf("many"), Fields: names}, true, true},
		{&command.HMGet{Key: positionOf("many"), Fields: names}, false, false}, // no other group can do that
		{&command.Get{Key: positionOf("large")}, true, false},
		{&command.HLen{Key: positionOf("many")}, true, false},
	} {
		var m Pipeline
		m.Add(g, Request{Command: c.command, Key: positionOf("key"), NonBlocking: true, ReadOnly: c.reads}, 1)
		m.Execute()
		reply, err := m.Reply(0)
		if err = errors.Join(err, reply.Err); errors.Is(err, ErrReadTooLarge) != c.long || err != nil && !c.long {
			t.Errorf("%T that only reads %v: %v", c.command, c.reads, err)
		}
	}
}
