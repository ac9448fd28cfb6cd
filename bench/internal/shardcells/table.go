package shardcells

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/bench/internal/workload"
)

var ctx = context.Background()

// table is a store with one ordered keyspace, cut into shards. The first cut makes
// blocks of equal length, which go to the groups in turn; what is cut later stays
// where it is.
type table struct {
	dir    string
	db     *cleave.DB
	ks     *cleave.Keyspace
	rows   int
	blocks int
}

// rowKey is the key of a row.
func rowKey(i int) []byte { return fmt.Appendf(nil, "%08d", i) }

// openTable makes a table of so many blocks and shards.
func openTable(cfg Config, o cleave.Options, rows, size, blocks, shards int) (*table, error) {
	dir, err := os.MkdirTemp(cfg.Dir, "shards")
	if err != nil {
		return nil, err
	}
	t := &table{dir: dir, rows: rows, blocks: blocks}
	if t.db, err = cleave.Open(dir, o); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	t.ks, err = t.db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "bench", Kind: cleave.Range})
	if err == nil {
		err = t.lay(shards)
	}
	if err == nil {
		err = t.fill(size)
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *table) close() {
	_ = t.db.Close()
	_ = os.RemoveAll(t.dir)
}

// lay cuts the keyspace.
func (t *table) lay(shards int) error {
	if err := t.cut(t.blocks, 1); err != nil {
		return err
	}
	blocks, err := t.shards()
	if err != nil {
		return err
	}
	groups := t.db.Groups()
	for i, b := range blocks {
		if to := groups[i%len(groups)].ID; b.Group != to {
			if _, err := t.change(cleave.Move{Shard: b.ID, To: to}); err != nil {
				return err
			}
		}
	}
	return t.cut(shards, t.blocks)
}

// cut makes so many shards of equal length of fewer that are there.
func (t *table) cut(shards, were int) error {
	var at [][]byte
	for i := 1; i < shards; i++ {
		if i*were%shards != 0 {
			at = append(at, rowKey(edge(i, shards, t.rows)))
		}
	}
	if len(at) == 0 {
		return nil
	}
	_, err := t.change(cleave.SplitAtKeys(t.ks, at...))
	return err
}

// change makes a change of the map, and returns what it has cost.
func (t *table) change(c cleave.MapChange) (cleave.JobStatus, error) {
	job, err := t.db.Start(ctx, c)
	if err != nil {
		return cleave.JobStatus{}, err
	}
	return job.Wait(ctx)
}

// shards returns those of the keyspace.
func (t *table) shards() (list []cleave.Shard, err error) {
	all, err := t.db.Shards(ctx)
	for _, s := range all {
		if s.Keyspace == t.ks.Name() {
			list = append(list, s)
		}
	}
	return list, err
}

// fill writes all rows.
func (t *table) fill(size int) error {
	value := make([]byte, size)
	for block := range t.blocks { // a batch across stores would take two phases
		for i, end := edge(block, t.blocks, t.rows), edge(block+1, t.blocks, t.rows); i < end; {
			var b cleave.Batch
			for ; i < end && b.Len() < 500; i++ {
				binary.LittleEndian.PutUint64(value, workload.Scramble(uint64(i)))
				b.Set(t.ks, rowKey(i), value)
			}
			if err := t.db.Write(ctx, &b); err != nil {
				return fmt.Errorf("fill: %w", err)
			}
		}
	}
	return nil
}

// drawn numbers the draws of all, so that no two are alike.
var drawn atomic.Uint64

// draw returns a number below n that looks random.
func draw(n int) int { return int(workload.Scramble(drawn.Add(1)) % uint64(n)) }

// in returns a random row of a block.
func (t *table) in(block int) int {
	from, to := edge(block, t.blocks, t.rows), edge(block+1, t.blocks, t.rows)
	return from + draw(to-from)
}

// edge returns the first row of a piece of several.
func edge(piece, pieces, rows int) int { return piece * rows / pieces }

// set, get and update panic on errors, which takes the contestant out of the run.
func (t *table) set(row int, value []byte) { must(t.ks.Set(ctx, rowKey(row), value)) }

func (t *table) get(row int) {
	value, err := t.ks.Get(ctx, rowKey(row))
	must(err)
	if len(value) == 0 {
		panic("lost a row")
	}
}

// update reads and writes two rows in a transaction.
func (t *table) update(a, b int, value []byte) { t.updateRows([]int{a, b}, value) }

// updateRows reads and writes rows in a transaction.
func (t *table) updateRows(rows []int, value []byte) {
	must(t.db.Update(ctx, func(tx *cleave.Txn) error {
		for _, row := range rows {
			if _, err := tx.Get(t.ks, rowKey(row)); err != nil {
				return err
			}
			if err := tx.Set(t.ks, rowKey(row), value); err != nil {
				return err
			}
		}
		return nil
	}))
}

// apart is update for a random row and one that is so many blocks away.
func (t *table) apart(blocks int, value []byte) {
	b := draw(t.blocks - blocks)
	t.update(t.in(b), t.in(b+blocks), value)
}

// scan reads rows from one on.
func (t *table) scan(from, rows int) {
	page, err := t.ks.ScanPage(ctx, cleave.ScanOptions{Start: rowKey(from), Limit: rows})
	must(err)
	if len(page.Items) != rows {
		panic("lost a row")
	}
}

// getMany reads random rows as of one moment.
func (t *table) getMany(rows int) {
	keys := make([][]byte, rows)
	for i := range keys {
		keys[i] = rowKey(draw(t.rows))
	}
	values, err := t.ks.GetMany(ctx, keys...)
	must(err)
	for _, v := range values {
		if len(v) == 0 {
			panic("lost a row")
		}
	}
}

// settle waits until nothing is left of transactions: it must not fall into the next
// one's window.
func (t *table) settle() {
	for t.db.Metrics().Transactions.Open > 0 {
		time.Sleep(20 * time.Microsecond)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
