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

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

var space = partition.Keyspace{ID: 1, Name: "test", Kind: partition.Range}

func at(key string) partition.Position { return space.AppendPosition(nil, []byte(key)) }

// wallClock is a machine's clock that a test turns.
type wallClock struct{ ms atomic.Int64 }

func (c *wallClock) read() int64 { return c.ms.Load() }

func open(t testing.TB, d *disk, opts Options) *Group {
	t.Helper()
	opts.Alone = opts.ID == 0
	g, err := Open(d, d, opts)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func do(t testing.TB, g *Group, c command.Command) command.Reply {
	t.Helper()
	reply, err := g.Do(context.Background(), Request{Command: c})
	if err != nil || reply.Err != nil {
		t.Fatalf("%T: %v, %v", c, err, reply.Err)
	}
	return reply
}

func text(t testing.TB, g *Group, key string) string {
	t.Helper()
	row, ok, err := g.Read(context.Background(), at(key), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return ""
	}
	return string(row.Payload)
}

func TestWhatWasAcknowledgedIsReadPastTheQueue(t *testing.T) {
	g := open(t, newDisk(true), Options{})
	do(t, g, &command.Set{Key: at("a"), Value: []byte("1")})
	if got := text(t, g, "a"); got != "1" {
		t.Errorf("read %q, want 1", got)
	}
	do(t, g, &command.Delete{Keys: []partition.Position{at("a")}})
	if got := text(t, g, "a"); got != "" {
		t.Errorf("read %q of a deleted key", got)
	}
}

func TestManyCallersLoseNothingAndShareBatches(t *testing.T) {
	d := newDisk(true)
	g := open(t, d, Options{})
	const callers, each = 16, 50
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				do(t, g, &command.Add{Key: at("n"), Delta: 1})
			}
		})
	}
	wg.Wait()
	if got := text(t, g, "n"); got != strconv.Itoa(callers*each) {
		t.Errorf("counter is %s, want %d", got, callers*each)
	}
	for i, seq := range d.seqs {
		if seq != uint64(i)+1 {
			t.Fatalf("sequence %d follows %d", seq, i)
		}
	}
	t.Logf("%d commands in %d commits", callers*each, d.commits)
}

func TestARefusedBatchLeavesNothingAndTheGroupGoesOn(t *testing.T) {
	d := newDisk(true)
	g := open(t, d, Options{})
	do(t, g, &command.Set{Key: at("a"), Value: []byte("1")})
	d.refuse = errors.New("disk full")
	if _, err := g.Do(context.Background(), Request{Command: &command.Set{Key: at("a"), Value: []byte("2")}}); !errors.Is(err, d.refuse) || errors.Is(err, ErrUnknown) {
		t.Errorf("write on a full disk: %v", err)
	}
	if reply := do(t, g, &command.Get{Key: at("a")}); string(reply.Bytes) != "1" {
		t.Errorf("queued read on a full disk says %q", reply.Bytes)
	}
	d.refuse = nil
	do(t, g, &command.Set{Key: at("a"), Value: []byte("3")})
	if got := text(t, g, "a"); got != "3" {
		t.Errorf("read %q, want 3", got)
	}
}

