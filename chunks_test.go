package cleave

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/inside"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/key"
)

// longBytes is a value of n bytes that do not repeat.
func longBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// appendTo is APPEND, which clients of the server have.
func appendTo(t testing.TB, k *Keyspace, key string, tail []byte) {
	t.Helper()
	p, err := k.appendPosition(nil, []byte(key))
	must(t, err)
	c := &command.Append{Key: p, Suffix: tail}
	if k.keyspace.Indexes() == nil {
		_, err = k.executeCommand(ctx, p, RequestID{}, c)
		must(t, err)
		return
	}
	must(t, inside.Update(ctx, k.db, func(tx inside.Txn) { err = tx.Eval(k.keyspace, p, c, true).Err }))
	must(t, err)
}

func mustDelete(t testing.TB, k *Keyspace, key string) {
	t.Helper()
	_, err := k.Delete(ctx, []byte(key))
	must(t, err)
}

// readAll reads a key in every way that a program can.
func readAll(t testing.TB, k *Keyspace, key string, want []byte) {
	t.Helper()
	same := func(how string, got []byte, err error) {
		t.Helper()
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s of %s: %d bytes, %v; want %d", how, key, len(got), err, len(want))
		}
	}
	got, err := k.Get(ctx, []byte(key))
	same("Get", got, err)
	item, err := k.Item(ctx, []byte(key))
	same("Item", item.Value, err)
	many, err := k.GetMany(ctx, []byte("absent"), []byte(key))
	must(t, err)
	same("GetMany", many[1], nil)
	scanned := func(how string, items func(func(Item, error) bool)) {
		t.Helper()
		found := false
		for item, err := range items {
			must(t, err)
			if string(item.Key) == key {
				found = true
				same(how, item.Value, nil)
			}
		}
		if !found {
			t.Errorf("%s does not visit %s", how, key)
		}
	}
	for _, o := range []ScanOptions{{}, {Reverse: true}, {Limit: 2}, {Limit: 2, Reverse: true}} {
		scanned(fmt.Sprintf("Scan %+v", o), k.Scan(ctx, ScanOptions{Reverse: o.Reverse}))
		must(t, k.db.View(ctx, func(tx *Txn) error {
			scanned(fmt.Sprintf("Txn.Scan %+v", o), tx.Scan(k, ScanOptions{Reverse: o.Reverse}))
			return nil
		}))
		for o.After = nil; ; {
			page, err := k.ScanPage(ctx, o)
			must(t, err)
			for _, item := range page.Items {
				if string(item.Key) == key {
					same(fmt.Sprintf("Scan %+v", o), item.Value, nil)
				}
			}
			if o.After = page.Next; page.Next == nil {
				break
			}
		}
	}
	must(t, k.db.Update(ctx, func(tx *Txn) error {
		got, err := tx.Get(k, []byte(key))
		same("Txn.Get", got, err)
		item, err := tx.Item(k, []byte(key))
		same("Txn.Item", item.Value, err)
		return tx.Set(k, []byte("other"), []byte("x"))
	}))
}

func TestChunkedString_IsReadAsAnyOther(t *testing.T) {
	for _, stores := range []int{1, 2} {
		t.Run(fmt.Sprint("stores=", stores), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			db := openSmall(t, stores)
			k := rangeSpace(t, db, "k")
			want := longBytes(rng, 200_000)
			for _, key := range []string{"a", "c"} {
				must(t, k.Set(ctx, []byte(key), []byte("short")))
			}
			// What a hash and an older value have left behind lies between the rows.
			_, err := k.HSet(ctx, []byte("b"), Field{Name: []byte("f"), Value: []byte("v")})
			must(t, err)
			mustDelete(t, k, "b")
			appendTo(t, k, "b", longBytes(rng, 300_000))
			mustDelete(t, k, "b")
			appendTo(t, k, "b", want[:150_000])
			appendTo(t, k, "b", want[150_000:])
			readAll(t, k, "b", want)
			item, err := k.Item(ctx, []byte("b"))
			must(t, err)
			if _, err := k.HGet(ctx, []byte("b"), []byte("f")); !errors.Is(err, ErrWrongType) {
				t.Errorf("a field of it: %v", err)
			}
			// By version, as any other.
			if _, err := k.SetWith(ctx, []byte("b"), nil, SetOptions{IfVersion: true, Version: item.Version + 1}); !errors.Is(err, ErrConflict) {
				t.Errorf("Set at another version: %v", err)
			}
			_, err = k.SetWith(ctx, []byte("b"), []byte("replaced"), SetOptions{IfVersion: true, Version: item.Version})
			must(t, err)
			readAll(t, k, "b", []byte("replaced"))
		})
	}
}

