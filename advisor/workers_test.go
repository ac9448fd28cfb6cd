package advisor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/advisor/csvfile"
	"github.com/cleavekv/cleave/advisor/jsonlfile"
)

// writeMixed writes records with all that makes it hard to cut a file: quotes, line ends inside of
// them, records that cannot be read, columns that come late.
func writeMixed(rows int) (csv, jsonl string) {
	r := rand.New(rand.NewPCG(3, 4))
	var c, j strings.Builder
	c.WriteString("id,customer,note,amount\n")
	for i := range rows {
		customer, amount := fmt.Sprintf("customer-%d", r.IntN(30_000)), r.Float64()
		note := [...]string{"plain", `"with, comma"`, "\"line\nend\"", `"say ""hi"""`, `5" disk`, "ünï", ""}[r.IntN(7)]
		fmt.Fprintf(&c, "%d,%s,%s,%.3f\n", i, customer, note, amount)
		switch r.IntN(2000) {
		case 0:
			c.WriteString("1,2\n")
		case 1:
			c.WriteString("1,\"open,2,3\n")
		case 2:
			c.WriteString("1,\"x\"y,2,3\n")
		case 3:
			c.WriteString("\xff,2,3,4\n\n")
		}
		late := ""
		if i > rows/2 && r.IntN(3) == 0 {
			late = fmt.Sprintf(`"late%d":%d,`, r.IntN(9), r.IntN(50))
		}
		fmt.Fprintf(&j, `{%s"id":%d,"customer":"%s","amount":%.3f}`+"\n", late, i, customer, amount)
		if r.IntN(1000) == 0 {
			j.WriteString("{\"id\n")
		}
	}
	return c.String(), j.String()
}

func TestAnalyze_ReportDoesNotDependOnWorkersOrReads(t *testing.T) {
	rows := 120_000
	if testing.Short() {
		rows = 40_000
	}
	csv, jsonl := writeMixed(rows)
	for name, open := range map[string]func(r io.Reader) advisor.Source{
		"csv":   func(r io.Reader) advisor.Source { return csvfile.NewReader(r, csvfile.Options{}) },
		"jsonl": func(r io.Reader) advisor.Source { return jsonlfile.NewReader(r, jsonlfile.Options{}) },
	} {
		text := map[string]string{"csv": csv, "jsonl": jsonl}[name]
		want := ""
		for _, workers := range []int{1, 2, 7} {
			var in io.Reader = strings.NewReader(text)
			if workers == 7 {
				in = iotest.HalfReader(in)
			}
			report, err := advisor.Analyze(context.Background(), open(in), advisor.Options{Workers: workers, Now: now, Candidates: []string{"customer", "id"}})
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(report)
			if err != nil {
				t.Fatal(err)
			}
			if want == "" {
				want = string(got)
				if int(report.Rows) < rows*9/10 || report.Skipped == 0 {
					t.Errorf("%s: %d rows, %d skipped", name, report.Rows, report.Skipped)
				}
			}
			if string(got) != want {
				t.Errorf("%s: %d workers find\n%s\none finds\n%s", name, workers, got, want)
			}
		}
	}
}

// All lines are counted wherever the file is cut: the last line has the number that it has in the file.
func TestAnalyze_LinesAreThoseOfTheFile(t *testing.T) {
	csv, _ := writeMixed(40_000)
	lines := strings.Count(csv, "\n")
	src := csvfile.NewReader(strings.NewReader(csv+"1,2,3\n"), csvfile.Options{Strict: true})
	clean := csvfile.NewReader(strings.NewReader(strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(csv, "1,2\n", ""), "1,\"open,2,3\n", ""), "1,\"x\"y,2,3\n", ""), "\xff,2,3,4\n\n", "")+"1,2,3\n"), csvfile.Options{Strict: true})
	var problem *advisor.InputError
	if _, err := advisor.Analyze(context.Background(), src, advisor.Options{}); !errors.As(err, &problem) || problem.Line >= int64(lines) {
		t.Errorf("got %v, want the first problem", err)
	}
	_, err := advisor.Analyze(context.Background(), clean, advisor.Options{})
	if !errors.As(err, &problem) || problem.Line < 40_000 || problem.What != "3 fields, the header has 4" {
		t.Errorf("got %v, want a problem in the last line", err)
	}
}

// A source that never comes back does not keep an analysis that is interrupted.
func TestAnalyze_InterruptedWhileTheSourceWaits(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	wait := make(chan struct{})
	defer close(wait)
	src := &rowSource{columns: []string{"user"}, rows: 1 << 30, row: func(i int) []any {
		if i == 5000 {
			cancel()
			<-wait
		}
		return []any{i % 700}
	}}
	report, err := advisor.Analyze(ctx, src, advisor.Options{Now: now})
	if err != nil || !report.Interrupted || report.Rows == 0 || report.Rows > 5000 {
		t.Errorf("got %+v, %v", report, err)
	}
}
