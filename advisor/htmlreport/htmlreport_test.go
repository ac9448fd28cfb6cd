package htmlreport

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/advisor/csvfile"
)

// newReport reports on orders of customers whose names are hostile, beside a clock.
func newReport(t *testing.T, rows int) *advisor.Report {
	t.Helper()
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var b strings.Builder
	b.WriteString("id,<b>customer</b>,region,created_at\n")
	for i := range rows {
		customer := fmt.Sprint("<script>alert(1)</script>-", i*7919%1013)
		if i%3 == 0 {
			customer = "<img src=x onerror=alert(1)>"
		}
		fmt.Fprintf(&b, "%d,%s,%s,%s\n", i, customer, [...]string{"eu", "us", "ap"}[i%3], now.Add(time.Duration(i-rows)*time.Minute).Format(time.RFC3339))
	}
	report, err := advisor.Analyze(context.Background(), csvfile.NewReader(strings.NewReader(b.String()), csvfile.Options{}), advisor.Options{
		Now: now, Current: "created_at", Together: []advisor.Together{{Columns: []string{"_b_customer__b_"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func write(t *testing.T, r *advisor.Report) string {
	t.Helper()
	var b strings.Builder
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWrite_PageHasAllAndLoadsNothing(t *testing.T) {
	report := newReport(t, 40_000)
	page := write(t, report)
	for _, want := range []string{"Shard by", "Keys, the best first", "Writes of shards over time", "What grades mean", "Tenants that need", "What is decided at once", "Fix:", `<svg class="heat"`, `<span class="tag">current</span>`, report.Candidates[0].Grade} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if found := regexp.MustCompile(`(?i)<(script|img|link|iframe|object|embed)|\bsrc=["h]|url\(|@import|https?://`).FindAllString(page, -1); len(found) > 0 {
		t.Errorf("the page has %q", found)
	}
	if maps := strings.Count(page, `<svg class="heat"`); maps < 5 {
		t.Errorf("%d heat maps, want one for each key", maps)
	}
	if len(page) > 1<<20 {
		t.Errorf("the page has %d bytes", len(page))
	}
	if name := os.Getenv("CLEAVE_PAGE"); name != "" { // to look at it
		if err := os.WriteFile(name, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Elements are closed in the order in which they were opened.
func TestWrite_PageIsWellFormed(t *testing.T) {
	for _, rows := range []int{40_000, 50} {
		d := xml.NewDecoder(strings.NewReader(write(t, newReport(t, rows))))
		d.Strict = false
		d.AutoClose = []string{"meta", "br"}
		d.Entity = xml.HTMLEntity
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A counter rises in the order of arrival, and its shard takes all writes.
func TestDraw_ShowsWhereWritesGo(t *testing.T) {
	report := newReport(t, 40_000)
	rising := report.Columns[3].Arrival
	for i := 1; i < len(rising); i++ {
		if rising[i] < rising[i-1] {
			t.Fatalf("the clock falls at %d: %v", i, rising)
		}
	}
	if report.Current.Kind != "hash" || len(report.Current.Heat) == 0 {
		t.Errorf("the current key has %d moments", len(report.Current.Heat))
	}
	for _, moment := range report.Candidates[0].Heat {
		sum := 0.0
		for _, load := range moment {
			sum += load
		}
		if len(moment) != report.Shards || sum < float64(report.Shards)-0.001 || sum > float64(report.Shards)+0.001 {
			t.Fatalf("loads over the mean are %v", moment)
		}
	}
	for _, c := range []struct {
		load   float64
		shards int
		want   int
	}{{0, 16, 0}, {0.125, 16, 0}, {0.2, 16, 2}, {1, 16, 5}, {16, 16, 11}, {1024, 1024, 11}} {
		if got := heatLevel(c.load, c.shards); got != c.want {
			t.Errorf("load %v of %d shards: got color %d, want %d", c.load, c.shards, got, c.want)
		}
	}
}
