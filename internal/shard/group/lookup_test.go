package group

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/storage/rowcache"
	"github.com/cleavekv/cleave/partition"
)

// cachedDisk is a disk some of whose rows are in memory.
type cachedDisk struct {
	*memoryDisk
	unknown map[string]bool // by row key
	slow    *bool           // what is unknown takes long
}

func (k cachedDisk) Lookup(key, dst []byte) (value []byte, found, known bool) {
	if k.unknown[string(key)] {
		return dst, false, false
	}
	value, found, _ = k.Get(key, dst)
	return value, found, true
}

func (k cachedDisk) LookupSize(key []byte) (int, bool) { return 0, !k.unknown[string(key)] }

func (k cachedDisk) Sequence() uint64 { return 1 } // no writer counts it

func (k cachedDisk) Prefetch(keys ...[]byte) {
	for _, key := range keys {
		delete(k.unknown, string(key))
	}
}

func (k cachedDisk) GetMany(keys [][]byte, nonBlocking bool, visit func(i int, value []byte, ok bool, _ rowcache.Ticket) bool) error {
	if nonBlocking && *k.slow {
		return nil
	}
	for i, key := range slices.Backward(keys) {
		value, ok, err := k.Get(key, nil)
		if err != nil {
			return err
		}
		if !visit(i, value, ok, rowcache.Ticket{}) {
			break
		}
	}
	return nil
}

func (k cachedDisk) LookupView(key, dst []byte) ([]byte, bool, bool) { return k.Lookup(key, dst) }

func (k cachedDisk) IsCurrent(rowcache.Ticket) bool { return true }

func (k cachedDisk) ScanNonBlocking(start, end []byte, reverse bool, visit func(key, value []byte) bool) (fast bool, err error) {
	if *k.slow {
		return false, nil
	}
	return true, k.Scan(start, end, reverse, visit)
}

func (k cachedDisk) PrefetchIndex([]byte) uint64 { return 7 }

func (k cachedDisk) PrefetchRow(hint uint64) {
	if hint != 7 {
		panic("a hint that nobody gave")
	}
}

// openCached opens a group of such a state.
func openCached(t *testing.T, o Options) (cachedDisk, *Group) {
	t.Helper()
	d := cachedDisk{newMemoryDisk(true), map[string]bool{}, new(bool)}
	g, err := Open(d, d, o)
	if err != nil {
		t.Fatal(err)
	}
	return d, g
}

func TestALookIsAReadThatWaitsForNothing(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1_000_000)
	d, g := openCached(t, Options{OwnsAll: true, Wall: wall.readMS})
	rowKey := func(key string) RowKey { return append(AppendRowKeyPrefix(nil), positionOf(key)...) }
	look := func(key string) (string, bool, bool) {
		t.Helper()
		l := g.NewLookup(rowKey(key))
		l.PrefetchRow()
		row, value, found, known := l.Get([]byte("before"))
		if string(value[:6]) != "before" {
			t.Errorf("look at %s: %q does not begin with what was there", key, value)
		}
		return string(row.Payload), found, known
	}
	mustDo(t, g, &command.Set{Key: positionOf("lasting"), Value: []byte("1")})
	mustDo(t, g, &command.Set{Key: positionOf("passing"), Value: []byte("2"), Expiry: command.ExpireIn(100)})
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
	g.EnsureTime(context.Background())
	if value, found, known := look("passing"); found || !known {
		t.Errorf("look at a row that has expired: %q, found %v, known %v", value, found, known)
	}
	mustDo(t, g, &command.Set{Key: positionOf("passing"), Value: []byte("2"), Expiry: command.ExpireIn(100)})
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

// readRows reads rows of a group.
func readRows(r *RowBuffer, g *Group, nonBlocking bool, keys ...[]byte) {
	r.Reset()
	for _, k := range keys {
		r.Add(g, k)
	}
	r.Read(context.Background(), nonBlocking)
}

