package group

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

var space = partition.Keyspace{ID: 1, Name: "test", Kind: partition.Range}

func positionOf(key string) partition.Position { return space.AppendPosition(nil, []byte(key)) }

// wallClock is a machine's clock that a test turns.
type wallClock struct{ ms atomic.Int64 }

func (c *wallClock) readMS() int64 { return c.ms.Load() }

func openGroup(t testing.TB, d *memoryDisk, opts Options) *Group {
	t.Helper()
	opts.OwnsAll = opts.ID == 0
	g, err := Open(d, d, opts)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func mustDo(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, g *Group, c command.Command) command.Reply {
	t.Helper()
	reply, err := g.Execute(context.Background(), Request{Command: c})
	if err != nil || reply.Err != nil {
		t.Fatalf("%T: %v, %v", c, err, reply.Err)
	}
	return reply
}

func readText(t testing.TB, g *Group, key string) string {
	t.Helper()
	row, ok, err := g.Read(context.Background(), positionOf(key), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return ""
	}
	return string(row.Payload)
}

func TestWhatWasAcknowledgedIsReadPastTheQueue(t *testing.T) {
	g := openGroup(t, newMemoryDisk(true), Options{})
	mustDo(t, g, &command.Set{Key: positionOf("a"), Value: []byte("1")})
	if got := readText(t, g, "a"); got != "1" {
		t.Errorf("read %q, want 1", got)
	}
	mustDo(t, g, &command.Delete{Keys: []partition.Position{positionOf("a")}})
	if got := readText(t, g, "a"); got != "" {
		t.Errorf("read %q of a deleted key", got)
	}
}

func TestManyCallersLoseNothingAndShareBatches(t *testing.T) {
	d := newMemoryDisk(true)
	g := openGroup(t, d, Options{})
	const callers, each = 16, 50
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				mustDo(t, g, &command.Add{Key: positionOf("n"), Delta: 1})
			}
		})
	}
	wg.Wait()
	if got := readText(t, g, "n"); got != strconv.Itoa(callers*each) {
		t.Errorf("counter is %s, want %d", got, callers*each)
	}
	for i, h := range d.headers {
		if h.Seq != uint64(i)+1 {
			t.Fatalf("sequence %d follows %d", h.Seq, i)
		}
	}
	t.Logf("%d commands in %d commits", callers*each, d.commits)
}

func TestARefusedBatchLeavesNothingAndTheGroupGoesOn(t *testing.T) {
	d := newMemoryDisk(true)
	g := openGroup(t, d, Options{})
	mustDo(t, g, &command.Set{Key: positionOf("a"), Value: []byte("1")})
	d.refuse = errors.New("disk full")
	if _, err := g.Execute(context.Background(), Request{Command: &command.Set{Key: positionOf("a"), Value: []byte("2")}}); !errors.Is(err, d.refuse) || errors.Is(err, ErrUnknown) {
		t.Errorf("write on a full disk: %v", err)
	}
	if reply := mustDo(t, g, &command.Get{Key: positionOf("a")}); string(reply.Bytes) != "1" {
		t.Errorf("queued read on a full disk says %q", reply.Bytes)
	}
	d.refuse = nil
	mustDo(t, g, &command.Set{Key: positionOf("a"), Value: []byte("3")})
	if got := readText(t, g, "a"); got != "3" {
		t.Errorf("read %q, want 3", got)
	}
}

func TestAReadInARefusedBatchDoesNotSeeItsWrites(t *testing.T) {
	d := newMemoryDisk(true)
	g := openGroup(t, d, Options{})
	mustDo(t, g, &command.Set{Key: positionOf("a"), Value: []byte("1")})
	d.refuse = errors.New("disk full")
	batch := []*call{
		{Request: Request{Command: &command.Set{Key: positionOf("a"), Value: []byte("2")}}},
		{Request: Request{Command: &command.Get{Key: positionOf("a")}}},
	}
	errs := make([]error, 2)
	if err := g.actor.CallBatch(context.Background(), batch, errs); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(errs[0], d.refuse) || errs[1] != nil || string(batch[1].reply.Bytes) != "1" {
		t.Errorf("write: %v; read: %q, %v", errs[0], batch[1].reply.Bytes, errs[1])
	}
}

