package group

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/rows"
	"github.com/cleavekv/cleave/internal/txn"
)

// knowing is a disk some of whose rows are in memory.
type knowing struct {
	*disk
	unknown map[string]bool // by row key
	far     *bool           // what is unknown takes long
}

func (k knowing) Look(key, dst []byte) (value []byte, found, known bool) {
	if k.unknown[string(key)] {
		return dst, false, false
	}
	value, found, _ = k.Get(key, dst)
	return value, found, true
}

func (k knowing) Knows(key []byte) (int, bool) { return 0, !k.unknown[string(key)] }

func (k knowing) Sequence() uint64 { return 1 } // nobody counts

func (k knowing) Warm(keys ...[]byte) {
	for _, key := range keys {
		delete(k.unknown, string(key))
	}
}

func (k knowing) GetNear(keys [][]byte, visit func(i int, value []byte, ok bool, t rows.Ticket) bool) error {
	if *k.far {
		return nil
	}
	return k.GetMany(keys, visit)
}

func (k knowing) GetMany(keys [][]byte, visit func(i int, value []byte, ok bool, _ rows.Ticket) bool) error {
	for i, key := range slices.Backward(keys) {
		value, ok, err := k.Get(key, nil)
		if err != nil {
			return err
		}
		if !visit(i, value, ok, rows.Ticket{}) {
			break
		}
	}
	return nil
}

func (k knowing) Unmoved(rows.Ticket) bool { return true }

func (k knowing) ScanNear(start, end []byte, reverse bool, visit func(key, value []byte) bool) (near bool, err error) {
	if *k.far {
		return false, nil
	}
	return true, k.Scan(start, end, reverse, visit)
}

func (k knowing) Seek([]byte) uint64 { return 7 }

func (k knowing) Near(hint uint64) {
	if hint != 7 {
		panic("a hint that nobody gave")
	}
}

// openKnowing opens a group of such a state.
func openKnowing(t *testing.T, o Options) (knowing, *Group) {
	t.Helper()
	d := knowing{newDisk(true), map[string]bool{}, new(bool)}
	g, err := Open(d, d, o)
	if err != nil {
		t.Fatal(err)
	}
	return d, g
}

func TestALookIsAReadThatWaitsForNothing(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1_000_000)
	d, g := openKnowing(t, Options{Alone: true, Wall: wall.read})
	rowKey := func(key string) RowKey { return append(BeginRowKey(nil), at(key)...) }
	look := func(key string) (string, bool, bool) {
		t.Helper()
		l := g.Glance(rowKey(key))
		l.Near()
		row, value, found, known := l.Look([]byte("before"))
		if string(value[:6]) != "before" {
			t.Errorf("look at %s: %q does not begin with what was there", key, value)
		}
		return string(row.Payload), found, known
	}
	do(t, g, &command.Set{Key: at("lasting"), Value: []byte("1")})
	do(t, g, &command.Set{Key: at("passing"), Value: []byte("2"), Expiry: command.In(100)})
	d.unknown[string(rowKey("elsewhere"))] = true
	for _, c := range []struct {
		key, value   string
		found, known bool
	}{
		{"lasting", "1", true, true},
		{"passing", "2", true, true},
		{"never", "", false, true},
		{"elsewhere", "", false, false},
	} {
		if value, found, known := look(c.key); value != c.value || found != c.found || known != c.known {
			t.Errorf("look at %s: %q, found %v, known %v", c.key, value, found, known)
		}
	}
	wall.ms.Add(100)
	g.Timely(context.Background())
	if value, found, known := look("passing"); found || !known {
		t.Errorf("look at a row that has expired: %q, found %v, known %v", value, found, known)
	}
	wall.ms.Add(1 << 40)
	if _, _, known := look("passing"); known {
		t.Error("a row that expires is judged by a clock that stands still")
	}
	if err := g.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, _, known := look("lasting"); known {
		t.Error("a closed group knows a row")
	}
}

func TestReadManyTellsWhatIsSimple(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1_000_000)
	_, g := openKnowing(t, Options{ID: 1, Wall: wall.read})
	reown(t, g, own.Range{}, serving("b", "", 1))
	do(t, g, set("lasting", "1"))
	do(t, g, &command.Set{Key: at("passing"), Value: []byte("2"), Expiry: command.In(100)})
	do(t, g, set("locked", "3"))
	do(t, g, &txn.Prepare{
		ID: txn.ID{1}, Decider: 2, DeadlineMS: g.NowMS() + 60_000,
		Part: txn.Part{Span: between("b", ""), Writes: []command.Command{set("locked", "4"), set("new", "5")}},
	})
	var keys [][]byte
	for _, k := range []string{"lasting", "passing", "never", "locked", "new", "away", "lasting"} {
		keys = append(keys, append(BeginRowKey(nil), at(k)...))
	}
	var reading Reading // used again
	tell := func() (told []string) {
		g.ReadMany(context.Background(), &reading, keys)
		for _, r := range reading.Rows {
			switch {
			case !r.Known:
				told = append(told, "?")
			case !r.Found:
				told = append(told, "-")
			default:
				told = append(told, string(r.Row.Payload))
			}
		}
		return told
	}
	expect := func(want string) {
		t.Helper()
		if got := fmt.Sprint(tell()); got != want {
			t.Errorf("it tells %s, want %s", got, want)
		}
	}
	expect("[1 2 - ? ? ? 1]")
	wall.ms.Add(100)
	g.Timely(context.Background())
	expect("[1 - - ? ? ? 1]")
	wall.ms.Add(1 << 40)
	expect("[1 ? - ? ? ? 1]") // a clock that stands still judges nothing
	if err := g.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := slices.Compact(tell()); len(got) != 1 || got[0] != "?" {
		t.Errorf("a closed group tells %s", got)
	}
}

