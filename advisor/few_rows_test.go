package advisor_test

import (
	"context"
	"testing"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/partition"
)

// With few rows the edge of a range keyspace is not seen: a counter that nobody has seen taking all writes is no good key.
func TestAnalyze_FewRowsOfACounter_NeverMakeItGood(t *testing.T) {
	for _, rows := range []int{1000, 1023, 1024, 1200, 1535, 1536, 2100, 3000} {
		src := &rowSource{columns: []string{"n", "user"}, rows: rows, row: func(i int) []any { return []any{i, i * 7919 % 503} }}
		report, err := advisor.Analyze(context.Background(), src, advisor.Options{Now: now, Kinds: []partition.Kind{partition.Hash, partition.Range}, Current: "n", CurrentKind: ptrTo(partition.Range)})
		if err != nil {
			t.Fatal(err)
		}
		if g := report.Current.Grade; g != "?" && g != "F" {
			t.Errorf("%d rows: a counter has grade %s", rows, g)
		}
		if best := report.Candidates[0]; best.Grade == "?" {
			t.Errorf("%d rows: %s without a grade is the first", rows, best.Layout)
		}
	}
}

func ptrTo[T any](v T) *T { return &v }
