package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/table"
)

// reading is what a device measures.
type reading struct {
	Device  string
	At      time.Time
	Celsius float64
}

// telemetry keeps readings twice, in one transaction: by device, for reads of one,
// and by time over all devices. Both would put all writers into one place if their keys
// were as plain as the questions: the first has a stretch for each device and day, which
// ends, and the second spreads each moment over four salts.
type telemetry struct {
	db       *cleave.DB
	byDevice *table.Table
	byTime   *table.Table
	keep     time.Duration
}

func openTelemetry(ctx context.Context, db *cleave.DB, keep time.Duration) (*telemetry, error) {
	t := &telemetry{db: db, keep: keep}
	var err error
	if t.byDevice, err = openTable(ctx, db, "by-device", "(device:string, day(ts)) | ts"); err != nil {
		return nil, err
	}
	if t.byTime, err = openTable(ctx, db, "by-time", "salt(4, device) | ts:time, device:string"); err != nil {
		return nil, err
	}
	return t, t.byTime.Spread(ctx) // a shard for each salt, over all groups
}

func openTable(ctx context.Context, db *cleave.DB, name, layout string) (*table.Table, error) {
	ks, err := db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: name, Kind: cleave.Range, Layout: layout})
	if err != nil {
		return nil, err
	}
	return table.Open(db, ks, table.Options{})
}

// record stores readings, all of them or none. They expire by themselves.
func (t *telemetry) record(ctx context.Context, list ...reading) error {
	return t.db.Update(ctx, func(tx *cleave.Txn) error {
		for _, r := range list {
			columns := key.Columns{"device": r.Device, "ts": r.At}
			value := binary.BigEndian.AppendUint64(nil, math.Float64bits(r.Celsius))
			for _, rows := range []*table.Table{t.byDevice, t.byTime} {
				if err := rows.In(tx).PutWith(columns, value, cleave.SetOptions{TTL: t.keep}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// last returns the newest readings of a device, however many days they are apart.
func (t *telemetry) last(ctx context.Context, device string, n int) (list []reading, err error) {
	found, err := t.byDevice.Last(ctx, table.Last{Where: key.Columns{"device": device}, N: n})
	if err != nil {
		return nil, err
	}
	return decodeAll(found.Rows)
}

// between returns a page of the readings of all devices in the order of time, and where
// the next page begins.
func (t *telemetry) between(ctx context.Context, from, to time.Time, after table.Cursor, n int) ([]reading, table.Cursor, error) {
	page, err := t.byTime.ScanPage(ctx, table.Query{From: from, To: to, After: after, Limit: n})
	if err != nil {
		return nil, "", err
	}
	list, err := decodeAll(page.Rows)
	return list, page.Next, err
}

// newest returns the newest reading of every device.
func (t *telemetry) newest(ctx context.Context) (list []reading, err error) {
	for row, err := range t.byDevice.LastOfEach(ctx, table.Last{N: 1}) {
		if err != nil {
			return nil, err
		}
		r, err := decode(row)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

func decodeAll(rows []table.Row) ([]reading, error) {
	list := make([]reading, len(rows))
	for i, row := range rows {
		var err error
		if list[i], err = decode(row); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func decode(row table.Row) (r reading, err error) {
	if r.Device, err = table.Column[string](row, "device"); err != nil {
		return r, err
	}
	if r.At, err = table.Column[time.Time](row, "ts"); err != nil {
		return r, err
	}
	if len(row.Value) != 8 {
		return r, fmt.Errorf("telemetry: %s at %v has %d bytes, want 8", r.Device, r.At, len(row.Value))
	}
	r.Celsius = math.Float64frombits(binary.BigEndian.Uint64(row.Value))
	return r, nil
}
