package group

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/partition"
)

// Housekeeping gets on where nothing is in memory, and everything takes long.
func TestHousekeepingGetsOnThoughADiskIsFar(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1_000_000)
	d, g := openCached(t, Options{OwnsAll: true, Wall: wall.readMS})
	const keys, fields = 20, 3 * housekeepLimit
	for i := range keys {
		key := positionOf(fmt.Sprint("k", i))
		mustDo(t, g, &command.Set{Key: key, Value: []byte("v"), Expiry: command.ExpireIn(10)})
		d.unknown[string(append(AppendRowKeyPrefix(nil), key...))] = true
	}
	for i := range fields {
		mustDo(t, g, &command.HSet{Key: positionOf("h"), Fields: []command.FieldValue{{Field: fmt.Append(nil, i), Value: []byte("v")}}})
	}
	mustDo(t, g, &command.Delete{Keys: []partition.Position{positionOf("h")}})
	*d.slow = true
	wall.ms.Add(20)
	for more, n := true, 0; more || n < 3; n++ {
		var err error
		if more, err = g.Housekeep(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range []effect.Table{effect.Rows, effect.Expiry, effect.Orphans} {
		if n := d.countRows(table); n != 0 {
			t.Errorf("%d rows are left in table %d", n, table)
		}
	}
	if got := g.Metrics().Expired; got != keys {
		t.Errorf("%d keys have expired, want %d", got, keys)
	}
}

// brokenDisk is a disk that cannot read a row.
type brokenDisk struct {
	cachedDisk
	row   string
	tries int
}

var errBroken = errors.New("this cannot be read")

func (b *brokenDisk) Get(key, dst []byte) ([]byte, bool, error) {
	if string(key) == b.row {
		b.tries++
		return nil, false, errBroken
	}
	return b.cachedDisk.Get(key, dst)
}

// A row that cannot be read keeps no other from expiring, and is looked at again from time to time.
func TestARowThatCannotBeReadKeepsNoOtherFromExpiring(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1_000_000)
	d := &brokenDisk{cachedDisk: cachedDisk{newMemoryDisk(true), map[string]bool{}, new(bool)}}
	g, err := Open(d, d, Options{OwnsAll: true, Wall: wall.readMS})
	if err != nil {
		t.Fatal(err)
	}
	const keys = 20
	for i := range keys {
		mustDo(t, g, &command.Set{Key: positionOf(fmt.Sprint("k", i)), Value: []byte("v"), Expiry: command.ExpireIn(10)})
	}
	d.row = string(append(AppendRowKeyPrefix(nil), positionOf("k0")...))
	wall.ms.Add(20)
	failures := 0
	for range 50 {
		if _, err := g.Housekeep(context.Background()); errors.Is(err, errBroken) {
			failures++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n := d.countRows(effect.Rows); n != 1 {
		t.Errorf("%d rows are left", n)
	}
	if failures == 0 || failures > 3 || d.tries > 3 {
		t.Errorf("%d rounds have failed of 50 at one time; the row was read %d times", failures, d.tries)
	}
	d.row = ""
	wall.ms.Add(retryUnreadMS)
	for range 3 {
		if _, err := g.Housekeep(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if n := d.countRows(effect.Rows); n != 0 {
		t.Errorf("%d rows are left when it can be read again", n)
	}
}

// Scan fails among the elements of a key.
func (b *brokenDisk) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	if b.row != "" && strings.HasPrefix(string(start), b.row) {
		return errBroken
	}
	return b.cachedDisk.Scan(start, end, reverse, visit)
}

// A deleted hash that cannot be read keeps no other from being swept.
func TestAHashThatCannotBeReadKeepsNoOtherFromBeingSwept(t *testing.T) {
	d := &brokenDisk{cachedDisk: cachedDisk{newMemoryDisk(true), map[string]bool{}, new(bool)}}
	g, err := Open(d, d, Options{OwnsAll: true})
	if err != nil {
		t.Fatal(err)
	}
	const hashes, fields = 5, 10
	for h := range hashes {
		key := positionOf(fmt.Sprint("h", h))
		for i := range fields {
			mustDo(t, g, &command.HSet{Key: key, Fields: []command.FieldValue{{Field: fmt.Append(nil, i), Value: []byte("v")}}})
		}
		mustDo(t, g, &command.Delete{Keys: []partition.Position{key}})
	}
	d.row, *d.slow = string(append(AppendRowKeyPrefix(nil), positionOf("h0")...)), true
	for range 20 {
		if _, err := g.Housekeep(context.Background()); err != nil && !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
	}
	if rows, notes := d.countRows(effect.Rows), d.countRows(effect.Orphans); rows != fields || notes != 1 {
		t.Errorf("%d rows and %d notes are left", rows, notes)
	}
}

// What a transaction has locked is removed when it is not locked any more, and housekeeping is
// not in a hurry until then.
func TestWhatIsLockedIsRemovedLater(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1_000_000)
	d := newMemoryDisk(true)
	g := openGroup(t, d, Options{ID: 1, Wall: wall.readMS})
	replaceRange(t, g, ownership.Range{}, servingRange("a", "", 1))
	tend := func() (more bool) {
		t.Helper()
		more, err := g.Housekeep(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return more
	}
	for tend() {
	}
	mustDo(t, g, &command.Set{Key: positionOf("k"), Value: []byte("v"), Expiry: command.ExpireIn(10)})
	mustDo(t, g, &command.HSet{Key: positionOf("h"), Fields: []command.FieldValue{{Field: []byte("f"), Value: []byte("v")}}})
	mustDo(t, g, &command.Delete{Keys: []partition.Position{positionOf("h")}})
	wall.ms.Add(20)
	deadline := g.NowMS() + 60_000
	mustDo(t, g, &txn.Prepare{ID: txn.ID{1}, CoordinatorGroup: 2, DeadlineMS: deadline,
		Participant: txn.Participant{Span: spanBetween("a", ""), Writes: []command.Command{newSet("k", "new"), newSet("h", "new")}}})
	hurries := 0
	for range 20 {
		if tend() {
			hurries++
		}
	}
	if hurries > 2 {
		t.Errorf("there is more to do at once %d times of 20", hurries)
	}
	mustDo(t, g, &txn.Resolve{ID: txn.ID{1}, Span: spanBetween("a", ""), Commit: false, DeadlineMS: deadline})
	for range 20 {
		wall.ms.Add(100)
		tend()
	}
	if rows, expiries, notes := d.countRows(effect.Rows), d.countRows(effect.Expiry), d.countRows(effect.Orphans); rows+expiries+notes != 0 {
		t.Errorf("%d rows, %d expiries and %d notes are left", rows, expiries, notes)
	}
}

// The notes of another group of the store, however many, keep none from those of its own.
func TestAGroupFindsItsOrphansBehindThoseOfAnother(t *testing.T) {
	d := newMemoryDisk(true)
	var groups [2]*Group
	for i, span := range []ownership.Range{servingRange("a", "m", 1), servingRange("m", "", 1)} {
		groups[i] = openGroup(t, d, Options{ID: partition.GroupID(1 + i)})
		replaceRange(t, groups[i], ownership.Range{}, span)
	}
	leave := func(g *Group, key string) {
		mustDo(t, g, &command.HSet{Key: positionOf(key), Fields: []command.FieldValue{{Field: []byte("f"), Value: []byte("v")}}})
		mustDo(t, g, &command.Delete{Keys: []partition.Position{positionOf(key)}})
	}
	const others = 3 * maxSweptKeys
	for i := range others {
		leave(groups[0], fmt.Sprintf("b%02d", i))
	}
	leave(groups[1], "n")
	for range 5 {
		if more, err := groups[1].Housekeep(context.Background()); err != nil {
			t.Fatal(more, err)
		}
	}
	if n := d.countRows(effect.Orphans); n != others {
		t.Errorf("%d notes are left, want the %d of the other group", n, others)
	}
}

// What a large collection has left is reported once it is gone, so that its deletions can go too;
// that of a small one is not worth it.
func TestSweep_OfALargeCollection_ReportsItsSpanOnce(t *testing.T) {
	var swept [][2]string
	g := openGroup(t, newMemoryDisk(false), Options{OnSwept: func(start, end []byte) { swept = append(swept, [2]string{string(start), string(end)}) }})
	for key, fields := range map[string]int{"large": minReportedSweep, "small": housekeepLimit + 1} {
		for i := 0; i < fields; {
			hash := &command.HSet{Key: positionOf(key)}
			for ; i < fields && len(hash.Fields) < 8192; i++ {
				hash.Fields = append(hash.Fields, command.FieldValue{Field: fmt.Append(nil, i)})
			}
			mustDo(t, g, hash)
		}
		mustDo(t, g, &command.Delete{Keys: []partition.Position{positionOf(key)}})
		mustDo(t, g, &command.HSet{Key: positionOf(key), Fields: []command.FieldValue{{Field: []byte("new")}}})
	}
	for more := true; more; {
		if len(swept) > 0 && g.housekeeping.sweptCounts["large"] > 0 {
			t.Error("the span is reported before it is swept")
		}
		var err error
		if more, err = g.Housekeep(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	start, end := command.ElementSpan(positionOf("large"))
	if want := [2]string{string(start), string(end)}; len(swept) != 1 || swept[0] != want {
		t.Errorf("the spans are %q, want %q", swept, want)
	}
	if len(g.housekeeping.sweptCounts) != 0 {
		t.Errorf("counts of %d keys are kept", len(g.housekeeping.sweptCounts))
	}
}

// housekeepFixture is a group whose clock and housekeeping a test drives.
type housekeepFixture struct {
	*Group
	t    *testing.T
	disk *memoryDisk
	wall wallClock
}

func newHousekeepFixture(t *testing.T, id partition.GroupID) *housekeepFixture {
	w := &housekeepFixture{t: t, disk: newMemoryDisk(true)}
	w.wall.ms.Store(1_000_000)
	w.Group = openGroup(t, w.disk, Options{ID: id, Wall: w.wall.readMS})
	w.housekeep()
	return w
}

func (w *housekeepFixture) housekeep() {
	for range 5 {
		if _, err := w.Housekeep(context.Background()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// passHour lets an hour pass.
func (w *housekeepFixture) passHour() {
	for range 180 {
		w.wall.ms.Add(20_000)
		w.housekeep()
	}
}

// digestRange is that of what a range holds.
func (w *housekeepFixture) digestRange(from, to string) command.RangeRead {
	d, err := command.DigestRange(w.disk, positionOf(from), positionOf(to), command.AliveAt(w.NowMS()))
	if err != nil {
		w.t.Fatal(err)
	}
	return command.RangeRead{Start: positionOf(from), End: positionOf(to), Digest: d}
}

// A transaction keeps alive what it has read. When it has ended, what expired meanwhile goes.
func TestAKeyThatExpiresUnderALockIsReapedWhenThatIsGone(t *testing.T) {
	for how, part := range map[string]func(w *housekeepFixture, version uint64) txn.Participant{
		"a write": func(*housekeepFixture, uint64) txn.Participant {
			return txn.Participant{Writes: []command.Command{&command.Persist{Key: positionOf("a")}}}
		},
		"a read": func(_ *housekeepFixture, version uint64) txn.Participant {
			return txn.Participant{Reads: []command.Read{{Key: positionOf("a"), Version: version}}}
		},
		"a range": func(w *housekeepFixture, _ uint64) txn.Participant {
			return txn.Participant{Ranges: []command.RangeRead{w.digestRange("a", "b")}}
		},
	} {
		w := newHousekeepFixture(t, 0)
		version := mustDo(t, w.Group, &command.Set{Key: positionOf("a"), Value: []byte("v"), Expiry: command.ExpireIn(100)}).Version
		id, deadline := txn.ID{1}, w.NowMS()+5000
		p := part(w, version)
		p.Span = partition.Whole
		mustDo(t, w.Group, &txn.Prepare{ID: id, CoordinatorGroup: 2, DeadlineMS: deadline, Participant: p})
		w.wall.ms.Add(200)
		w.housekeep()
		if n := w.disk.countRows(effect.Rows); n != 1 {
			t.Errorf("%s: %d rows under the lock", how, n)
		}
		mustDo(t, w.Group, &txn.Resolve{ID: id, Span: p.Span, DeadlineMS: deadline}) // aborted
		w.passHour()
		if rows, expiries := w.disk.countRows(effect.Rows), w.disk.countRows(effect.Expiry); rows+expiries > 0 {
			t.Errorf("%s: %d rows and %d expiries are left", how, rows, expiries)
		}
	}
}

// A range that is frozen when housekeeping comes, and thawed then, is kept house for again.
func TestWhatWasFrozenIsTendedWhenItIsThawed(t *testing.T) {
	w := newHousekeepFixture(t, 1)
	serves := servingRange("a", "m", 1)
	replaceRange(t, w.Group, ownership.Range{}, serves)
	mustDo(t, w.Group, &command.Set{Key: positionOf("k"), Value: []byte("v"), Expiry: command.ExpireIn(10_000)})
	mustDo(t, w.Group, &command.HSet{Key: positionOf("h"), Fields: []command.FieldValue{{Field: []byte("f"), Value: []byte("v")}}})
	mustDo(t, w.Group, &command.Delete{Keys: []partition.Position{positionOf("h")}}) // leaves an orphan
	frozen := serves
	frozen.State = ownership.Frozen
	replaceRange(t, w.Group, serves, frozen)
	replaceRange(t, w.Group, ownership.Range{}, servingRange("n", "p", 1)) // another comes: the queue is filled
	w.housekeep()
	replaceRange(t, w.Group, frozen, serves)
	w.passHour()
	for _, table := range []effect.Table{effect.Rows, effect.Expiry, effect.Orphans} {
		if n := w.disk.countRows(table); n > 0 {
			t.Errorf("%d rows are left of table %d", n, table)
		}
	}
}

// One row that is locked keeps no other from being forgotten.
func TestWhatIsNotLockedIsForgotten(t *testing.T) {
	w := newHousekeepFixture(t, 0)
	mark := func(n byte, key string) {
		mustDo(t, w.Group, &txn.Resolve{ID: txn.ID{n}, Span: spanBetween(key, ""), DeadlineMS: w.NowMS() + 10})
	}
	for i := range byte(100) {
		mark(10+i, string([]byte{'b', i}))
	}
	mark(200, "x")
	mustDo(t, w.Group, &txn.Prepare{ID: txn.ID{1}, CoordinatorGroup: 2, DeadlineMS: w.NowMS() + 1<<40, Participant: txn.Participant{
		Span: partition.Whole, Ranges: []command.RangeRead{w.digestRange("w", "y")},
	}})
	w.passHour()
	if n := w.disk.countRows(effect.Marks); n != 1 {
		t.Errorf("%d marks are left, one is locked", n)
	}
}

// A transaction that has a reservation may have died, or may have failed to release it: no other
// may release it, so the group itself ends it.
func TestAHoldPastItsDeadlineEndsByTending(t *testing.T) {
	clock := &wallClock{}
	clock.ms.Store(1000)
	g := openGroup(t, newMemoryDisk(true), Options{Wall: clock.readMS})
	c := &txn.Reserve{ID: txn.ID{1}, Spans: []txn.ReservedSpan{{Span: txn.KeySpan(positionOf("a")), Write: true}}, DeadlineMS: 2000}
	if reply := mustDo(t, g, c); !txn.IsReserved(reply) {
		t.Fatal("it is not held")
	}
	changed := g.Changed()
	for _, step := range []struct {
		ms   int64
		want error
	}{{2000, txn.ErrReserved}, {2001, nil}} {
		clock.ms.Store(step.ms)
		if _, err := g.Housekeep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := tryCommand(g, newSet("a", "1")); !errors.Is(err, step.want) {
			t.Errorf("at %d: %v, want %v", step.ms, err, step.want)
		}
	}
	select {
	case <-changed:
	default:
		t.Error("those who wait were not woken")
	}
}
