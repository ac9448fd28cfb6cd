package cleave

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"sync"
	"testing"

	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/internal/shard/load"
)

// countLoad returns what was counted of all shards.
func countLoad(db *DB) load.OpCounts {
	total := db.node.Meter().Read().Total()
	total.Busy = 0
	return total.OpCounts
}

// Each call of a program counts as many operations as it has keys, with the bytes of their values.
func TestLoad_EachCallIsCountedOnce(t *testing.T) {
	db := openIdle(t)
	k := db.Default()
	for _, c := range []struct {
		name string
		call func() error
		want load.OpCounts
	}{
		{"Set", func() error { return k.Set(ctx, []byte("a"), []byte("12345")) }, load.OpCounts{Writes: 1, BytesIn: 5}},
		{"Get", func() error { _, err := k.Get(ctx, []byte("a")); return err }, load.OpCounts{Reads: 1, BytesOut: 5}},
		{"Get of an absent key", func() error {
			if _, err := k.Get(ctx, []byte("absent")); !errors.Is(err, ErrNotFound) {
				return fmt.Errorf("an absent key: %w", err)
			}
			return nil
		}, load.OpCounts{Reads: 1}},
		{"Exists", func() error { _, err := k.Exists(ctx, []byte("absent")); return err }, load.OpCounts{Reads: 1}},
		{"Add", func() error { _, err := k.Add(ctx, []byte("n"), 7); return err }, load.OpCounts{Writes: 1}},
		{"Add to a string that is no number", func() error {
			must(t, k.Set(ctx, []byte("text"), []byte("x")))
			if _, err := k.Add(ctx, []byte("text"), 7); err == nil {
				return errors.New("it was added")
			}
			return nil
		}, load.OpCounts{Writes: 2, BytesIn: 1, Errors: 1}},
		{"GetMany", func() error { _, err := k.GetMany(ctx, []byte("a"), []byte("b"), []byte("a")); return err }, load.OpCounts{Reads: 3, BytesOut: 10}},
		{"HSet", func() error {
			_, err := k.HSet(ctx, []byte("h"), Field{[]byte("f"), []byte("123")}, Field{[]byte("g"), []byte("4567")})
			return err
		}, load.OpCounts{Writes: 1, BytesIn: 7}},
		{"HGet", func() error { _, err := k.HGet(ctx, []byte("h"), []byte("g")); return err }, load.OpCounts{Reads: 1, BytesOut: 4}},
		{"HGetAll", func() error { _, err := k.HGetAll(ctx, []byte("h")); return err }, load.OpCounts{Reads: 1, BytesOut: 7}},
		{"Batch", func() error {
			var b Batch
			b.Set(k, []byte("x"), []byte("12"))
			b.Set(k, []byte("y"), []byte("345"))
			b.Delete(k, []byte("n"))
			return db.Write(ctx, &b)
		}, load.OpCounts{Writes: 3, BytesIn: 5, CrossShard: 3}},
		{"Update", func() error {
			return db.Update(ctx, func(tx *Txn) error {
				if _, err := tx.Get(k, []byte("x")); err != nil {
					return err
				}
				if _, err := tx.Item(k, []byte("y")); err != nil {
					return err
				}
				return errors.Join(tx.Set(k, []byte("x"), []byte("6789")), tx.Set(k, []byte("z"), []byte("0")))
			})
		}, load.OpCounts{Reads: 2, Writes: 2, BytesIn: 5, BytesOut: 5, CrossShard: 4}},
		{"Update that is given up", func() error {
			gaveUp := errors.New("gave up")
			err := db.Update(ctx, func(tx *Txn) error {
				must(t, tx.Set(k, []byte("x"), []byte("6789")))
				return gaveUp
			})
			if errors.Is(err, gaveUp) {
				return nil
			}
			return err
		}, load.OpCounts{}},
		{"View", func() error {
			return db.View(ctx, func(tx *Txn) error { _, err := tx.Get(k, []byte("x")); return err })
		}, load.OpCounts{Reads: 1, BytesOut: 4}},
		{"Delete", func() error { _, err := k.Delete(ctx, []byte("x"), []byte("absent")); return err }, load.OpCounts{Writes: 2}},
	} {
		before := countLoad(db)
		must(t, c.call())
		c.want.InGroup = c.want.Writes // goroutines write
		before.Add(c.want)
		if got := countLoad(db); got != before {
			t.Errorf("%s: counted %+v in all, want %+v", c.name, got, before)
		}
	}
}