func TestReadRowsTellsWhatIsSimple(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1_000_000)
	_, g := openCached(t, Options{ID: 1, Wall: wall.readMS})
	replaceRange(t, g, ownership.Range{}, servingRange("b", "", 1))
	mustDo(t, g, newSet("lasting", "1"))
	mustDo(t, g, &command.Set{Key: positionOf("passing"), Value: []byte("2"), Expiry: command.ExpireIn(100)})
	mustDo(t, g, newSet("locked", "3"))
	mustDo(t, g, &txn.Prepare{
		ID: txn.ID{1}, CoordinatorGroup: 2, DeadlineMS: g.NowMS() + 60_000,
		Participant: txn.Participant{Span: spanBetween("b", ""), Writes: []command.Command{newSet("locked", "4"), newSet("new", "5")}},
	})
	var keys [][]byte
	for _, k := range []string{"lasting", "passing", "never", "locked", "new", "away", "lasting"} {
		keys = append(keys, append(AppendRowKeyPrefix(nil), positionOf(k)...))
	}
	var reading RowBuffer // used again
	tell := func() (told []string) {
		readRows(&reading, g, false, keys...)
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
	g.EnsureTime(context.Background())
	expect("[1 - - ? ? ? 1]")
	mustDo(t, g, &command.Set{Key: positionOf("passing"), Value: []byte("2"), Expiry: command.ExpireIn(100)})
	wall.ms.Add(1 << 40)
	expect("[1 ? - ? ? ? 1]") // with a clock that stands still nothing expires
	if err := g.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := slices.Compact(tell()); len(got) != 1 || got[0] != "?" {
		t.Errorf("a closed group tells %s", got)
	}
}

// Rows of several groups of a store are read together, each by what its own group says of it.
func TestRowBuffer_RowsOfSeveralGroups_AreJudgedByTheirOwn(t *testing.T) {
	d := cachedDisk{newMemoryDisk(true), map[string]bool{}, new(bool)}
	var groups []*Group
	for i, span := range []string{"am", "mz"} {
		g, err := Open(d, d, Options{ID: partition.GroupID(i + 1)})
		if err != nil {
			t.Fatal(err)
		}
		replaceRange(t, g, ownership.Range{}, servingRange(span[:1], span[1:], 1))
		groups = append(groups, g)
	}
	defer groups[1].Close(context.Background())
	mustDo(t, groups[0], newSet("b", "1"))
	mustDo(t, groups[1], newSet("n", "2"))
	var reading RowBuffer
	read := func() (got string) {
		reading.Reset()
		for _, r := range []struct {
			g   *Group
			key string
		}{{groups[0], "b"}, {groups[1], "n"}, {groups[1], "b"}, {groups[0], "n"}, {groups[1], "o"}, {groups[0], "b"}} {
			reading.Add(r.g, append(AppendRowKeyPrefix(nil), positionOf(r.key)...))
		}
		reading.Read(context.Background(), false)
		for _, r := range reading.Rows {
			switch {
			case !r.Known:
				got += "?"
			case !r.Found:
				got += "-"
			default:
				got += string(r.Row.Payload)
			}
		}
		return got
	}
	if got := read(); got != "12??-1" {
		t.Errorf("read %s", got)
	}
	if err := groups[0].Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "?2??-?" {
		t.Errorf("read %s when the first group is closed", got)
	}
}

