package jsonlfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/advisor/internal/recordtext"
)

func TestReader_ReadsRecordsAndNamesProblems(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", advisor.MaxRecordBytes) + `"}`
	for _, c := range []struct{ name, input, want string }{
		{"plain", `{"a":1,"b":"x"}` + "\n" + `{"a":-2.5e3,"b":true}` + "\n", "a b: 1,x | -2.5e3,true"},
		{"no end of line", `{"a":1}`, "a: 1"},
		{"blanks and blank lines", " { \"a\" : 1 , \"b\" : 2 } \r\n\n", "a b: 1,2"},
		{"another order and missing members", `{"a":1,"b":2}` + "\n" + `{"b":3}` + "\n" + `{"b":4,"a":null}`, "a b: 1,2 | NULL,3 | NULL,4"},
		{"a column that comes late", `{"a":1}` + "\n" + `{"b":2}`, "a b: 1,NULL | NULL,2"},
		{"inner objects", `{"user":{"id":7,"name":{"first":"x"}}}`, "user.id user.name.first: 7,x"},
		{"arrays", `{"tags":["x", {"y":1}],"a":1}`, `tags a: ["x", {"y":1}],1`},
		{"escapes", `{"a":"x\"\u00e4\n"}`, "a: x\"ä\n"},
		{"a member twice", `{"a":1,"a":2}`, "a: 2"},
		{"empty object", `{}` + "\n" + `{"a":1}`, "a: NULL | 1"},
		{"no object", `[1]` + "\n" + `{"a":1}`, `a: 1 | line 1: byte 1: want '{'`},
		{"cut off", `{"a":1}` + "\n" + `{"a":` + "\n" + `{"a":3}`, "a: 1 | 3 | line 2: byte 6: want a value"},
		{"more behind", `{"a":1} {"a":2}` + "\n", "a: line 1: byte 8: more behind the object"},
		{"not a number", `{"a":01}` + "\n", ": line 1: byte 8: not a number"},
		{"binary", "{\"a\":\"\xff\"}\n\x00\x01\n{\"a\":1}\n", "a: 1 | line 1: byte 6: bytes that are not text in UTF-8 | line 2: byte 1: want '{'"},
		{"huge line", long + "\n" + `{"a":1}`, "a: 1 | line 1: a line of more than 1024 KiB"},
		{"deep", strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40), ": line 1: byte 82: objects nest more than 16 deep"},
		{"empty", "", ":"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, src := range []io.Reader{strings.NewReader(c.input), iotest.HalfReader(strings.NewReader(c.input)), iotest.DataErrReader(strings.NewReader(c.input))} {
				got, err := recordtext.Read(NewReader(src, Options{}))
				if err != nil || got != c.want {
					t.Errorf("got %.200q, %v\nwant %q", got, err, c.want)
				}
			}
		})
	}
}

func TestReader_BoundsItsColumns(t *testing.T) {
	var input strings.Builder
	for i := range advisor.MaxColumns + 1 {
		fmt.Fprintf(&input, `{"c%d":1}`+"\n", i)
	}
	got, err := recordtext.Read(NewReader(strings.NewReader(input.String()), Options{}))
	if want := fmt.Sprintf("line %d, column c%d: more than %d columns", advisor.MaxColumns+1, advisor.MaxColumns, advisor.MaxColumns); err != nil || !strings.HasSuffix(got, want) {
		t.Errorf("got %.200q, %v, want %q at the end", got, err, want)
	}
}

func TestReader_StrictEndsAtTheFirstProblem(t *testing.T) {
	_, err := recordtext.Read(NewReader(strings.NewReader("{\"a\":1}\n{\"a\"}\n"), Options{Strict: true}))
	var problem *advisor.InputError
	if !errors.As(err, &problem) || problem.Line != 2 {
		t.Errorf("got %v, want a problem in line 2", err)
	}
}

func TestReader_ReturnsErrorsOfTheInput(t *testing.T) {
	broken := errors.New("disk on fire")
	_, err := recordtext.Read(NewReader(io.MultiReader(strings.NewReader("{\"a\":1}\n"), iotest.ErrReader(broken)), Options{}))
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("got %v, want %v with line 2", err, broken)
	}
}

// Any line is read without a panic, and one is a record if encoding/json takes it for an object.
func FuzzReader(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `{"a":{"b":[1,{"c":"]"}],"d":"\u00e4\\"}}`, `{"a":-0.5e+7,"b":null,"c":true}`, `{"a":"\ud800"}`, ` {} `, `{"a":01}`, `{"a":1}}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if strings.ContainsAny(line, "\n") || strings.TrimSpace(line) == "" {
			return
		}
		r := NewReader(strings.NewReader(line), Options{})
		var b advisor.Records
		if err := errors.Join(r.Next(&b), b.Parse()); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		trimmed := strings.TrimSpace(line)
		valid := utf8.ValidString(line) && json.Valid([]byte(trimmed)) && strings.HasPrefix(trimmed, "{")
		if got := b.Len() == 1; got != valid {
			if problems := b.Problems(); len(problems) == 1 && (strings.Contains(problems[0].What, "deep") || strings.Contains(problems[0].What, "columns")) {
				return
			}
			t.Fatalf("%q: a record: %v, encoding/json: %v, %v", line, got, valid, b.Problems())
		}
	})
}

func BenchmarkReader(b *testing.B) {
	var input bytes.Buffer
	for i := range 50_000 {
		fmt.Fprintf(&input, `{"id":%d,"user":"user-%d","country":"DE","amount":%d.50,"created_at":"2026-03-01T12:00:%02dZ"}`+"\n", i, i%977, i%5000, i%60)
	}
	b.SetBytes(int64(input.Len()))
	var records advisor.Records
	for b.Loop() {
		r := NewReader(bytes.NewReader(input.Bytes()), Options{})
		for {
			records.Reset()
			if err := r.Next(&records); err != nil {
				break
			}
			if err := records.Parse(); err != nil {
				b.Fatal(err)
			}
		}
	}
}
