package advisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/partition"
)

// tableSource is records of text; nil is null.
type tableSource struct {
	columns []string
	rows    int
	row     func(i int) []any
	next    int
	// onRead is called before each call that reads, and its error ends the source.
	onRead func(next int) error
}

// Next is part of Source.
func (s *tableSource) Next(b *Records) error {
	if s.onRead != nil {
		if err := s.onRead(s.next); err != nil {
			return err
		}
	}
	if s.next >= s.rows {
		return io.EOF
	}
	b.SetColumns(s.columns)
	for n := 0; n < 100 && s.next < s.rows; n++ {
		for _, v := range s.row(s.next) {
			if v == nil {
				b.AppendValue(Null, nil)
				continue
			}
			b.AppendValue(Text, fmt.Append(nil, v))
		}
		s.next++
		b.EndRecord(int64(s.next+1), 50)
	}
	return nil
}

// The keys of a simulation are those that a program makes with the layout.
func TestSimulator_KeysAreThoseOfTheLayout(t *testing.T) {
	start := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	at := func(i int) time.Time { return start.Add(time.Duration(i) * time.Minute) }
	user := func(i int) string { return fmt.Sprint("user-", i%7) }
	id := func(i int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", i*77777) }
	c := newCollector(1)
	src := &tableSource{columns: []string{"user", "n", "id", "ts", "ms"}, rows: 500, row: func(i int) []any {
		return []any{user(i), i - 100, id(i), at(i).Format(time.RFC3339), at(i).UnixMilli()}
	}}
	if _, err := c.readAll(context.Background(), src, 0, nil); err != nil {
		t.Fatal(err)
	}
	for i, col := range c.columns {
		if err := col.finish(c.valuesOf(i, identValues), start.Add(24*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := newSimulator(c.columns, c.sample.Items(), c.bursts, 16)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"user", "user:string | n:int", "(user, hour(ts)) | ts, id:uuid", "day(ms) | ms", "every(15m, ts)", "(salt(8, id), user) | id", "(user:string, salt(4, n))", "(hash(n), n, user)", "hash(id), id | ts:time", "(hash(ts), minute(ts)) | ts", "n:string", "id:uuid, n",
	} {
		cand, err := s.newCandidate(text, partition.Range)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for row := range s.sampled {
			i := int(s.rows[row].place)
			u, err := key.ParseUUID(id(i))
			if err != nil {
				t.Fatal(err)
			}
			values := key.Columns{"user": user(i), "n": int64(i - 100), "id": u, "ts": at(i), "ms": at(i)}
			if text == "n:string" {
				values["n"] = fmt.Sprint(i - 100)
			}
			want, err := cand.layout.Encode(values)
			if err != nil {
				t.Fatal(err)
			}
			if got := cand.key.appendKey(nil, s, row); !bytes.Equal(got, want) {
				t.Fatalf("%s of row %d: got %x, the layout has %x", text, i, got, want)
			}
		}
	}
}

func TestAnalyze_InterruptedReportsWhatItKnows(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	src := &tableSource{columns: []string{"user"}, rows: 1 << 30, row: func(i int) []any { return []any{i % 500} }}
	src.onRead = func(next int) error {
		if next >= 20_000 {
			cancel()
		}
		return nil
	}
	r, err := Analyze(ctx, src, Options{})
	if err != nil || !r.Interrupted || r.Rows < 19_000 || r.Rows > 40_000 || len(r.Candidates) == 0 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestAnalyze_ReturnsErrorsOfTheSource(t *testing.T) {
	broken := errors.New("disk on fire")
	src := &tableSource{columns: []string{"user"}, rows: 5000, row: func(i int) []any { return []any{i} }}
	src.onRead = func(next int) error {
		if next >= 1000 {
			return broken
		}
		return nil
	}
	if _, err := Analyze(context.Background(), src, Options{}); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if _, err := Analyze(context.Background(), &tableSource{}, Options{}); !errors.Is(err, ErrNoRows) {
		t.Errorf("got %v, want %v", err, ErrNoRows)
	}
}

func TestAnalyze_NamesValuesOfAnotherType(t *testing.T) {
	src := &tableSource{columns: []string{"order id", "note"}, rows: 5000, row: func(i int) []any {
		if i == 4000 || i == 4500 {
			return []any{"n/a", "x"}
		}
		return []any{i, "x"}
	}}
	r, err := Analyze(context.Background(), src, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := Problem{4002, "order id", "2 values are not of type int, this is the first"}
	if len(r.Problems) != 1 || r.Problems[0] != want {
		t.Errorf("got %v, want %v", r.Problems, want)
	}
	if c := r.Columns[0]; c.Identifier != "order_id" || c.Type != "int" {
		t.Errorf("got %s of type %s, want order_id of type int", c.Identifier, c.Type)
	}
	// A column that is not always an integer is not declared as one.
	for _, c := range r.Candidates {
		if strings.Contains(c.Layout, ":int") {
			t.Errorf("%s refuses two of the rows", c.Layout)
		}
		if _, err := key.ParseLayout(c.Layout); err != nil {
			t.Error(err)
		}
	}
}

func TestAnalyze_EqualSeedsMakeEqualReports(t *testing.T) {
	report := func() string {
		src := &tableSource{columns: []string{"a", "b"}, rows: 70_000, row: func(i int) []any { return []any{i * 7919 % 5003, i} }}
		r, err := Analyze(context.Background(), src, Options{Seed: 3, Now: time.Unix(1.79e9, 0)})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%+v", r.Columns) + fmt.Sprintf("%+v", r.Candidates[0].Skews)
	}
	if a, b := report(), report(); a != b {
		t.Errorf("got %s\nand %s", a, b)
	}
}

// Many columns of long values are the most that is kept.
func TestAnalyze_MemoryIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 400 MB")
	}
	columns := make([]string, MaxColumns)
	row := make([]any, MaxColumns)
	for i := range columns {
		columns[i] = fmt.Sprint("c", i)
	}
	var most uint64
	long := strings.Repeat("x", 40)
	src := &tableSource{columns: columns, rows: 30_000, row: func(i int) []any {
		for n := range row {
			row[n] = fmt.Sprint(i*31+n, long)
		}
		return row
	}}
	src.onRead = func(int) error {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapInuse)
		return nil
	}
	if _, err := Analyze(context.Background(), src, Options{Candidates: []string{"c0"}}); err != nil {
		t.Fatal(err)
	}
	t.Logf("at most %d MB of heap", most>>20)
	if most > 500e6 {
		t.Errorf("%d MB of heap, want at most 500", most>>20)
	}
}

func TestParseCandidates_CutsOutsideOfParentheses(t *testing.T) {
	for list, want := range map[string][]string{
		"a":                      {"a"},
		"a, b,(a,day(ts))":       {"a", "b", "(a,day(ts))"},
		"a;(b, hour(t)) | t, id": {"a", "(b, hour(t)) | t, id"},
		"a|b,c;d":                {"a|b,c", "d"},
		" ; ,":                   nil,
	} {
		if got := ParseCandidates(list); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", list, got, want)
		}
	}
}

func TestTypeOf_IsTheNarrowest(t *testing.T) {
	for text, want := range map[string]valueType{
		"": typeString, "7": typeInt, "-7": typeInt, "0": typeInt, "007": typeString, "9223372036854775807": typeInt, "9223372036854775808": typeString,
		"1.5": typeFloat, "-.5": typeFloat, "1e9": typeFloat, "1.5E-07": typeFloat, "1e": typeString, "3e12ab34": typeString, "e5": typeString, "1.2.3": typeString, ".": typeString, "-": typeString, "true": typeBool, "x": typeString,
		"2026-10-01": typeTime, "2026-10-01T12:00:00Z": typeTime, "2026-10-01 12:00:00.5+02": typeTime, "2026-10-xx": typeString,
		"00000000-0000-4000-8000-00000000000a": typeUUID, "00000000-0000-4000-8000-00000000000g": typeString,
	} {
		if got := typeOf(Text, []byte(text)); got != want {
			t.Errorf("%q: got %v, want %v", text, keyTypes[got], keyTypes[want])
		}
	}
}
