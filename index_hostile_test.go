package cleave

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/index"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/partition"
)

// Whoever opens an index while another goroutine makes it may use it at once.
func TestAnIndexThatSeveralOpenAtOnceMayBeUsedByAll(t *testing.T) {
	db := small(t, 2)
	ks := rangeSpace(t, db, "k")
	for round := range 20 {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				limited, cancel := context.WithTimeout(ctx, hanging())
				defer cancel()
				ix, err := db.OpenIndex(ctx, IndexOptions{Name: fmt.Sprint("i", round), Keyspace: ks, Mode: IndexMode(round % 2), Columns: "a"})
				if err == nil {
					_, err = ix.Status()
				}
				if err == nil {
					err = ix.Wait(limited)
				}
				if err == nil {
					err = ix.waitNow(limited)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		must(t, db.DropIndex(ctx, "k", fmt.Sprint("i", round)))
	}
}

// A row whose entries do not fit has none in an index that follows, and is counted. It
// does not keep others from theirs.
func TestAnIndexThatFollowsPassesOverRowsThatDoNotFit(t *testing.T) {
	for name, row := range map[string]struct {
		key   []byte
		value string
	}{
		"long key":             {bytes.Repeat([]byte("k"), 16<<10), "de"},
		"long key of zeros":    {make([]byte, 16<<10), "de"},
		"half a key of zeros":  {make([]byte, 8<<10), "de"},
		"long field":           {[]byte("a"), string(make([]byte, 9<<10))},
		"large entry":          {[]byte("a"), "large"},
		"too large an entry":   {[]byte("a"), "too large"},
		"many entries":         {[]byte("a"), "many"},
		"many entries and big": {[]byte("a"), "many big"},
		"many long entries":    {[]byte("a"), "many long"},
		"panics":               {[]byte("a"), "panic"},
		"error":                {[]byte("a"), "error"},
		"bad type":             {[]byte("a"), "type"},
	} {
		t.Run(name, func(t *testing.T) {
			db := small(t, 1)
			ks := rangeSpace(t, db, "k")
			ix := mustIndex(t, db, IndexOptions{Name: "i", Keyspace: ks, Mode: Asynchronous, Function: "f", Extract: hostileEntries})
			_, err := ks.HSet(ctx, row.key, fields("f", row.value)...)
			must(t, err)
			_, err = ks.HSet(ctx, []byte("z"), fields("f", "nz")...)
			must(t, err)
			limited, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			if err := ix.waitNow(limited); err != nil {
				t.Fatal(err)
			}
			expectFound(t, ix, IndexScanOptions{Prefix: key.Tuple{"nz"}}, `("nz")=z`)
			report, err := ix.Verify(limited)
			if err != nil || !report.Clean() {
				t.Errorf("%+v %v", report, err)
			}
		})
	}
}

func hostileEntries(r IndexRow) (all []IndexEntry, _ error) {
	text := string(r.Field("f"))
	switch text {
	case "large":
		return []IndexEntry{{key.Tuple{text}, make([]byte, 7<<20)}}, nil
	case "too large":
		return []IndexEntry{{key.Tuple{text}, make([]byte, 65<<20)}}, nil
	case "many", "many big", "many long":
		big := make([]byte, 1<<20)
		for i := range 1000 {
			e := IndexEntry{Entry: key.Tuple{text, i}}
			if text == "many big" {
				e.Value = big
			}
			if text == "many long" {
				e.Entry = append(e.Entry, bytes.Repeat([]byte("x"), 15<<10))
			}
			all = append(all, e)
		}
		return all, nil
	case "panic":
		panic("no")
	case "error":
		return nil, errors.New("no")
	case "type":
		return []IndexEntry{{Entry: key.Tuple{struct{}{}}}}, nil
	}
	return []IndexEntry{{Entry: key.Tuple{text}}}, nil
}

// Whoever looked after an index that was dropped is gone, and nothing is kept of it.
func TestNobodyLooksAfterADroppedIndex(t *testing.T) {
	db := small(t, 1)
	for i := range 6 {
		ks := rangeSpace(t, db, "k")
		mustIndex(t, db, IndexOptions{Name: "i", Keyspace: ks, Mode: IndexMode(i % 2), Columns: "a"})
		if i < 3 {
			must(t, db.DropIndex(ctx, "k", "i"))
		}
		must(t, db.DropKeyspace(ctx, "k"))
	}
	db.keepers.mu.Lock()
	defer db.keepers.mu.Unlock()
	if n := len(db.keepers.by); n > 0 {
		t.Errorf("%d are looked after still", n)
	}
}

// Whoever makes an index and does not wait for the end of that leaves one behind that is
// built all the same, and misses no row that was on its way.
func TestAnIndexWhoseMakerHasLeftMissesNoRowThatWasOnItsWay(t *testing.T) {
	db := small(t, 4) // entries and rows apart
	ks, p := awayFromTheCatalog(t, db)
	gate := &slowGate{node.Plain{Space: ks.space}, db, make(chan struct{})}
	written := make(chan error)
	go func() {
		reply, err := ks.part(p).Group.Do(ctx, group.Request{Command: &command.Set{Key: p, Value: []byte("1")}, Key: p, Gate: gate})
		written <- errors.Join(err, reply.Err)
	}()
	<-gate.passed
	leaving, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
	defer cancel()
	o := IndexOptions{Name: "all", Keyspace: ks, Function: "all", Extract: everything}
	if _, err := db.CreateIndex(leaving, o); err == nil {
		t.Fatal("the row was not on its way")
	}
	ix := mustIndex(t, db, o)
	must(t, <-written)
	if n, err := saysAsRows(db, ix, everything); err != nil || n != 1 {
		t.Errorf("%d entries: %v", n, err)
	}
}

// awayFromTheCatalog makes a keyspace whose first key is not where keyspaces are made:
// who makes one would wait for what is done there.
func awayFromTheCatalog(t *testing.T, db *DB) (ks *Keyspace, p partition.Position) {
	for i := 0; ks == nil || ks.part(p).ID == 1; i++ {
		ks = rangeSpace(t, db, fmt.Sprint("k", i))
		p = ks.space.AppendPosition(nil, []byte("a"))
	}
	return ks, p
}

// A build that was interrupted behind its last page ends when the store is opened again.
func TestABuildThatLacksNothingButTheNoteEnds(t *testing.T) {
	dir := t.TempDir()
	db := onDisk(t, dir, 1)
	must(t, db.Default().Set(ctx, []byte("a"), []byte("1")))
	o := IndexOptions{Name: "i", Keyspace: db.Default(), Columns: "a"}
	mustIndex(t, db, o)
	x, err := db.node.Index("default", "i")
	must(t, err)
	must(t, db.node.MarkIndex(ctx, x, false))
	mustClose(t, db)
	db = onDisk(t, dir, 1)
	defer mustClose(t, db)
	o.Keyspace = db.Default()
	verified(t, mustIndex(t, db, o))
}

// Groups have clocks of their own, which are apart after a crash. An entry that follows its
// row is gone by the clock of its group while the row is there by that of its own, or the
// other way round: that is no fault of the index.
func TestAnIndexThatFollowsIsWellWhileClocksDiffer(t *testing.T) {
	for _, ahead := range []string{"entries", "rows"} {
		db := small(t, 2)
		ks, p := awayFromTheCatalog(t, db)
		rows := ks.part(p).Group
		var ix *Index
		var entries *group.Group
		for i := 0; entries == nil || entries == rows; i++ {
			ix = mustIndex(t, db, IndexOptions{Name: fmt.Sprint(i), Keyspace: ks, Mode: Asynchronous, Function: "all", Extract: everything})
			start, _ := index.Entries()
			entries = ix.entries.part(ix.entries.space.AppendPosition(nil, start)).Group
		}
		key, _, err := ks.space.Split(nil, p)
		must(t, err)
		_, err = ks.SetWith(ctx, key, []byte("1"), SetOptions{TTL: 4 * time.Second})
		must(t, err)
		must(t, ix.waitNow(ctx))
		turned := entries
		if ahead == "rows" {
			turned = rows
		}
		reply, err := turned.Do(ctx, group.Request{Command: &own.Reown{ClockFloorMS: turned.NowMS() + 6000}})
		must(t, errors.Join(err, reply.Err))
		report, err := ix.Verify(ctx)
		must(t, err)
		if !report.Clean() {
			t.Errorf("the clock of the %s is ahead: %+v", ahead, report)
		}
	}
}

// Who writes while a unique index is dropped does not hear of it.
func TestAWriteOutlivesItsUniqueIndex(t *testing.T) {
	db := small(t, 2)
	ks := db.Default()
	ix, err := db.CreateIndex(ctx, IndexOptions{Name: "mail", Keyspace: ks, Columns: "mail", Unique: true})
	must(t, err)
	must(t, ix.Wait(ctx))
	attempts := 0
	must(t, db.Update(ctx, func(tx *Txn) error {
		if _, err := tx.HSet(ks, []byte("a"), fields("mail", "a@example.org")...); err != nil {
			return err
		}
		if attempts++; attempts > 1 {
			return nil
		}
		for _, err := range tx.ScanIndex(ix, IndexScanOptions{}) { // its entry is written with that
			if err != nil {
				return err
			}
		}
		return db.DropIndex(ctx, ks.Name(), "mail")
	}))
	if mail, err := ks.HGet(ctx, []byte("a"), []byte("mail")); err != nil || string(mail) != "a@example.org" || attempts != 2 {
		t.Errorf("%q, %v, after %d attempts", mail, err, attempts)
	}
}
