package csvfile

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/advisor/internal/recordtext"
)

// readText reads all of a source as text: one line for each record and problem.
func readText(r *Reader) (string, error) { return recordtext.Read(r) }

func TestReader_ReadsRecordsAndNamesProblems(t *testing.T) {
	long := strings.Repeat("x", advisor.MaxRecordBytes)
	for _, c := range []struct{ name, input, want string }{
		{"plain", "a,b\n1,2\n3,4\n", "a b: 1,2 | 3,4"},
		{"no end of line", "a,b\n1,2", "a b: 1,2"},
		{"CRLF", "a,b\r\n1,2\r\n", "a b: 1,2"},
		{"byte order mark", "\xef\xbb\xbfa,b\n1,2\n", "a b: 1,2"},
		{"null and empty", "a,b\n,\"\"\n", "a b: NULL,"},
		{"quotes", "a,b\n\"x,y\",\"say \"\"hi\"\"\"\n", `a b: x,y,say "hi"`},
		{"line end in quotes", "a,b\n\"x\ny\",2\n3,4\n", "a b: x\ny,2 | 3,4"},
		{"quote inside", "a,b\n5\" disk,2\n", `a b: 5" disk,2`},
		{"semicolon", "a;b\n1;2,5\n", "a b: 1,2,5"},
		{"tab", "a\tb\n1\t2\n", "a b: 1,2"},
		{"blank lines", "a,b\n\n1,2\n\r\n3,4\n", "a b: 1,2 | 3,4"},
		{"nameless column", "a,\n1,2\n", "a column2: 1,2"},
		{"short record", "a,b\n1\n3,4\n", "a b: 3,4 | line 2: 1 fields, the header has 2"},
		{"long record", "a,b\n1,2,3\n", "a b: line 2: 3 fields, the header has 2"},
		{"binary", "a,b\n1,\x00\x01\n\xff\xfe,2\n5,6\n", "a b: 5,6 | line 2, column b: bytes that are not text in UTF-8 | line 3, column a: bytes that are not text in UTF-8"},
		{"text behind quote", "a,b\n\"x\"y,2\n3,4\n", `a b: 3,4 | line 2, column a: 'y' behind a quote that is closed`},
		{"open quote", "a,b\n1,\"x\n3,4\n5,6\n", "a b: 3,4 | 5,6 | line 2, column b: a quote that is not closed"},
		{"huge field", "a,b\n" + long + ",2\n3,4\n", "a b: 3,4 | line 2: a record of more than 1024 KiB"},
		{"huge field at the end", "a,b\n3,4\n" + long + ",2", "a b: 3,4 | line 3: a record of more than 1024 KiB"},
		{"header alone", "a,b\n", "a b:"},
		{"line numbers", "a\n\"x\ny\"\n1,2\n", "a: x\ny | line 4: 2 fields, the header has 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, src := range []io.Reader{strings.NewReader(c.input), iotest.OneByteReader(strings.NewReader(c.input)), iotest.DataErrReader(strings.NewReader(c.input))} {
				if len(c.input) > advisor.MaxRecordBytes {
					src = strings.NewReader(c.input)
				}
				got, err := readText(NewReader(src, Options{}))
				if err != nil || got != c.want {
					t.Errorf("got %q, %v\nwant %q", got, err, c.want)
				}
			}
		})
	}
}

func TestReader_RefusesWhatIsNoCSV(t *testing.T) {
	for name, input := range map[string]string{"empty": "", "blank lines": "\n\n", "binary": "PAR1\x00\x00,\xff\n", "many columns": strings.Repeat("a,", 300) + "b\n1\n"} {
		if got, err := readText(NewReader(strings.NewReader(input), Options{})); !errors.Is(err, ErrHeader) {
			t.Errorf("%s: got %q, %v, want %v", name, got, err, ErrHeader)
		}
	}
}