// Readers and writers on many goroutines lose no count, and that of a key is with its shard.
func TestLoad_ManyGoroutines_LoseNothing(t *testing.T) {
	db := openIdle(t)
	k, key := db.Default(), []byte("key")
	must(t, k.Set(context.Background(), key, []byte("value")))
	const goroutines, calls = 8, 500
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for i := range calls {
				if i%10 == 0 {
					must(t, k.Set(ctx, key, []byte("value")))
				}
				if _, err := k.Get(ctx, key); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	got := db.node.Meter().Read().Of(k.Locate(key).Shard)
	const writes = goroutines*calls/10 + 1
	if got.Reads != goroutines*calls || got.Writes != writes || got.BytesIn != 5*writes || got.BytesOut != 5*goroutines*calls || got.Errors != 0 {
		t.Errorf("counted %+v", got.OpCounts)
	}
	if n := got.Service.Count(); n == 0 || got.Busy <= 0 { // one of 128 is timed, by chance, for all of them
		t.Errorf("%d operations have a time, %v together", n, got.Busy)
	}
}

// A key that a program asks for more than others is known, by whatever call, even if the calls come in a pattern.
func TestHeat_HotKeyOfAProgram_IsKnown(t *testing.T) {
	const rounds = 8000
	for _, c := range []struct {
		name, command string
		call          func(k *Keyspace, key []byte) error
	}{
		{"Get", "get", func(k *Keyspace, key []byte) error {
			if _, err := k.Get(ctx, key); !errors.Is(err, ErrNotFound) {
				return err
			}
			return nil
		}},
		{"Set", "set", func(k *Keyspace, key []byte) error { return k.Set(ctx, key, []byte("value")) }},
		{"HGet", "hget", func(k *Keyspace, key []byte) error {
			if _, err := k.HGet(ctx, key, []byte("f")); !errors.Is(err, ErrNotFound) {
				return err
			}
			return nil
		}},
		{"GetMany", "get", func(k *Keyspace, key []byte) error { _, err := k.GetMany(ctx, key); return err }},
		{"Update", "add", func(k *Keyspace, key []byte) error {
			return k.db.Update(ctx, func(tx *Txn) error { _, err := tx.Add(k, key, 1); return err })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := openIdle(t)
			k := db.Default()
			for i := range rounds {
				key := []byte("{of one shard} hot")
				if i%2 == 1 {
					key = fmt.Append(nil, "{of one shard}", i%32)
				}
				must(t, c.call(k, key))
			}
			db.node.CollectHeat()
			top, total := db.node.Heat().Top(heat.ByOps, 1)
			p, err := k.appendPosition(nil, []byte("{of one shard} hot"))
			must(t, err)
			if len(top) != 1 || top[0].Key != string(p) {
				t.Fatalf("the hottest key is %+v", top)
			}
			h := top[0]
			if share := h.Count / total; math.Abs(share-0.5) > 6*h.Deviation/total || math.Abs(total-rounds) > 6*math.Sqrt(128*rounds) {
				t.Errorf("it has %.2f of %.0f operations, want half of %d; deviation %.0f", share, total, rounds, h.Deviation)
			}
			if len(h.Commands) != 1 || h.Commands[0].Name != c.command || len(h.Clients) != 1 || h.Clients[0].Name != "program" {
				t.Errorf("it is asked by %v with %v", h.Clients, h.Commands)
			}
		})
	}
}

func TestHeat_Off_ProgramIsNotSampled(t *testing.T) {
	db, err := OpenMemory(Options{HeatOff: true})
	must(t, err)
	defer db.Close()
	for range 1000 {
		must(t, db.Default().Set(ctx, []byte("a"), []byte("1")))
	}
	if db.node.Heat() != nil || db.node.HeatBytes() != 0 {
		t.Error("heat is on")
	}
}

// Rows of scans are reads of the shards that they are in, whatever the way of the scan.
func TestLoad_Scans_CountTheirRows(t *testing.T) {
	db := openIdle(t)
	k := rangeSpace(t, db, "ordered")
	for i := range 100 {
		must(t, k.Set(ctx, numberKey(i), []byte("value")))
	}
	mustDo(t, db, SplitAtKeys(k, numberKey(30)))
	count := func() (first, second load.OpCounts) {
		loads := db.node.Meter().Read()
		first, second = loads.Of(k.Locate(numberKey(0)).Shard).OpCounts, loads.Of(k.Locate(numberKey(99)).Shard).OpCounts
		return first, second
	}
	loop := func(items iter.Seq2[Item, error]) error {
		for _, err := range items {
			if err != nil {
				return err
			}
		}
		return nil
	}
	for _, c := range []struct {
		name          string
		scan          func() error
		first, second uint64
	}{
		{"Scan", func() error { return loop(k.Scan(ctx, ScanOptions{})) }, 30, 70},
		{"a reverse Scan", func() error { return loop(k.Scan(ctx, ScanOptions{Start: numberKey(20), Reverse: true})) }, 10, 70},
		{"ScanPage", func() error { _, err := k.ScanPage(ctx, ScanOptions{Limit: 40}); return err }, 30, 11},
		{"View", func() error {
			return db.View(ctx, func(tx *Txn) error { return loop(tx.Scan(k, ScanOptions{})) })
		}, 30, 70},
	} {
		firstBefore, secondBefore := count()
		must(t, c.scan())
		first, second := count()
		if r, s := first.Reads-firstBefore.Reads, first.ScanReads-firstBefore.ScanReads; r != c.first || s != c.first {
			t.Errorf("%s: %d reads, %d of scans, of the first shard, want %d", c.name, r, s, c.first)
		}
		if r, s := second.Reads-secondBefore.Reads, second.ScanReads-secondBefore.ScanReads; r < c.second || r > c.second+1 || s != r || second.BytesOut < secondBefore.BytesOut+5*r {
			t.Errorf("%s: %d reads, %d of scans, of the second shard, want %d", c.name, r, s, c.second)
		}
	}
	for range 300 {
		must(t, loop(k.Scan(ctx, ScanOptions{})))
	}
	db.node.CollectHeat()
	span := k.keyspace.Span()
	all, part := db.node.Heat().Load(span.Start, span.End), db.node.Heat().Load(span.Start, k.keyspace.AppendPosition(nil, numberKey(30)))
	if share := part.Reads / all.Reads; all.Reads < 20_000 || math.Abs(share-0.3) > 0.15 {
		t.Errorf("of %.0f rows %.2f are in the first shard, want 30,000 and 0.3", all.Reads, share)
	}
}

// Transactions over several shards, and their conflicts, are counted for the shards of their keys.
func TestLoad_CrossShardAndConflicts_AreCounted(t *testing.T) {
	db := openIdle(t)
	k := rangeSpace(t, db, "ordered")
	a, b, c := []byte("a"), []byte("b"), []byte("x")
	mustDo(t, db, SplitAtKeys(k, []byte("m")))
	update := func(read []byte, during func(), writes ...[]byte) {
		t.Helper()
		must(t, db.Update(ctx, func(tx *Txn) error {
			if _, err := tx.Get(k, read); err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
			for _, w := range writes {
				if err := tx.Set(k, w, []byte("1")); err != nil {
					return err
				}
			}
			during()
			return nil
		}))
	}
	nothing := func() {}
	update(a, nothing, a, b)
	if got := countLoad(db); got.CrossShard != 0 || got.Conflicts != 0 {
		t.Fatalf("a transaction in one shard: %+v", got)
	}
	update(a, nothing, c)
	loads := db.node.Meter().Read()
	if first, second := loads.Of(k.Locate(a).Shard), loads.Of(k.Locate(c).Shard); first.CrossShard != 1 || second.CrossShard != 1 {
		t.Errorf("a read and a write in two shards: %+v and %+v", first.OpCounts, second.OpCounts)
	}
	var batch Batch
	batch.Set(k, a, []byte("1"))
	batch.Set(k, c, []byte("1"))
	must(t, db.Write(ctx, &batch))
	if got := countLoad(db); got.CrossShard != 4 {
		t.Errorf("after a batch in two shards: %+v", got)
	}
	once := sync.OnceFunc(func() { must(t, k.Set(ctx, a, []byte("2"))) })
	update(a, once, c)
	loads = db.node.Meter().Read()
	if first, second := loads.Of(k.Locate(a).Shard), loads.Of(k.Locate(c).Shard); first.Conflicts != 1 || second.Conflicts != 0 {
		t.Errorf("what was read has changed: %+v and %+v", first.OpCounts, second.OpCounts)
	}
	db.node.CollectHeat()
	top, _ := db.node.Heat().Top(heat.ByConflicts, 1)
	if p, err := k.appendPosition(nil, a); err != nil || len(top) != 1 || top[0].Key != string(p) {
		t.Errorf("the key with the most conflicts is %+v", top)
	}
}
