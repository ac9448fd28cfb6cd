// Command telemetry keeps the readings of many devices, and shows what a dashboard asks
// for: the newest of each device, the last 30 of one, and all of them in the order of time.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"sync"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/table"
)

func main() {
	db, err := cleave.Open("telemetry-data", cleave.Options{Groups: 4, Durability: cleave.EverySec})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := run(context.Background(), os.Stdout, db, time.Now().UTC().Truncate(time.Minute)); err != nil {
		log.Fatal(err)
	}
}

const devices = 8

// run lets all devices report the last two days at once, and then shows the dashboard.
func run(ctx context.Context, w io.Writer, db *cleave.DB, now time.Time) error {
	t, err := openTelemetry(ctx, db, 30*24*time.Hour)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	failures := make([]error, devices)
	for d := range devices {
		wg.Go(func() { failures[d] = report(ctx, t, d, now) })
	}
	wg.Wait()
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return dashboard(ctx, w, t, now)
}

// report sends a reading every 15 minutes of two days, four at a time.
func report(ctx context.Context, t *telemetry, device int, now time.Time) error {
	for at := now.Add(-48 * time.Hour); at.Before(now); {
		var list []reading
		for range 4 {
			celsius := 20 + 3*math.Sin(float64(at.Unix())/7000+float64(device))
			list = append(list, reading{fmt.Sprintf("boiler-%d", device), at, celsius})
			at = at.Add(15 * time.Minute)
		}
		if err := t.record(ctx, list...); err != nil {
			return err
		}
	}
	return nil
}

func dashboard(ctx context.Context, w io.Writer, t *telemetry, now time.Time) error {
	newest, err := t.newest(ctx)
	if err != nil {
		return err
	}
	for _, r := range newest {
		fmt.Fprintf(w, "%s  %s  %.1f °C\n", r.Device, r.At.Format(time.TimeOnly), r.Celsius)
	}
	last, err := t.last(ctx, "boiler-3", 30)
	if err != nil {
		return err
	}
	sum := 0.0
	for _, r := range last {
		sum += r.Celsius
	}
	fmt.Fprintf(w, "boiler-3: the last %d since %s, %.1f °C on average\n", len(last), last[len(last)-1].At.Format(time.TimeOnly), sum/float64(len(last)))

	var after table.Cursor
	for pages := 1; ; pages++ {
		list, next, err := t.between(ctx, now.Add(-time.Hour), now, after, 10)
		if err != nil {
			return err
		}
		for _, r := range list {
			fmt.Fprintf(w, "page %d  %s  %s  %.1f °C\n", pages, r.At.Format(time.TimeOnly), r.Device, r.Celsius)
		}
		if after = next; after == "" {
			return nil
		}
	}
}
