package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/table"
)

func TestTheDashboardShowsWhatDevicesReported(t *testing.T) {
	now := time.Date(2026, 11, 15, 2, 0, 0, 0, time.UTC)
	var months atomic.Int64 // the store looks at the clock too
	db, err := cleave.OpenMemory(cleave.Options{Stores: 2, Groups: 4, Now: func() time.Time { return now.AddDate(0, int(months.Load()), 0) }})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx := context.Background()
	var out strings.Builder
	if err := run(ctx, &out, db, now); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if want := devices + 1 + 4*devices; len(lines) != want {
		t.Errorf("%d lines, want %d:\n%s", len(lines), want, &out)
	}
	if !strings.Contains(lines[devices], "the last 30 since 18:30:00") {
		t.Errorf("line %d is %q", devices, lines[devices])
	}

	tel, err := openTelemetry(ctx, db, time.Hour) // again, as after a restart
	if err != nil {
		t.Fatal(err)
	}
	last, err := tel.last(ctx, "boiler-0", 30)
	if err != nil || len(last) != 30 {
		t.Fatalf("%d readings, %v", len(last), err)
	}
	for i, r := range last {
		if want := now.Add(-time.Duration(i+1) * 15 * time.Minute); !r.At.Equal(want) || r.Device != "boiler-0" {
			t.Errorf("reading %d is %v, want that of %v", i, r, want)
		}
	}
	var merged []reading
	for after := table.Cursor(""); ; {
		list, next, err := tel.between(ctx, now.Add(-49*time.Hour), now, after, 100)
		if err != nil {
			t.Fatal(err)
		}
		merged = append(merged, list...)
		if after = next; after == "" {
			break
		}
	}
	order := func(a, b reading) int {
		return strings.Compare(fmt.Sprint(a.At.Unix(), a.Device), fmt.Sprint(b.At.Unix(), b.Device))
	}
	if len(merged) != devices*48*4 || !slices.IsSortedFunc(merged, order) {
		t.Errorf("%d readings in the order of time: %t", len(merged), slices.IsSortedFunc(merged, order))
	}
	months.Add(2)
	if left, err := tel.newest(ctx); err != nil || len(left) != 0 {
		t.Errorf("%d devices have readings after two months, %v", len(left), err)
	}
}
