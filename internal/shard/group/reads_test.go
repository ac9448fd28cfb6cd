package group

import (
	"context"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/partition"
)

// What a batch on its way to the disk has found alive does not expire for
// readers meanwhile: they would see it come back.
func TestAKeyDoesNotExpireUnderABatchThatKeepsIt(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1_000_000)
	d := newMemoryDisk(true)
	g := openGroup(t, d, Options{Wall: wall.readMS})
	mustDo(t, g, &command.Set{Key: positionOf("k"), Value: []byte("v"), Expiry: command.ExpireIn(10)})
	d.before = func() {
		d.before = nil
		wall.ms.Add(20)
		if got := readText(t, g, "k"); got != "v" {
			t.Errorf("while the key is being persisted it is %q, want v", got)
		}
	}
	if reply := mustDo(t, g, &command.Persist{Key: positionOf("k")}); reply.Int != 1 {
		t.Fatalf("persist says %d", reply.Int)
	}
	if got := readText(t, g, "k"); got != "v" {
		t.Errorf("after that it is %q, want v", got)
	}
}

func TestAKeyThatIsPersistedDuringAReadIsThere(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1_000_000)
	d := newMemoryDisk(true)
	g := openGroup(t, d, Options{Wall: wall.readMS})
	mustDo(t, g, &command.Set{Key: positionOf("k"), Value: []byte("v"), Expiry: command.ExpireIn(10)})
	d.after = func([]byte) {
		d.after = nil
		mustDo(t, g, &command.Persist{Key: positionOf("k")})
		wall.ms.Add(20)
	}
	if got := readText(t, g, "k"); got != "v" {
		t.Errorf("read as %q, want v", got)
	}
}

func TestTimeThatIsGivenOutDuringCloseIsNotGivenOutAgain(t *testing.T) {
	var wall wallClock
	wall.ms.Store(1_000_000)
	d := newMemoryDisk(true)
	g := openGroup(t, d, Options{Wall: wall.readMS})
	var seen int64
	d.before = func() {
		wall.ms.Add(50)
		seen = g.NowMS()
	}
	if err := g.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	d.before = nil
	wall.ms.Add(-40)
	if now := openGroup(t, d, Options{Wall: wall.readMS}).NowMS(); now < seen {
		t.Errorf("the clock says %d after %d", now, seen)
	}
}

// A field that a transaction replaces together with its hash is there before
// and after, so a read never misses it.
func TestAFieldThatIsReplacedWithItsHashIsNeverAbsent(t *testing.T) {
	d := newMemoryDisk(true)
	g := openGroup(t, d, Options{})
	replace := func() command.Command {
		return &command.Batch{Commands: []command.Command{
			&command.Delete{Keys: []partition.Position{positionOf("h")}},
			&command.HSet{Key: positionOf("h"), Fields: []command.FieldValue{{Field: []byte("f"), Value: []byte("v")}}},
		}}
	}
	mustDo(t, g, replace())
	times := 0
	d.after = func([]byte) {
		if times++; times <= 3 { // after the row, and again
			after := d.after
			d.after = nil
			mustDo(t, g, replace())
			d.after = after
		}
	}
	reply, err := g.EvalReadOnly(context.Background(), positionOf("h"), &command.HGet{Key: positionOf("h"), Field: []byte("f")})
	if err != nil || string(reply.Bytes) != "v" {
		t.Errorf("read %+v, %v", reply, err)
	}
	reply, err = g.EvalReadOnly(context.Background(), positionOf("h"), &command.HGet{Key: positionOf("h"), Field: []byte("other")})
	if err != nil || reply.Kind != command.Nil {
		t.Errorf("read of a field that never was: %+v, %v", reply, err)
	}
}

// What a transaction writes to a field and deletes with the hash is there neither before nor
// after, so a read never finds it.
func TestAFieldThatIsDeletedAsItIsWrittenIsNeverRead(t *testing.T) {
	set := func(field, value string) command.Command {
		return &command.HSet{Key: positionOf("h"), Fields: []command.FieldValue{{Field: []byte(field), Value: []byte(value)}}}
	}
	remove := &command.Delete{Keys: []partition.Position{positionOf("h")}}
	for name, then := range map[string][]command.Command{
		"deleted":           {remove},
		"replaced":          {&command.Set{Key: positionOf("h"), Value: []byte("string")}},
		"expired":           {&command.Expire{Key: positionOf("h"), Expiry: command.ExpireAt(1)}},
		"made with another": {remove, set("other", "v")},
	} {
		for _, field := range []string{"f", "new"} {
			d := newMemoryDisk(true)
			g := openGroup(t, d, Options{})
			mustDo(t, g, set("f", "v"))
			d.after = func([]byte) { // after the row
				d.after = nil
				mustDo(t, g, &command.Batch{Commands: append([]command.Command{set(field, "never")}, then...)})
			}
			reply, err := g.EvalReadOnly(context.Background(), positionOf("h"), &command.HGet{Key: positionOf("h"), Field: []byte(field)})
			if err != nil || string(reply.Bytes) == "never" {
				t.Errorf("%s, %s: read %q, %v", name, field, reply.Bytes, err)
			}
		}
	}
}
