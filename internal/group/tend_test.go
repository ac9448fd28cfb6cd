package group

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// Housekeeping gets on where nothing is in memory, and everything takes long.
func TestHousekeepingGetsOnThoughADiskIsFar(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1_000_000)
	d, g := openKnowing(t, Options{Alone: true, Wall: wall.read})
	const keys, fields = 20, 3 * tendLimit
	for i := range keys {
		key := at(fmt.Sprint("k", i))
		do(t, g, &command.Set{Key: key, Value: []byte("v"), Expiry: command.In(10)})
		d.unknown[string(append(BeginRowKey(nil), key...))] = true
	}
	for i := range fields {
		do(t, g, &command.HSet{Key: at("h"), Fields: []command.FieldValue{{Field: fmt.Append(nil, i), Value: []byte("v")}}})
	}
	do(t, g, &command.Delete{Keys: []partition.Position{at("h")}})
	*d.far = true
	wall.ms.Add(20)
	for more, n := true, 0; more || n < 3; n++ {
		var err error
		if more, err = g.Tend(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range []effect.Table{effect.Rows, effect.Expiry, effect.Orphans} {
		if n := d.count(table); n != 0 {
			t.Errorf("%d rows are left in table %d", n, table)
		}
	}
	if got := g.Metrics().Expired; got != keys {
		t.Errorf("%d keys have expired, want %d", got, keys)
	}
}

// breaking is a disk that cannot read a row.
type breaking struct {
	knowing
	row   string
	tries int
}

var errBroken = errors.New("this cannot be read")

func (b *breaking) Get(key, dst []byte) ([]byte, bool, error) {
	if string(key) == b.row {
		b.tries++
		return nil, false, errBroken
	}
	return b.knowing.Get(key, dst)
}

// A row that cannot be read keeps no other from expiring, and is looked at again from time to time.
func TestARowThatCannotBeReadKeepsNoOtherFromExpiring(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1_000_000)
	d := &breaking{knowing: knowing{newDisk(true), map[string]bool{}, new(bool)}}
	g, err := Open(d, d, Options{Alone: true, Wall: wall.read})
	if err != nil {
		t.Fatal(err)
	}
	const keys = 20
	for i := range keys {
		do(t, g, &command.Set{Key: at(fmt.Sprint("k", i)), Value: []byte("v"), Expiry: command.In(10)})
	}
	d.row = string(append(BeginRowKey(nil), at("k0")...))
	wall.ms.Add(20)
	failures := 0
	for range 50 {
		if _, err := g.Tend(context.Background()); errors.Is(err, errBroken) {
			failures++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n := d.count(effect.Rows); n != 1 {
		t.Errorf("%d rows are left", n)
	}
	if failures == 0 || failures > 3 || d.tries > 3 {
		t.Errorf("%d rounds have failed of 50 at one time; the row was read %d times", failures, d.tries)
	}
	d.row = ""
	wall.ms.Add(unreadMS)
	for range 3 {
		if _, err := g.Tend(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if n := d.count(effect.Rows); n != 0 {
		t.Errorf("%d rows are left when it can be read again", n)
	}
}

// Scan fails among the elements of a key.
func (b *breaking) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	if b.row != "" && strings.HasPrefix(string(start), b.row) {
		return errBroken
	}
	return b.knowing.Scan(start, end, reverse, visit)
}

// A deleted hash that cannot be read keeps no other from being swept.
func TestAHashThatCannotBeReadKeepsNoOtherFromBeingSwept(t *testing.T) {
	d := &breaking{knowing: knowing{newDisk(true), map[string]bool{}, new(bool)}}
	g, err := Open(d, d, Options{Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	const hashes, fields = 5, 10
	for h := range hashes {
		key := at(fmt.Sprint("h", h))
		for i := range fields {
			do(t, g, &command.HSet{Key: key, Fields: []command.FieldValue{{Field: fmt.Append(nil, i), Value: []byte("v")}}})
		}
		do(t, g, &command.Delete{Keys: []partition.Position{key}})
	}
	d.row, *d.far = string(append(BeginRowKey(nil), at("h0")...)), true
	for range 20 {
		if _, err := g.Tend(context.Background()); err != nil && !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
	}
	if rows, notes := d.count(effect.Rows), d.count(effect.Orphans); rows != fields || notes != 1 {
		t.Errorf("%d rows and %d notes are left", rows, notes)
	}
}

// What a transaction has locked is removed when it is not locked any more, and nobody hurries until then.
func TestWhatIsLockedIsRemovedLater(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1_000_000)
	d := newDisk(true)
	g := open(t, d, Options{ID: 1, Wall: wall.read})
	reown(t, g, own.Range{}, serving("a", "", 1))
	tend := func() (more bool) {
		t.Helper()
		more, err := g.Tend(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return more
	}
	for tend() {
	}
	do(t, g, &command.Set{Key: at("k"), Value: []byte("v"), Expiry: command.In(10)})
	do(t, g, &command.HSet{Key: at("h"), Fields: []command.FieldValue{{Field: []byte("f"), Value: []byte("v")}}})
	do(t, g, &command.Delete{Keys: []partition.Position{at("h")}})
	wall.ms.Add(20)
	deadline := g.NowMS() + 60_000
	do(t, g, &txn.Prepare{ID: txn.ID{1}, Decider: 2, DeadlineMS: deadline,
		Part: txn.Part{Span: between("a", ""), Writes: []command.Command{set("k", "new"), set("h", "new")}}})
	hurries := 0
	for range 20 {
		if tend() {
			hurries++
		}
	}
	if hurries > 2 {
		t.Errorf("there is more to do at once %d times of 20", hurries)
	}
	do(t, g, &txn.Resolve{ID: txn.ID{1}, Span: between("a", ""), Commit: false, DeadlineMS: deadline})
	for range 20 {
		wall.ms.Add(100)
		tend()
	}
	if rows, expiries, notes := d.count(effect.Rows), d.count(effect.Expiry), d.count(effect.Orphans); rows+expiries+notes != 0 {
		t.Errorf("%d rows, %d expiries and %d notes are left", rows, expiries, notes)
	}
}

// The notes of another group of the store, however many, keep none from those of its own.
func TestAGroupFindsItsOrphansBehindThoseOfAnother(t *testing.T) {
	d := newDisk(true)
	var groups [2]*Group
	for i, span := range []own.Range{serving("a", "m", 1), serving("m", "", 1)} {
		groups[i] = open(t, d, Options{ID: partition.GroupID(1 + i)})
		reown(t, groups[i], own.Range{}, span)
	}
	leave := func(g *Group, key string) {
		do(t, g, &command.HSet{Key: at(key), Fields: []command.FieldValue{{Field: []byte("f"), Value: []byte("v")}}})
		do(t, g, &command.Delete{Keys: []partition.Position{at(key)}})
	}
	const others = 3 * sweepKeys
	for i := range others {
		leave(groups[0], fmt.Sprintf("b%02d", i))
	}
	leave(groups[1], "n")
	for range 5 {
		if more, err := groups[1].Tend(context.Background()); err != nil {
			t.Fatal(more, err)
		}
	}
	if n := d.count(effect.Orphans); n != others {
		t.Errorf("%d notes are left, want the %d of the other group", n, others)
	}
}