// A transaction that has seen a key alive is decided later, as if both were at one time: no
// reader sees the key expired before.
func TestWhatATransactionHasSeenAliveDoesNotExpireBefore(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1_000_000)
	later := func() {}
	_, g := openCached(t, Options{ID: 1, Wall: func() int64 { later(); return wall.readMS() }})
	defer g.Close(context.Background())
	replaceRange(t, g, ownership.Range{}, servingRange("b", "", 1))
	mustDo(t, g, &command.Set{Key: positionOf("k"), Value: []byte("v"), Expiry: command.ExpireIn(100)})
	row, _, err := g.Read(context.Background(), positionOf("k"), nil)
	if err != nil {
		t.Fatal(err)
	}
	prepare := func() {
		mustDo(t, g, &txn.Prepare{
			ID: txn.ID{1}, CoordinatorGroup: 2, DeadlineMS: g.NowMS() + 60_000,
			Participant: txn.Participant{Span: spanBetween("b", ""), Reads: []command.Read{{Key: positionOf("k"), Version: row.Version}}},
		})
		wall.ms.Add(100)
		g.EnsureTime(context.Background()) // or the clock would stand still before the key expires
	}
	calls := 0
	later = func() {
		if calls++; calls == 2 { // the lookup has seen that nothing is locked
			later = func() {}
			prepare()
		}
	}
	get := &command.Get{Key: positionOf("k")}
	if reply, err := g.EvalReadOnly(context.Background(), positionOf("k"), get); err != nil || string(reply.Bytes) != "v" {
		t.Errorf("Peek while it is locked: %+v, %v", reply, err)
	}
	if reply, err := g.EvalReadOnly(context.Background(), positionOf("k"), get); err != nil || string(reply.Bytes) != "v" {
		t.Errorf("Peek: %+v, %v", reply, err)
	}
	if got := readText(t, g, "k"); got != "v" {
		t.Errorf("Read: %q", got)
	}
	var reading RowBuffer
	readRows(&reading, g, false, append(AppendRowKeyPrefix(nil), positionOf("k")...))
	if r := reading.Rows[0]; r.Known && !r.Found {
		t.Error("ReadRows says that it has expired")
	}
}

// A row that was read long ago may have expired since, and only the clock shows that.
func TestARowThatHasExpiredIsNotStillThere(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1_000_000)
	_, g := openCached(t, Options{OwnsAll: true, Wall: wall.readMS})
	defer g.Close(context.Background())
	mustDo(t, g, &command.Set{Key: positionOf("passing"), Value: []byte("2"), Expiry: command.ExpireIn(100)})
	var reading RowBuffer
	readRows(&reading, g, false, append(AppendRowKeyPrefix(nil), positionOf("passing")...))
	r := &reading.Rows[0]
	if !r.Found || !r.IsCurrent() {
		t.Fatalf("read is %+v", r)
	}
	wall.ms.Add(100)
	g.EnsureTime(context.Background())
	if r.IsCurrent() {
		t.Error("it is still there when it has expired")
	}
}

// Large rows are not all read at once: a caller that must not wait would be held up, and memory
// is short.
func TestFewBytesAreReadTogether(t *testing.T) {
	const n, size = 20, 100 << 10
	_, g := openCached(t, Options{OwnsAll: true})
	defer g.Close(context.Background())
	var keys [][]byte
	for i := range n {
		key := string(rune('a' + i))
		mustDo(t, g, newSet(key, strings.Repeat("x", size)))
		keys = append(keys, append(AppendRowKeyPrefix(nil), positionOf(key)...))
	}
	mustDo(t, g, newSet("huge", strings.Repeat("x", 2*maxValueBytes)))
	known := func(nonBlocking bool, keys ...[]byte) (known int) {
		var r RowBuffer
		readRows(&r, g, nonBlocking, keys...)
		for i := range r.Rows {
			if r.Rows[i].Known {
				known++
			}
		}
		return known
	}
	if got := known(false, keys...); got != maxValueBytes/size {
		t.Errorf("%d rows are read together", got)
	}
	if got := known(true, keys...); got != maxNonBlockingValueBytes/size {
		t.Errorf("%d rows are read by one who must not wait", got)
	}
	if got := known(true, append(AppendRowKeyPrefix(nil), positionOf("huge")...)); got != 1 {
		t.Error("a row that is larger than that is never read")
	}
}