// A transaction that has seen a key alive is decided later, as if that were at one time: for
// nobody has the key expired before.
func TestWhatATransactionHasSeenAliveDoesNotExpireBefore(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1_000_000)
	later := func() {}
	_, g := openKnowing(t, Options{ID: 1, Wall: func() int64 { later(); return wall.read() }})
	defer g.Close(context.Background())
	reown(t, g, own.Range{}, serving("b", "", 1))
	do(t, g, &command.Set{Key: at("k"), Value: []byte("v"), Expiry: command.In(100)})
	row, _, err := g.Read(context.Background(), at("k"), nil)
	if err != nil {
		t.Fatal(err)
	}
	prepare := func() {
		do(t, g, &txn.Prepare{
			ID: txn.ID{1}, Decider: 2, DeadlineMS: g.NowMS() + 60_000,
			Part: txn.Part{Span: between("b", ""), Reads: []command.Read{{Key: at("k"), Version: row.Version}}},
		})
		wall.ms.Add(100)
	}
	calls := 0
	later = func() {
		if calls++; calls == 2 { // Peek has seen that nothing is locked
			later = func() {}
			prepare()
		}
	}
	get := &command.Get{Key: at("k")}
	if reply, err := g.Peek(context.Background(), at("k"), get); err != nil || string(reply.Bytes) != "v" {
		t.Errorf("Peek while it is locked: %+v, %v", reply, err)
	}
	if reply, err := g.Peek(context.Background(), at("k"), get); err != nil || string(reply.Bytes) != "v" {
		t.Errorf("Peek: %+v, %v", reply, err)
	}
	if got := text(t, g, "k"); got != "v" {
		t.Errorf("Read: %q", got)
	}
	var reading Reading
	g.ReadMany(context.Background(), &reading, [][]byte{append(BeginRowKey(nil), at("k")...)})
	if r := reading.Rows[0]; r.Known && !r.Found {
		t.Error("ReadMany says that it has expired")
	}
}

// A row that was read long ago may have expired since, and nothing tells of that but the clock.
func TestARowThatHasExpiredIsNotStillThere(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1_000_000)
	_, g := openKnowing(t, Options{Alone: true, Wall: wall.read})
	defer g.Close(context.Background())
	do(t, g, &command.Set{Key: at("passing"), Value: []byte("2"), Expiry: command.In(100)})
	var reading Reading
	g.ReadMany(context.Background(), &reading, [][]byte{append(BeginRowKey(nil), at("passing")...)})
	r := &reading.Rows[0]
	if !r.Found || !r.Still() {
		t.Fatalf("read is %+v", r)
	}
	wall.ms.Add(100)
	g.Timely(context.Background())
	if r.Still() {
		t.Error("it is still there when it has expired")
	}
}

// Large rows are not all read at once: who must not wait would be held up, and memory is short.
func TestFewBytesAreReadTogether(t *testing.T) {
	const n, size = 20, 100 << 10
	_, g := openKnowing(t, Options{Alone: true})
	defer g.Close(context.Background())
	var keys [][]byte
	for i := range n {
		key := string(rune('a' + i))
		do(t, g, set(key, strings.Repeat("x", size)))
		keys = append(keys, append(BeginRowKey(nil), at(key)...))
	}
	do(t, g, set("huge", strings.Repeat("x", 2*mostValues)))
	known := func(read func(context.Context, *Reading, [][]byte), keys ...[]byte) (known int) {
		var r Reading
		read(context.Background(), &r, keys)
		for i := range r.Rows {
			if r.Rows[i].Known {
				known++
			}
		}
		return known
	}
	if got := known(g.ReadMany, keys...); got != mostValues/size {
		t.Errorf("%d rows are read together", got)
	}
	if got := known(g.ReadNear, keys...); got != nearValues/size {
		t.Errorf("%d rows are read by one who must not wait", got)
	}
	if got := known(g.ReadNear, append(BeginRowKey(nil), at("huge")...)); got != 1 {
		t.Error("a row that is larger than that is never read")
	}
}
