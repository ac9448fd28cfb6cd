package table_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/table"
)

// Events are written in four places and read in the order of time.
func Example() {
	ctx := context.Background()
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ks, err := db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "events", Kind: cleave.Range, Layout: "salt(4, id) | ts:time, id:int"})
	if err != nil {
		log.Fatal(err)
	}
	events, err := table.Open(db, ks, table.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := events.Spread(ctx); err != nil { // a shard for each salt
		log.Fatal(err)
	}
	start := time.Date(2026, 11, 15, 8, 0, 0, 0, time.UTC)
	for id := range 6 {
		at := start.Add(time.Duration(id) * time.Minute)
		if err := events.Put(ctx, key.Columns{"ts": at, "id": id}, fmt.Append(nil, "event ", id)); err != nil {
			log.Fatal(err)
		}
	}

	q := table.Query{From: start.Add(time.Minute), Limit: 3}
	for {
		page, err := events.ScanPage(ctx, q)
		if err != nil {
			log.Fatal(err)
		}
		for _, row := range page.Rows {
			at, err := table.Column[time.Time](row, "ts")
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("%s %s\n", at.Format(time.TimeOnly), row.Value)
		}
		if page.Next == "" {
			break
		}
		fmt.Println("next page")
		q.After = page.Next
	}
	// Output:
	// 08:01:00 event 1
	// 08:02:00 event 2
	// 08:03:00 event 3
	// next page
	// 08:04:00 event 4
	// 08:05:00 event 5
}

// The last readings of a device, of which each day is a stretch of its own.
func ExampleTable_Last() {
	ctx := context.Background()
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ks, err := db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "readings", Kind: cleave.Range, Layout: "(device:string, day(ts)) | ts"})
	if err != nil {
		log.Fatal(err)
	}
	readings, err := table.Open(db, ks, table.Options{})
	if err != nil {
		log.Fatal(err)
	}
	now := time.Date(2026, 11, 15, 8, 0, 0, 0, time.UTC)
	for hours := range 100 {
		at := now.Add(-time.Duration(hours) * time.Hour)
		row := key.Columns{"device": "boiler", "ts": at}
		if err := readings.PutWith(ctx, row, fmt.Append(nil, 20+hours%5), cleave.SetOptions{TTL: 30 * 24 * time.Hour}); err != nil {
			log.Fatal(err)
		}
	}
	found, err := readings.Last(ctx, table.Last{Where: key.Columns{"device": "boiler"}, N: 30})
	if err != nil {
		log.Fatal(err)
	}
	oldest, err := readings.Layout().Format(found.Rows[29].Key)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(found.Rows), found.Stop, "back to", oldest)
	// Output:
	// 30 enough back to device="boiler" day(ts)=2026-11-14 | ts=2026-11-14T03:00:00Z
}

// A reading and the number of readings commit together.
func ExampleTable_In() {
	ctx := context.Background()
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ks, err := db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "readings", Kind: cleave.Range, Layout: "(device, day(ts)) | ts"})
	if err != nil {
		log.Fatal(err)
	}
	readings, err := table.Open(db, ks, table.Options{})
	if err != nil {
		log.Fatal(err)
	}
	row := key.Columns{"device": "boiler", "ts": time.Date(2026, 11, 15, 8, 0, 0, 0, time.UTC)}
	err = db.Update(ctx, func(tx *cleave.Txn) error {
		if err := readings.In(tx).Put(row, []byte("21")); err != nil {
			return err
		}
		_, err := tx.Add(db.Default(), []byte("readings"), 1)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	got, err := readings.Get(ctx, row)
	fmt.Printf("%s %v\n", got.Value, err)
	// Output:
	// 21 <nil>
}