func TestAReadInARefusedBatchDoesNotSeeItsWrites(t *testing.T) {
	d := newDisk(true)
	g := open(t, d, Options{})
	do(t, g, &command.Set{Key: at("a"), Value: []byte("1")})
	d.refuse = errors.New("disk full")
	batch := []*call{
		{Request: Request{Command: &command.Set{Key: at("a"), Value: []byte("2")}}},
		{Request: Request{Command: &command.Get{Key: at("a")}}},
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
	d := newDisk(true)
	g := open(t, d, Options{})
	d.refuse = fmt.Errorf("sync: %w", ErrUncertain)
	set := &command.Set{Key: at("a"), Value: []byte("1")}
	if _, err := g.Do(context.Background(), Request{Command: set}); !errors.Is(err, ErrUnknown) {
		t.Errorf("uncertain commit: %v, want ErrUnknown", err)
	}
	d.refuse = nil
	if _, err := g.Do(context.Background(), Request{Command: set}); !errors.Is(err, ErrFailed) || errors.Is(err, ErrUnknown) {
		t.Errorf("command after it: %v, want ErrFailed alone", err)
	}
}

func TestExpiredKeysAreAbsentAtOnceAndRemovedByTending(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1_000_000)
	d := newDisk(true)
	g := open(t, d, Options{Wall: wall.read, ExpiryKeys: 16})
	const keys = 100
	for i := range keys {
		do(t, g, &command.Set{Key: at(fmt.Sprint("k", i)), Value: []byte("v"), Expiry: command.In(int64(1 + i))})
	}
	do(t, g, &command.HSet{Key: at("h"), Fields: []command.FieldValue{{Field: []byte("f"), Value: []byte("v")}}})
	do(t, g, &command.Expire{Key: at("h"), Expiry: command.In(10)})
	wall.ms.Add(20)
	if got := text(t, g, "k3") + text(t, g, "h"); got != "" {
		t.Errorf("expired keys are read as %q", got)
	}
	if got := text(t, g, "k50"); got != "v" {
		t.Errorf("a key that lives is read as %q", got)
	}
	wall.ms.Add(keys)
	for range 50 {
		if _, err := g.Tend(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range []effect.Table{effect.Rows, effect.Expiry, effect.Orphans} {
		if n := d.count(table); n != 0 {
			t.Errorf("%d rows are left in table %d", n, table)
		}
	}
}

func TestARequestIsExecutedOnce(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1 << 40)
	d := newDisk(true)
	g := open(t, d, Options{Wall: wall.read})
	id := RequestID{15: 7}
	for i := range 6 {
		id[i] = byte(wall.read() >> (8 * (5 - i)))
	}
	add := func(g *Group) (command.Reply, error) {
		return g.Do(context.Background(), Request{Command: &command.Add{Key: at("n"), Delta: 5}, Key: at("n"), ID: id})
	}
	first, err := add(g)
	if err != nil {
		t.Fatal(err)
	}
	again, err := add(g)
	if err != nil || again.Int != first.Int || again.Version != first.Version {
		t.Errorf("retry: %+v, %v; want %+v", again, err, first)
	}
	g = open(t, d.crash(), Options{Wall: wall.read})
	if again, err = add(g); err != nil || again.Int != first.Int {
		t.Errorf("retry after a crash: %+v, %v; want %+v", again, err, first)
	}
	if got := text(t, g, "n"); got != "5" {
		t.Errorf("counter is %s, want 5", got)
	}
	wall.ms.Add(11 * time.Minute.Milliseconds())
	if _, err := g.Tend(context.Background()); err != nil {
		t.Fatal(err)
	}
	if reply, err := add(g); err != nil || !errors.Is(reply.Err, ErrRequestOld) {
		t.Errorf("retry after it was forgotten: %+v, %v; want ErrRequestOld", reply, err)
	}
}

func TestAClosedGroupRefuses(t *testing.T) {
	d := newDisk(true)
	g := open(t, d, Options{})
	if err := g.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Do(context.Background(), Request{Command: &command.Get{Key: at("a")}}); !errors.Is(err, ErrClosed) {
		t.Errorf("command: %v, want ErrClosed", err)
	}
	if _, _, err := g.Read(context.Background(), at("a"), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("read: %v, want ErrClosed", err)
	}
}

func TestBadOptionsAreAllReported(t *testing.T) {
	_, err := Open(newDisk(true), newDisk(true), Options{Queue: -1, Remember: time.Millisecond, ClockAhead: 1, ExpiryKeys: 3})
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
	d := newDisk(true)
	g := open(t, d, Options{Wall: wall.read})
	for i := range 3 {
		do(t, g, &command.Set{Key: at(fmt.Sprint("k", i)), Value: []byte("v"), Expiry: command.In(10)})
	}
	tend := func() (err error) {
		for range 10 {
			_, err = g.Tend(context.Background())
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
	if n := d.count(effect.Rows) + d.count(effect.Expiry); n != 0 {
		t.Errorf("%d rows of expired keys are left", n)
	}
}
