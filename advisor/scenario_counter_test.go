package advisor_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/partition"
)

// A counter that the input is not in the order of, or whose values come several times, is still a counter: new rows
// of a range keyspace go to the last shard.
func TestAnalyze_Counters_AreKnownWhateverTheOrder(t *testing.T) {
	const rows = 20_000
	shuffled := rand.New(rand.NewPCG(3, 4)).Perm(rows)
	for _, c := range []struct {
		name, columns string
		row           func(r *rand.Rand, i int) []any
		grade, note   string // of the first column in a range keyspace
	}{
		{"exported in no order", "id customer", func(r *rand.Rand, i int) []any { return []any{1 + shuffled[i], r.IntN(4000)} }, "F", "not in the order of id"},
		{"a twentieth is missing", "id customer", func(r *rand.Rand, i int) []any { return []any{shuffled[i] * 20 / 19, r.IntN(4000)} }, "F", "not in the order of id"},
		{"lines of invoices", "invoice line", func(r *rand.Rand, i int) []any { return []any{1_000_000 + i/4, i % 4} }, "F", ""},
		{"numbers picked at random", "id customer", func(r *rand.Rand, i int) []any { return []any{r.IntN(20 * rows), r.IntN(4000)} }, "A", "No time or counter"},
		{"customers at random", "customer amount", func(r *rand.Rand, i int) []any { return []any{r.IntN(4000), r.IntN(900)} }, "A", "No time or counter"},
	} {
		first, _, _ := strings.Cut(c.columns, " ")
		report := analyzeRows(t, c.columns, rows, advisor.Options{Current: first, CurrentKind: ptrTo(partition.Range)}, c.row)
		notes := strings.Join(report.Notes, "\n")
		monotonic := strings.Contains(strings.Join(report.Current.Patterns, ","), "monotonic")
		if report.Current.Grade != c.grade || monotonic != (c.grade == "F") || !strings.Contains(notes, c.note) || strings.Contains(notes, "too few rows") {
			t.Errorf("%s: grade %s, patterns %v, notes\n%s\nwant %s and %q", c.name, report.Current.Grade, report.Current.Patterns, notes, c.grade, c.note)
		}
	}
}

// What is not known of rows in the order of something else is not blamed on their number.
func TestAnalyze_SortedRows_AreNotCalledTooFew(t *testing.T) {
	report := analyzeRows(t, "name amount", 20_000, advisor.Options{}, func(r *rand.Rand, i int) []any { return []any{strings.Repeat("x", 1+i/100), r.IntN(900)} })
	notes := strings.Join(report.Notes, "\n")
	if !strings.Contains(notes, "sorted by name") || strings.Contains(notes, "too few rows") {
		t.Errorf("the notes are\n%s", notes)
	}
}