func TestAnUncertainCommitIsReportedAsSuchAndStopsTheGroup(t *testing.T) {
	d := newMemoryDisk(true)
	g := openGroup(t, d, Options{})
	d.refuse = fmt.Errorf("sync: %w", ErrUncertain)
	set := &command.Set{Key: positionOf("a"), Value: []byte("1")}
	if _, err := g.Execute(context.Background(), Request{Command: set}); !errors.Is(err, ErrUnknown) {
		t.Errorf("uncertain commit: %v, want ErrUnknown", err)
	}
	d.refuse = nil
	if _, err := g.Execute(context.Background(), Request{Command: set}); !errors.Is(err, ErrFailed) || errors.Is(err, ErrUnknown) {
		t.Errorf("command after it: %v, want ErrFailed alone", err)
	}
}

func TestExpiredKeysAreAbsentAtOnceAndRemovedByTending(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1_000_000)
	d := newMemoryDisk(true)
	g := openGroup(t, d, Options{Wall: wall.readMS, ExpiryKeys: 16})
	const keys = 100
	for i := range keys {
		mustDo(t, g, &command.Set{Key: positionOf(fmt.Sprint("k", i)), Value: []byte("v"), Expiry: command.ExpireIn(int64(1 + i))})
	}
	mustDo(t, g, &command.HSet{Key: positionOf("h"), Fields: []command.FieldValue{{Field: []byte("f"), Value: []byte("v")}}})
	mustDo(t, g, &command.Expire{Key: positionOf("h"), Expiry: command.ExpireIn(10)})
	wall.ms.Add(20)
	if got := readText(t, g, "k3") + readText(t, g, "h"); got != "" {
		t.Errorf("expired keys are read as %q", got)
	}
	if got := readText(t, g, "k50"); got != "v" {
		t.Errorf("a key that lives is read as %q", got)
	}
	wall.ms.Add(keys)
	for range 50 {
		if _, err := g.Housekeep(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range []effect.Table{effect.Rows, effect.Expiry, effect.Orphans} {
		if n := d.countRows(table); n != 0 {
			t.Errorf("%d rows are left in table %d", n, table)
		}
	}
}

func TestARequestIsExecutedOnce(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1 << 40)
	d := newMemoryDisk(true)
	g := openGroup(t, d, Options{Wall: wall.readMS})
	id := RequestID{15: 7}
	for i := range 6 {
		id[i] = byte(wall.readMS() >> (8 * (5 - i)))
	}
	add := func(g *Group) (command.Reply, error) {
		return g.Execute(context.Background(), Request{Command: &command.Add{Key: positionOf("n"), Delta: 5}, Key: positionOf("n"), ID: id})
	}
	first, err := add(g)
	if err != nil {
		t.Fatal(err)
	}
	again, err := add(g)
	if err != nil || again.Int != first.Int || again.Version != first.Version {
		t.Errorf("retry: %+v, %v; want %+v", again, err, first)
	}
	g = openGroup(t, d.crashCopy(), Options{Wall: wall.readMS})
	if again, err = add(g); err != nil || again.Int != first.Int {
		t.Errorf("retry after a crash: %+v, %v; want %+v", again, err, first)
	}
	if got := readText(t, g, "n"); got != "5" {
		t.Errorf("counter is %s, want 5", got)
	}
	wall.ms.Add(11 * time.Minute.Milliseconds())
	if _, err := g.Housekeep(context.Background()); err != nil {
		t.Fatal(err)
	}
	if reply, err := add(g); err != nil || !errors.Is(reply.Err, ErrRequestOld) {
		t.Errorf("retry after it was forgotten: %+v, %v; want ErrRequestOld", reply, err)
	}
}

