package table

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/key"
)

// moveShards moves shards of a table from group to group until ctx ends.
func moveShards(ctx context.Context, t *testing.T, table *Table, seed uint64) (moves int) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for ctx.Err() == nil {
		shards, err := table.db.Shards(ctx)
		if err != nil {
			break
		}
		var mine []cleave.Shard
		for _, s := range shards {
			if s.Keyspace == table.ks.Name() {
				mine = append(mine, s)
			}
		}
		s := mine[rng.IntN(len(mine))]
		groups := table.db.Groups()
		job, err := table.db.Start(ctx, cleave.Move{Shard: s.ID, To: groups[rng.IntN(len(groups))].ID})
		if err == nil {
			_, err = job.Wait(ctx)
		}
		if err != nil && !errors.Is(err, cleave.ErrNoChange) && ctx.Err() == nil && !errors.Is(err, cleave.ErrNoShard) && !errors.Is(err, cleave.ErrBusy) && !errors.Is(err, cleave.ErrJobUndone) {
			t.Errorf("move %v: %v", s, err)
			break
		}
		moves++
	}
	return moves
}

// Transactions write a pair of rows that lie under different salts, or delete one: a reader
// in order sees pairs only, in order, wherever the shards are.
func TestOrderedReadsAreOfOneMomentWhileShardsMove(t *testing.T) {
	for _, layout := range []string{"salt(4, n) | seq:int, n:int", "(part:int, salt(3)) | seq:int, n:int"} {
		t.Run(layout, func(t *testing.T) {
			db := sharedStore
			table := openTable(t, db, layout, Options{})
			cuts := []key.Columns{}
			if table.salt > 0 {
				cuts = []key.Columns{{"part": 0}, {"part": 1}}
			}
			if err := table.Spread(background, cuts...); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(background)
			var moving, writing, reading sync.WaitGroup
			var moves atomic.Int64
			moving.Go(func() { moves.Store(int64(moveShards(ctx, t, table, 1))) })
			const writers, rounds = 3, 24
			for w := range writers {
				writing.Go(func() {
					for i := range rounds {
						err := db.Update(background, func(tx *cleave.Txn) error {
							x := table.In(tx)
							if i >= 8 { // the oldest pair goes
								for n := range 2 {
									if _, err := x.Delete(pairColumns(table, w, i-8, n)); err != nil {
										return err
									}
								}
							}
							for n := range 2 {
								if err := x.Put(pairColumns(table, w, i, n), []byte(fmt.Sprint(w, "/", i))); err != nil {
									return err
								}
							}
							return nil
						})
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			done := make(chan struct{})
			for r := range 2 {
				reading.Go(func() {
					for {
						select {
						case <-done:
							return
						default:
						}
						rows, err := collectRows(table.Scan(background, Query{Reverse: r == 1}))
						if err != nil {
							t.Error(err)
							return
						}
						checkPairs(t, table, rows, r == 1)
					}
				})
			}
			writing.Wait()
			close(done)
			reading.Wait()
			stop()
			moving.Wait()
			rows := must(collectRows(table.Scan(background, Query{})))
			checkPairs(t, table, rows, false)
			if len(rows) != writers*8*2 || moves.Load() == 0 {
				t.Errorf("%d rows after %d moves, want %d", len(rows), moves.Load(), writers*8*2)
			}
		})
	}
}

// pairColumns are those of one row of a pair.
func pairColumns(t *Table, w, i, n int) key.Columns {
	c := key.Columns{"seq": i*4 + w, "n": n}
	if t.salt > 0 {
		c["part"] = i % 2
	}
	return c
}

func checkPairs(t *testing.T, table *Table, rows []Row, reverse bool) {
	t.Helper()
	count := map[string]int{}
	for i, r := range rows {
		count[string(r.Value)]++
		if i == 0 {
			continue
		}
		if c := table.layout.CompareUnsalted(rows[i-1].Key, r.Key); c == 0 || (c > 0) != reverse {
			t.Fatalf("out of order: %v", formatRows(table, rows[i-1:i+1]))
		}
	}
	for v, n := range count {
		if n != 2 {
			t.Fatalf("%d rows of %s: they are written in pairs", n, v)
		}
	}
}

// Pages are of different moments, but rows that are there all the time come once.
func TestPagesMissAndRepeatNothingWhileShardsMove(t *testing.T) {
	db := sharedStore
	table := openTable(t, db, "salt(4) | n:int", Options{})
	if err := table.Spread(background); err != nil {
		t.Fatal(err)
	}
	const rows = 200
	for i := range rows {
		if err := table.Append(background, key.Columns{"n": 2 * i}, nil); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(background)
	var others sync.WaitGroup
	others.Go(func() { moveShards(ctx, t, table, 2) })
	others.Go(func() { // rows that come and go between them
		for i := 0; ctx.Err() == nil; i++ {
			c := key.Columns{"n": 2*(i%rows) + 1}
			if err := table.Append(background, c, nil); err != nil {
				t.Error(err)
			}
			if _, err := table.Delete(background, c); err != nil {
				t.Error(err)
			}
		}
	})
	for _, reverse := range []bool{false, true} {
		q, next := Query{Limit: 17, Reverse: reverse}, 0
		for {
			page, err := table.ScanPage(background, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Rows {
				n := int(must(Column[int64](r, "n")))
				if n%2 == 1 {
					continue
				}
				want := next
				if reverse {
					want = 2*(rows-1) - next
				}
				if n != want {
					t.Fatalf("row %d, want %d", n, want)
				}
				next += 2
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		if next != 2*rows {
			t.Errorf("reverse %t: %d rows, want %d", reverse, next/2, rows)
		}
	}
	stop()
	others.Wait()
}

func TestSpreadGivesEachSaltAShardAndEachGroupItsShare(t *testing.T) {
	db, err := cleave.OpenMemory(cleave.Options{Stores: 2, Groups: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	table := openTable(t, db, "salt(8, n) | n:int", Options{})
	for i := range 100 {
		if err := table.Put(background, key.Columns{"n": i}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second has nothing to do
		if err := table.Spread(background); err != nil {
			t.Fatal(err)
		}
	}
	shards, groups := map[cleave.ShardID]bool{}, map[cleave.GroupID]int{}
	for salt := range 8 {
		at := table.ks.Locate(joinKey(nil, salt, []byte("x")))
		shards[at.Shard] = true
		groups[at.Group]++
	}
	if len(shards) != 8 || len(groups) != 4 {
		t.Errorf("%d shards in the groups %v, want 8 in 4", len(shards), groups)
	}
	for g, n := range groups {
		if n != 2 {
			t.Errorf("group %d has %d shards, want 2", g, n)
		}
	}
	if rows := must(collectRows(table.Scan(background, Query{}))); len(rows) != 100 {
		t.Errorf("%d rows", len(rows))
	}
	hashed := openTable(t, db, "hash(n), n:int", Options{})
	if err := hashed.Spread(background); err != nil {
		t.Fatal(err)
	}
	groups = map[cleave.GroupID]int{}
	for n := range 400 {
		groups[hashed.ks.Locate(must(hashed.Key(key.Columns{"n": n}))).Group]++
	}
	for g, n := range groups {
		if len(groups) != 4 || n < 60 || n > 140 {
			t.Errorf("group %d has %d of 400 rows, %d groups have any", g, n, len(groups))
		}
	}
	plain := openTable(t, db, "(dev, hour(ts)) | ts", Options{})
	if err := plain.Spread(background); !errors.Is(err, ErrQuery) {
		t.Errorf("nothing to cut by: %v, want ErrQuery", err)
	}
	if err := plain.Spread(background, key.Columns{"dev": "m"}, key.Columns{"dev": "f"}, key.Columns{"dev": "m"}); err != nil {
		t.Error(err)
	}
	a, z := must(plain.Boundaries(key.Columns{"dev": "a"})), must(plain.Boundaries(key.Columns{"dev": "z"}))
	if plain.ks.Locate(a[0]).Group == plain.ks.Locate(z[0]).Group {
		t.Error("devices a and z are in one group")
	}
	if _, err := plain.Boundaries(key.Columns{"ts": testEpoch}); !errors.Is(err, key.ErrColumn) {
		t.Errorf("a column that does not lead: %v, want ErrColumn", err)
	}
}

// A transaction that read a range in order and writes by it is not overtaken by a row
// that comes under any salt.
func TestRowsThatWereReadAreValidated(t *testing.T) {
	db := sharedStore
	table := openTable(t, db, "salt(4) | n:int", Options{})
	if err := table.Spread(background); err != nil {
		t.Fatal(err)
	}
	const writers, each = 3, 6
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				err := db.Update(background, func(tx *cleave.Txn) error {
					x, next := table.In(tx), int64(0)
					for row, err := range x.Scan(Query{Reverse: true, Limit: 1}) {
						if err != nil {
							return err
						}
						n, err := Column[int64](row, "n")
						if err != nil {
							return err
						}
						next = n + 1
					}
					return x.Append(key.Columns{"n": next}, nil)
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	rows := must(collectRows(table.Scan(background, Query{})))
	for i, r := range rows {
		if n := must(Column[int64](r, "n")); n != int64(i) {
			t.Fatalf("row %d is %d: a number was given twice", i, n)
		}
	}
	if len(rows) != writers*each {
		t.Errorf("%d rows, want %d", len(rows), writers*each)
	}
}

func TestPutsOfOneRowAtOnceMakeOne(t *testing.T) {
	db := sharedStore
	table := openTable(t, db, "salt(8) | n:int", Options{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 5 {
				if err := table.Put(background, key.Columns{"n": 1}, []byte{byte(i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if rows := must(collectRows(table.Scan(background, Query{}))); len(rows) != 1 {
		t.Errorf("%v, want one row", formatRows(table, rows))
	}
}
