package trafficlog_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/advisor/trafficlog"
	"github.com/cleavekv/cleave/key"
)

// feedOf returns a function that returns operations once.
func feedOf(ops ...trafficlog.Operation) func([]trafficlog.Operation) ([]trafficlog.Operation, error) {
	done := false
	return func(dst []trafficlog.Operation) ([]trafficlog.Operation, error) {
		if done {
			return dst, io.EOF
		}
		done = true
		return append(dst, ops...), nil
	}
}

// readAll returns records as text, with their kinds, and the columns.
func readAll(t *testing.T, r *trafficlog.Reader) (rows []string, records *advisor.Records) {
	t.Helper()
	records = new(advisor.Records)
	if err := r.Next(records); err != nil {
		t.Fatal(err)
	}
	for record := range records.All() {
		var row []string
		for i := range records.Columns() {
			kind, text := record.Value(i)
			row = append(row, fmt.Sprintf("%d:%s", kind, text))
		}
		rows = append(rows, strings.Join(row, " "))
	}
	if err := r.Next(new(advisor.Records)); err != io.EOF {
		t.Errorf("at the end there is %v", err)
	}
	return rows, records
}

func TestReader_WithoutLayout_CutsKeysAtSeparators(t *testing.T) {
	ops := []trafficlog.Operation{
		{Key: []byte("cart:{42}:7"), Write: true, Bytes: 10}, {Key: []byte("cart:9")}, {Key: []byte("user:1")}, {Key: []byte("")},
		{Key: []byte("cart:a:b:c:d:e:f:g:h:i")}, {Key: []byte("cart:{x:")},
	}
	rows, records := readAll(t, trafficlog.NewReader(feedOf(ops...), trafficlog.Options{Prefix: []byte("cart")}))
	want := []string{"1:cart 1:42 1:7", "1:cart 1:9 0:", "1:cart 1:a 1:b 1:c 1:d 1:e 1:f 1:g:h:i", "1:cart 1:{x 1:"}
	for i, row := range rows {
		if i >= len(want) || !strings.HasPrefix(row, want[i]) {
			t.Errorf("row %d is %s", i, row)
		}
	}
	if len(rows) != len(want) || len(records.Columns()) != 8 || records.Columns()[2] != "part3" {
		t.Errorf("%d rows of columns %q", len(rows), records.Columns())
	}
	if rows, _ := readAll(t, trafficlog.NewReader(feedOf(ops...), trafficlog.Options{OnlyWrites: true})); len(rows) != 1 {
		t.Errorf("writes: %q", rows)
	}
	if rows, _ := readAll(t, trafficlog.NewReader(feedOf(ops...), trafficlog.Options{OnlyReads: true})); len(rows) != 5 {
		t.Errorf("reads: %q", rows)
	}
}

func TestReader_WithLayout_DecodesItsColumns(t *testing.T) {
	layout, err := key.ParseLayout("(customer, day(ts)) | ts, id:uuid, n")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 1, 2, 3, 4, 5, time.UTC)
	id, err := key.ParseUUID("00112233-4455-6677-8899-aabbccddeeff")
	if err != nil {
		t.Fatal(err)
	}
	k, err := layout.Encode(key.Columns{"customer": "c1", "ts": at, "id": id, "n": 7})
	if err != nil {
		t.Fatal(err)
	}
	rows, records := readAll(t, trafficlog.NewReader(feedOf(trafficlog.Operation{Key: k}, trafficlog.Operation{Key: []byte("foreign")}), trafficlog.Options{Layout: layout}))
	if want := []string{"2:c1 2:2026-11-01T02:03:04.000000005Z 2:00112233-4455-6677-8899-aabbccddeeff 3:7"}; !slices.Equal(rows, want) || !slices.Equal(records.Columns(), []string{"customer", "ts", "id", "n"}) {
		t.Errorf("columns %q: %q, want %q", records.Columns(), rows, want)
	}
	if p := records.Problems(); len(p) != 1 || p[0].Line != 2 || !strings.Contains(p[0].What, "does not fit the layout") {
		t.Errorf("problems %v", p)
	}
}

// Of many keys that are asked for, one very often, the report says that no key can spread it; and that it is of load.
func TestReader_HotKey_IsSeenAsLoad(t *testing.T) {
	var ops []trafficlog.Operation
	for i := range 20_000 {
		user := fmt.Sprint(i * 7919 % 5003)
		if i%2 == 0 {
			user = "celebrity"
		}
		ops = append(ops, trafficlog.Operation{Key: []byte("timeline:" + user), Bytes: 100})
	}
	r, err := advisor.Analyze(context.Background(), trafficlog.NewReader(feedOf(ops...), trafficlog.Options{}), advisor.Options{Traffic: true, Current: "part2"})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Traffic || r.Current.Writes.Value < 7 || r.Current.Scores.LargestKey != -1 || r.Current.Grade < "D" || !strings.Contains(r.Current.Sentence, "the busiest shard moves 8.5 times the mean") {
		t.Errorf("the current key: %+v", r.Current)
	}
	if len(r.Tenants) != 1 || r.Tenants[0].Value != "celebrity" {
		t.Errorf("tenants %+v", r.Tenants)
	}
}

func ExampleNewReader() {
	// One of many requests for keys such as cart:42:7, in the order in which they came.
	asked := 0
	next := func(ops []trafficlog.Operation) ([]trafficlog.Operation, error) {
		for range 1000 {
			if asked == 5000 {
				return ops, io.EOF
			}
			asked++
			ops = append(ops, trafficlog.Operation{Key: fmt.Appendf(nil, "cart:%d:%d", asked*7919%1013, asked%5), Bytes: 64})
		}
		return ops, nil
	}
	report, err := advisor.Analyze(context.Background(), trafficlog.NewReader(next, trafficlog.Options{}), advisor.Options{Shards: 8, Traffic: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	best := report.Candidates[0]
	fmt.Println(best.Grade, best.Layout)
}
