package output

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

type row struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"`
}

var columns = []Column[row]{
	{Head: "name", Cell: func(r row) string { return r.Name }},
	{Head: "share", Cell: func(r row) string { return strings.Repeat("9", int(r.Share*4)) }, Right: true, Bar: func(r row) float64 { return r.Share }},
}

func TestTableAlignsColumnsAndDrawsBars(t *testing.T) {
	var b strings.Builder
	rows := []row{{"a", 0.25}, {"longer", 1}, {"none", 0}}
	if err := WriteRows(&b, Table, 0, rows, columns); err != nil {
		t.Fatal(err)
	}
	want := "" +
		"name    share\n" +
		"a           9 ██▌\n" +
		"longer   9999 ██████████\n" +
		"none\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestJSONFormsCarryTheRows(t *testing.T) {
	rows := []row{{"a", 0.5}, {"b", 1}}
	var array strings.Builder
	if err := WriteRows(&array, JSON, 0, rows, columns); err != nil {
		t.Fatal(err)
	}
	var back []row
	if err := json.Unmarshal([]byte(array.String()), &back); err != nil {
		t.Fatal(err)
	}
	if len(back) != 2 || back[0] != rows[0] || back[1] != rows[1] {
		t.Errorf("read back %v, wrote %v", back, rows)
	}

	var lines strings.Builder
	if err := WriteRows(&lines, JSONL, 0, rows, columns); err != nil {
		t.Fatal(err)
	}
	want := `{"name":"a","share":0.5}` + "\n" + `{"name":"b","share":1}` + "\n"
	if lines.String() != want {
		t.Errorf("got %q, want %q", lines.String(), want)
	}
}

func TestNoRowsIsAnEmptyArrayNotNull(t *testing.T) {
	var b strings.Builder
	if err := WriteRows[row](&b, JSON, 0, nil, columns); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(b.String()); got != "[]" {
		t.Errorf("got %s, want []", got)
	}
}

func TestFormatRefusesUnknownWordsAndKeepsItsValue(t *testing.T) {
	f := JSONL
	err := f.Set("yaml")
	if err == nil || !strings.Contains(err.Error(), "table, json or jsonl") {
		t.Errorf("error %v does not say what is allowed", err)
	}
	if f != JSONL {
		t.Errorf("format changed to %v", f)
	}
	if got := strings.Join(FormatNames(), " "); got != "table json jsonl" {
		t.Errorf("the words are %s", got)
	}
	for _, word := range FormatNames() {
		if err := f.Set(word); err != nil || f.String() != word {
			t.Errorf("Set(%q) = %v, then %q", word, err, f)
		}
	}
}

func TestBarNeverLeavesItsWidthAndNeverHidesSomething(t *testing.T) {
	for _, f := range []float64{math.NaN(), math.Inf(-1), -1, 0} {
		if got := drawBar(f, 10); got != "" {
			t.Errorf("bar(%v) = %q, want nothing", f, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64Range(1e-300, 1e300).Draw(t, "fraction")
		cells := rapid.IntRange(1, 80).Draw(t, "cells")
		n := utf8.RuneCountInString(drawBar(f, cells))
		if n < 1 || n > cells {
			t.Fatalf("bar(%v, %d) is %d wide", f, cells, n)
		}
	})
}
