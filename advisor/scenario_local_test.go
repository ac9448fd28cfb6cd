package advisor_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/partition"
)

// Amounts and dates as Germans and Americans write them are amounts and dates.
func TestAnalyze_LocalNumbersAndDates_AreRead(t *testing.T) {
	for _, c := range []struct{ name, layout, decimal string }{
		{"German", "02.01.2006", ","},
		{"German with the time", "02.01.2006 15:04", ","},
		{"American", "01/02/2006", "."},
		{"British with seconds", "02/01/2006 15:04:05", "."},
	} {
		row := func(r *rand.Rand, i int) []any {
			amount := strings.ReplaceAll(fmt.Sprintf("%d.%02d", r.IntN(9999), r.IntN(100)), ".", c.decimal)
			return []any{fmt.Sprintf("K%04d", r.IntN(4000)), amount, start.Add(time.Duration(i) * 2 * time.Minute).Format(c.layout)}
		}
		report := analyzeRows(t, "Kundennr Betrag Bestelldatum", 20_000, advisor.Options{Current: "Bestelldatum", CurrentKind: ptrTo(partition.Range)}, row)
		if best := report.Candidates[0].Layout; !strings.HasPrefix(best, "Kundennr") {
			t.Errorf("%s: best is %s", c.name, best)
		}
		types := []string{report.Columns[1].Type, report.Columns[2].Type}
		if !slices.Equal(types, []string{"float", "time"}) || report.Current.Grade < "D" || !slices.Contains(report.Current.Patterns, "monotonic") {
			t.Errorf("%s: types %v, the date has grade %s, %v", c.name, types, report.Current.Grade, report.Current.Patterns)
		}
	}
	// Of days up to the twelfth alone it is not known which part is the month.
	report := analyzeRows(t, "at", 5000, advisor.Options{}, func(r *rand.Rand, i int) []any {
		return []any{fmt.Sprintf("%02d/%02d/2026", 1+r.IntN(12), 1+r.IntN(12))}
	})
	if got := report.Columns[0].Type; got != "string" {
		t.Errorf("the type of what is ambiguous is %s", got)
	}
}