func TestReader_StrictEndsAtTheFirstProblem(t *testing.T) {
	for _, input := range []string{"a,b\n1,2\n3\n", "a,b\n1,2\n3,\"\n", "a,b\n1,2\n3,\x00\n"} {
		_, err := readText(NewReader(strings.NewReader(input), Options{Strict: true}))
		var problem *advisor.InputError
		if !errors.As(err, &problem) || problem.Line != 3 {
			t.Errorf("%q: got %v, want a problem in line 3", input, err)
		}
	}
}

func TestReader_NoHeaderNamesColumnsByNumber(t *testing.T) {
	got, err := readText(NewReader(strings.NewReader("1,2\n3,4\n"), Options{NoHeader: true}))
	if want := "c1 c2: 1,2 | 3,4"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestReader_ReturnsErrorsOfTheInput(t *testing.T) {
	broken := errors.New("disk on fire")
	_, err := readText(NewReader(io.MultiReader(strings.NewReader("a,b\n1,2\n"), iotest.ErrReader(broken)), Options{}))
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("got %v, want %v with line 3", err, broken)
	}
}

// Any input is read without a panic, in pieces as in one; and what encoding/csv reads without
// complaint is read alike.
func FuzzReader(f *testing.F) {
	for _, s := range []string{"1,2\n", "\"x\n\",\"\"\"\"\n", "a\r\n\"\r\n", "1;2", "1,\"x", "\"x\",\"\"\r", "\"1\",\r\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		input := append([]byte("a,b\n"), body...)
		o := Options{Comma: ','}
		got, err := readText(NewReader(bytes.NewReader(input), o))
		again, againErr := readText(NewReader(iotest.OneByteReader(bytes.NewReader(input)), o))
		if got != again || fmt.Sprint(err) != fmt.Sprint(againErr) {
			t.Fatalf("in one piece %q, %v\nby the byte %q, %v", got, err, again, againErr)
		}
		if err != nil || strings.Contains(got, "line ") {
			return
		}
		theirs := csv.NewReader(bytes.NewReader(input))
		records, err := theirs.ReadAll()
		if err != nil || bytes.ContainsRune(input, '\r') {
			return // the two differ in lone carriage returns
		}
		var rows []string
		for _, r := range records[1:] {
			rows = append(rows, strings.Join(r, ","))
		}
		ours := strings.TrimPrefix(strings.TrimPrefix(got, "a b:"), " ")
		want := strings.TrimSuffix(strings.Join(rows, " | "), " ")
		if strings.ReplaceAll(ours, "NULL", "") != strings.ReplaceAll(want, "NULL", "") {
			t.Fatalf("%q: got %q, encoding/csv has %q", input, ours, want)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	var input bytes.Buffer
	input.WriteString("id,user,country,amount,created_at\n")
	for i := range 50_000 {
		fmt.Fprintf(&input, "%d,user-%d,DE,%d.50,2026-03-01T12:00:%02dZ\n", i, i%977, i%5000, i%60)
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

// Wherever the input is cut, each record is whole, and has the line on which it begins.
func TestReader_CutsNoRecordInTwo(t *testing.T) {
	const rows = 60_000
	var input strings.Builder
	input.WriteString("id,note\n")
	for i := range rows {
		fmt.Fprintf(&input, "%d,\"first line\nsecond, line\n\"\n", i)
	}
	r := NewReader(strings.NewReader(input.String()), Options{Strict: true})
	var records advisor.Records
	n, chunks := 0, 0
	for {
		records.Reset()
		err := r.Next(&records)
		if errors.Is(err, io.EOF) {
			break
		}
		if err := errors.Join(err, records.Parse()); err != nil {
			t.Fatal(err)
		}
		for record := range records.All() {
			_, id := record.Value(0)
			_, note := record.Value(1)
			if string(id) != fmt.Sprint(n) || string(note) != "first line\nsecond, line\n" || record.Line() != int64(2+3*n) {
				t.Fatalf("record %d is %q, %q of line %d", n, id, note, record.Line())
			}
			n++
		}
		chunks++
	}
	if n != rows || chunks < 3 {
		t.Errorf("%d records in %d chunks, want %d in several", n, chunks, rows)
	}
}