func TestAClosedGroupRefuses(t *testing.T) {
	d := newMemoryDisk(true)
	g := openGroup(t, d, Options{})
	if err := g.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Execute(context.Background(), Request{Command: &command.Get{Key: positionOf("a")}}); !errors.Is(err, ErrClosed) {
		t.Errorf("command: %v, want ErrClosed", err)
	}
	if _, _, err := g.Read(context.Background(), positionOf("a"), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("read: %v, want ErrClosed", err)
	}
}

func TestBadOptionsAreAllReported(t *testing.T) {
	_, err := Open(newMemoryDisk(true), newMemoryDisk(true), Options{Queue: -1, Remember: time.Millisecond, ClockAhead: 1, ExpiryKeys: 3})
	if !errors.Is(err, ErrOptions) {
		t.Fatalf("got %v, want ErrOptions", err)
	}
	for _, want := range []string{"Queue", "Remember", "ClockAhead", "ExpiryKeys"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

func TestKeysThatCouldNotBeReapedAreReapedLater(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1_000_000)
	d := newMemoryDisk(true)
	g := openGroup(t, d, Options{Wall: wall.readMS})
	for i := range 3 {
		mustDo(t, g, &command.Set{Key: positionOf(fmt.Sprint("k", i)), Value: []byte("v"), Expiry: command.ExpireIn(10)})
	}
	tend := func() (err error) {
		for range 10 {
			_, err = g.Housekeep(context.Background())
		}
		return err
	}
	if err := tend(); err != nil {
		t.Fatal(err)
	}
	wall.ms.Add(20)
	d.refuse = errors.New("disk full")
	_ = tend()
	d.refuse = nil
	if err := tend(); err != nil {
		t.Fatal(err)
	}
	if n := d.countRows(effect.Rows) + d.countRows(effect.Expiry); n != 0 {
		t.Errorf("%d rows of expired keys are left", n)
	}
}

// A caller that still has a retired group is sent elsewhere, whatever it asks for.
func TestARetiredGroupSendsEverybodyElsewhere(t *testing.T) {
	d := newMemoryDisk(true)
	other, g := openOwner(t, d, 1, servingRange("a", "m", 1)), openOwner(t, d, 2, servingRange("m", "", 1))
	was := servingRange("m", "", 1)
	gone := was
	gone.State, gone.Version = ownership.Foreign, 2
	replaceRange(t, g, was, gone)
	ctx := context.Background()
	if err := g.Retire(ctx); err != nil {
		t.Fatal(err)
	}
	get := &command.Get{Key: positionOf("x")}
	_, _, read := g.Read(ctx, positionOf("x"), nil)
	_, peek := g.EvalReadOnly(ctx, positionOf("x"), get)
	_, do := g.Execute(ctx, Request{Command: get, Key: positionOf("x")})
	_, later := g.Execute(ctx, Request{Piggyback: true, Command: get, Key: positionOf("x")})
	_, joint := ExecuteJoint(ctx, []SubRequest{{other, Request{Command: newSet("b", "1")}}, {g, Request{Command: newSet("x", "1")}}})
	still := RunBetweenBatches(ctx, []*Group{other, g}, func() {})
	for what, err := range map[string]error{"read": read, "peek": peek, "do": do, "later": later, "joint": joint, "still": still} {
		if !errors.Is(err, ownership.ErrWrongGroup) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := g.ReadBarrier(ctx); err != nil {
		t.Errorf("it holds up who looks at the whole store: %v", err)
	}
	if _, ok, err := other.Read(ctx, positionOf("b"), nil); ok || err != nil {
		t.Errorf("half of a joint request: %v, %v", ok, err)
	}
	if err := g.Close(ctx); err != nil {
		t.Errorf("closed once more: %v", err)
	}
}
