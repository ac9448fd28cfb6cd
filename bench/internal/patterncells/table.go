package patterncells

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/workload"
	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/table"
)

const (
	tableDevices = 64
	tableClients = 64
	tableRange   = 1000
	tableLast    = 30
)

// tableStart is when the rows of all tables begin; one comes every second.
var tableStart = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// timeTable is a store with one table of rows by time.
type timeTable struct {
	dir  string
	db   *cleave.DB
	rows *table.Table
	size int // how many rows it is filled with
	next atomic.Int64
}

// openTimeTable makes one. If it is to be spread, columns say where it is cut; nil is by
// its salts.
func openTimeTable(cfg Config, o cleave.Options, layout string, spread bool, columns ...key.Columns) (t *timeTable, err error) {
	t = &timeTable{size: cfg.TableRows}
	if t.dir, err = os.MkdirTemp(cfg.Dir, "table"); err != nil {
		return nil, err
	}
	if t.db, err = cleave.Open(t.dir, o); err != nil {
		return nil, errors.Join(err, os.RemoveAll(t.dir))
	}
	ks, err := t.db.OpenKeyspace(context.Background(), cleave.KeyspaceOptions{Name: "rows", Kind: cleave.Range, Layout: layout})
	if err == nil {
		t.rows, err = table.Open(t.db, ks, table.Options{})
	}
	if err == nil && spread {
		err = t.rows.Spread(context.Background(), columns...)
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *timeTable) close() {
	_ = t.db.Close()
	_ = os.RemoveAll(t.dir)
}

// device is one of many.
func device(i int) string { return fmt.Sprintf("device-%02d", i%tableDevices) }

// columns are those of the i-th row.
func (t *timeTable) columns(i int) key.Columns {
	c := key.Columns{"ts": tableStart.Add(time.Duration(i) * time.Second)}
	for _, name := range t.rows.Layout().Columns() {
		switch name {
		case "id":
			c[name] = i
		case "device":
			c[name] = device(i)
		}
	}
	return c
}

// add writes the next row.
func (t *timeTable) add(value []byte) {
	if err := t.rows.Append(context.Background(), t.columns(int(t.next.Add(1))), value); err != nil {
		panic(err)
	}
}

// fill writes the rows that are read, once.
func (t *timeTable) fill() {
	if t.next.Load() > 0 {
		return
	}
	workload.Parallel(8, t.size, func(_, n int) {
		value := make([]byte, 100)
		for range n {
			t.add(value)
		}
	})
}

// tableCells yields the cells of package table.
func tableCells(cfg Config, yield func(duel.Cell) bool) bool {
	for _, d := range []cleave.Durability{cleave.Always, cleave.EverySec} {
		if !tableWrites(cfg, d, yield) {
			return false
		}
	}
	return tableRanges(cfg, yield) && tableLasts(cfg, yield)
}

// shape is a contestant: a layout, and where its rows are.
type shape struct {
	name, layout string
	options      cleave.Options
	spread       bool
	columns      []key.Columns
}

// eachShape opens a table for each shape, and closes all of them when use returns.
func eachShape(cfg Config, id string, shapes []shape, yield func(duel.Cell) bool, use func([]*timeTable) bool) bool {
	var list []*timeTable
	defer func() {
		for _, t := range list {
			t.close()
		}
	}()
	for _, s := range shapes {
		t, err := openTimeTable(cfg, s.options, s.layout, s.spread, s.columns...)
		if err != nil {
			return yield(duel.Cell{ID: id, Title: "not run", Contestants: []duel.Contestant{{Name: s.name, Ours: true, Work: func(int) { panic(err) }}}})
		}
		list = append(list, t)
	}
	return use(list)
}

// tableWrites compares writers at the end of time.
func tableWrites(cfg Config, d cleave.Durability, yield func(duel.Cell) bool) bool {
	one := cleave.Options{Durability: d}
	groups := cleave.Options{Durability: d, Groups: 4}
	stores := cleave.Options{Durability: d, Groups: 4, Stores: 2}
	var devices []key.Columns
	for i := 4; i < tableDevices; i += 4 { // 16 shards
		devices = append(devices, key.Columns{"device": device(i)})
	}
	shapes := []shape{
		{name: "plain, one shard", layout: "ts:time, id:int", options: one},
		{name: "salt(16), not spread", layout: "salt(16, id) | ts:time, id:int", options: stores},
		{name: "salt(16), 4 groups", layout: "salt(16, id) | ts:time, id:int", options: groups, spread: true},
		{name: "salt(16), 4 groups, 2 stores", layout: "salt(16, id) | ts:time, id:int", options: stores, spread: true},
		{name: "device and day, 4 groups, 2 stores", layout: "(device:string, day(ts)) | ts, id:int", options: stores, spread: true, columns: devices},
	}
	id := fmt.Sprintf("patterns/table-write-%v-x%d", d, tableClients)
	return eachShape(cfg, id, shapes, yield, func(list []*timeTable) bool {
		cell := duel.Cell{
			ID:      id,
			Title:   fmt.Sprintf("append a row of 100 bytes at the end of time, durability %v, %d clients", d, tableClients),
			Metrics: duel.Costs,
			Rounds:  11,
			Ops:     tableClients * 8,
		}
		for i, t := range list {
			cell.Contestants = append(cell.Contestants, duel.Contestant{Name: shapes[i].name, Ours: i > 0, Work: func(ops int) {
				workload.Parallel(tableClients, ops, func(_, n int) {
					value := make([]byte, 100)
					for range n {
						t.add(value)
					}
				})
			}})
		}
		return yield(cell)
	})
}

// tableRanges compares ordered reads.
func tableRanges(cfg Config, yield func(duel.Cell) bool) bool {
	stores := cleave.Options{Durability: cleave.Never, Groups: 4, Stores: 2}
	shapes := []shape{
		{name: "plain", layout: "ts:time, id:int", options: stores},
		{name: "salt(4)", layout: "salt(4, id) | ts:time, id:int", options: stores, spread: true},
		{name: "salt(16)", layout: "salt(16, id) | ts:time, id:int", options: stores, spread: true},
	}
	id := fmt.Sprintf("patterns/table-range-%d", tableRange)
	return eachShape(cfg, id, shapes, yield, func(list []*timeTable) bool {
		cell := duel.Cell{
			ID:      id,
			Title:   fmt.Sprintf("read %d rows of 100 bytes in the order of time, of %d, from a random one on", tableRange, cfg.TableRows),
			Metrics: duel.Costs,
			Rounds:  11,
		}
		for i, t := range list {
			cell.Contestants = append(cell.Contestants, duel.Contestant{Name: shapes[i].name, Ours: i > 0, Prepare: t.fill, Work: func(ops int) {
				for range ops {
					from := tableStart.Add(time.Duration(1+rand.IntN(t.size-tableRange)) * time.Second)
					page, err := t.rows.ScanPage(context.Background(), table.Query{From: from, Limit: tableRange})
					if err != nil || len(page.Rows) != tableRange {
						panic(fmt.Sprint(len(page.Rows), err))
					}
				}
			}})
		}
		return yield(cell)
	})
}

// tableLasts compares reads of the newest rows of a device.
func tableLasts(cfg Config, yield func(duel.Cell) bool) bool {
	stores := cleave.Options{Durability: cleave.Never, Groups: 4, Stores: 2}
	shapes := []shape{
		{name: "device | ts", layout: "device:string | ts:time, id:int", options: stores},
		{name: "(device, hour) | ts", layout: "(device:string, hour(ts)) | ts, id:int", options: stores},
		{name: "salt(4) | device, ts", layout: "salt(4, id) | device:string, ts:time, id:int", options: stores, spread: true},
		{name: "(hour, device) | ts", layout: "(hour(ts), device:string) | ts, id:int", options: stores},
	}
	id := fmt.Sprintf("patterns/table-last-%d", tableLast)
	return eachShape(cfg, id, shapes, yield, func(list []*timeTable) bool {
		cell := duel.Cell{
			ID:      id,
			Title:   fmt.Sprintf("read the last %d rows of one of %d devices, of %d rows; an hour has 56 of a device", tableLast, tableDevices, cfg.TableRows),
			Metrics: duel.Costs,
			Rounds:  11,
		}
		for i, t := range list {
			before := tableStart.Add(time.Duration(t.size+1) * time.Second)
			cell.Contestants = append(cell.Contestants, duel.Contestant{Name: shapes[i].name, Ours: i > 0, Prepare: t.fill, Work: func(ops int) {
				for range ops {
					last := table.Last{Where: key.Columns{"device": device(rand.IntN(tableDevices))}, N: tableLast, Before: before, Since: tableStart}
					found, err := t.rows.Last(context.Background(), last)
					if err != nil || len(found.Rows) != tableLast {
						panic(fmt.Sprint(len(found.Rows), err))
					}
				}
			}})
		}
		return yield(cell)
	})
}