func TestChunkedString_IsToldByTheFeedAsLarge(t *testing.T) {
	db := openSmall(t, 1)
	k := rangeSpace(t, db, "k")
	from := db.Head()
	appendTo(t, k, "b", make([]byte, 200_000))
	appendTo(t, k, "b", []byte("x"))
	mustDelete(t, k, "b")
	must(t, k.Set(ctx, []byte("end"), nil))
	var got []string
	for c, err := range db.Feed(ctx, from) {
		must(t, err)
		for _, op := range c.Ops {
			got = append(got, fmt.Sprintf("%s field=%v deleted=%v large=%v value=%d", op.Key, op.Field != nil, op.Deleted, op.Large, len(op.Item.Value)))
			if string(op.Key) == "end" {
				goto done
			}
		}
	}
done:
	want := []string{"b field=false deleted=false large=true value=0", "b field=false deleted=false large=true value=0",
		"b field=false deleted=true large=false value=0", "end field=false deleted=false large=false value=0"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the feed tells\n%q\nwant\n%q", got, want)
	}
}

func TestChunkedString_IsMovedAndSurvivesACrash(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	disks := newCrashables(2)
	db := mustOpen(t, disks.options(wal.Always))
	k := rangeSpace(t, db, "k")
	value := longBytes(rng, 150_000)
	appendTo(t, k, "b", value)
	must(t, k.Set(ctx, []byte("a"), nil))
	for range 3 {
		tail := longBytes(rng, 10_000)
		appendTo(t, k, "b", tail)
		value = append(value, tail...)
		job := mustStart(t, db, Move{Shard: shardAt(k, "b"), To: groupOnOtherStore(k, "b")})
		_, err := job.Wait(ctx)
		must(t, err)
		readAll(t, k, "b", value)
	}
	after := disks.crash()
	mustClose(t, db)
	db = mustOpen(t, after.options(wal.Always))
	k, err := db.Keyspace("k")
	must(t, err)
	readAll(t, k, "b", value)
	mustClose(t, db)
}

func TestChunkedString_IsInABackup(t *testing.T) {
	dir := t.TempDir()
	db := onDisk(t, filepath.Join(dir, "db"), 1)
	k := rangeSpace(t, db, "k")
	value := longBytes(rand.New(rand.NewPCG(5, 6)), 300_000)
	appendTo(t, k, "b", value)
	must(t, db.Backup(ctx, filepath.Join(dir, "copy")))
	mustClose(t, db)
	db, err := Open(filepath.Join(dir, "copy"), Options{})
	must(t, err)
	defer mustClose(t, db)
	k, err = db.Keyspace("k")
	must(t, err)
	readAll(t, k, "b", value)
}

func TestChunkedString_ThatExpires_IsGone(t *testing.T) {
	clock := newClock()
	o := memoryOptions(1)
	o.Wall = clock.ms.Load
	db := mustOpen(t, o)
	defer mustClose(t, db)
	k := rangeSpace(t, db, "k")
	appendTo(t, k, "b", make([]byte, 200_000))
	_, err := k.Expire(ctx, []byte("b"), time.Minute)
	must(t, err)
	readAll(t, k, "b", make([]byte, 200_000))
	clock.advance(2 * time.Minute)
	if _, err := k.Get(ctx, []byte("b")); !errors.Is(err, ErrNotFound) {
		t.Errorf("it is there: %v", err)
	}
	many, err := k.GetMany(ctx, []byte("b"))
	if err != nil || many[0] != nil {
		t.Errorf("it is there: %d bytes, %v", len(many[0]), err)
	}
}

func TestChunkedString_IsIndexed(t *testing.T) {
	db := openSmall(t, 1)
	k := rangeSpace(t, db, "k")
	appendTo(t, k, "a", append([]byte("old"), make([]byte, 200_000)...))
	ix := mustIndex(t, db, IndexOptions{Name: "first", Keyspace: k, Function: "first", Extract: func(r IndexRow) ([]IndexEntry, error) {
		return []IndexEntry{{Entry: key.Tuple{string(r.Value[:3]), len(r.Value)}}}, nil
	}})
	must(t, ix.Wait(ctx))
	expectFound(t, ix, IndexScanOptions{}, `("old", 200003)=a`)
	appendTo(t, k, "b", append([]byte("new"), make([]byte, 200_000)...))
	appendTo(t, k, "a", []byte("x"))
	expectFound(t, ix, IndexScanOptions{}, `("new", 200003)=b ("old", 200004)=a`)
	report, err := ix.Verify(ctx)
	if must(t, err); !report.Clean() {
		t.Errorf("%+v", report)
	}
}
