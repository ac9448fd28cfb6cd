package advisor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/partition"
)

// analyzeRows reports on rows that a function makes.
func analyzeRows(t *testing.T, columns string, rows int, o advisor.Options, row func(r *rand.Rand, i int) []any) *advisor.Report {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 6))
	src := &rowSource{columns: strings.Fields(columns), rows: rows, row: func(i int) []any { return row(r, i) }}
	o.Now = now
	report, err := advisor.Analyze(context.Background(), src, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// Holds of cabins: customers compete for one cabin of one trip, and one trip is on sale.
func TestAnalyze_FindsWhatIsDecidedTogether(t *testing.T) {
	holds := func(r *rand.Rand, i int) []any {
		trip := 0
		if r.IntN(5) > 0 {
			trip = r.IntN(400)
		}
		return []any{uuidOf(r), fmt.Sprint("trip-", trip), fmt.Sprint("cabin-", r.IntN(40)), fmt.Sprint("customer-", r.IntN(9000))}
	}
	kinds, err := advisor.ParseTogether("trip, cabin=95\ntrip,cabin,customer=5")
	if err != nil {
		t.Fatal(err)
	}
	report := analyzeRows(t, "id trip cabin customer", 60_000, advisor.Options{
		Together: kinds, Kinds: []partition.Kind{partition.Hash}, Candidates: []string{"customer", "trip", "(trip, cabin)", "(trip, customer)", "(salt(16), trip)"},
	}, holds)
	if got := strings.Join(report.DecidedTogether, " "); got != "trip cabin" {
		t.Errorf("decided together are %s, want trip and cabin", got)
	}
	for _, want := range []struct {
		layout, local, breaks string
		low, high             float64
	}{
		{"(trip, cabin)", "trip, cabin; trip, cabin, customer", "spreads", 0, 0},
		{"trip", "trip, cabin; trip, cabin, customer", "the fullest shard has 4", 0, 0},
		{"customer", "trip, cabin, customer", "transactions on trip, cabin: 100 % cross", 0.94, 0.951},
		{"(trip, customer)", "trip, cabin, customer", "transactions on trip, cabin", 0.93, 0.951},
		{"(salt(16), trip)", "", "transactions on trip, cabin", 0.9, 1},
	} {
		found := false
		for _, c := range report.Candidates {
			if c.Layout != want.layout {
				continue
			}
			found = true
			fit := c.Together
			if got := strings.Join(fit.Local, "; "); got != want.local || !strings.HasPrefix(fit.BreaksFirst, want.breaks) || fit.CrossShard.Value < want.low || fit.CrossShard.Value > want.high {
				t.Errorf("%s: local %q, breaks first %q, crossing %+v, want %+v", c.Layout, got, fit.BreaksFirst, fit.CrossShard, want)
			}
		}
		if !found {
			t.Errorf("%s is not among the candidates", want.layout)
		}
	}
	if best := report.Candidates[0].Layout; best != "(trip, cabin)" {
		t.Errorf("best is %s", best)
	}

	// Candidates that are found have it too.
	report = analyzeRows(t, "id trip cabin customer", 60_000, advisor.Options{Together: kinds, Kinds: []partition.Kind{partition.Hash}}, holds)
	if best := report.Candidates[0]; !strings.Contains(best.Layout, "trip:string, cabin:string") || best.Together.CrossShard.High != 0 {
		t.Errorf("best of those found is %s, %+v", best.Layout, best.Together)
	}
}

func TestAnalyze_WithoutASharedColumn_SaysThatSomeCross(t *testing.T) {
	report := analyzeRows(t, "a b", 5000, advisor.Options{Together: []advisor.Together{{Columns: []string{"a"}}, {Columns: []string{"b"}, Count: 3}}},
		func(r *rand.Rand, i int) []any { return []any{r.IntN(500), r.IntN(700)} })
	if len(report.DecidedTogether) != 0 || !strings.Contains(strings.Join(report.Notes, "\n"), "whatever the key, some of them cross") {
		t.Errorf("got %v, %v", report.DecidedTogether, report.Notes)
	}
}

func TestParseTogether_RefusesWhatIsNone(t *testing.T) {
	for _, text := range []string{"", ";", "=5", "a=0", "a=-1", "a=x", ",="} {
		if kinds, err := advisor.ParseTogether(text); !errors.Is(err, advisor.ErrTogether) {
			t.Errorf("%q: got %v, %v, want %v", text, kinds, err, advisor.ErrTogether)
		}
	}
	src := &rowSource{columns: []string{"a"}, rows: 10, row: func(i int) []any { return []any{i} }}
	if _, err := advisor.Analyze(context.Background(), src, advisor.Options{Together: []advisor.Together{{Columns: []string{"x"}}}}); !errors.Is(err, advisor.ErrTogether) {
		t.Errorf("got %v, want %v", err, advisor.ErrTogether)
	}
}

// A tenant is named with the shards that it needs, and the cut around it has its keys and no others.
func TestAnalyze_NamesTenantsThatNeedAPlace(t *testing.T) {
	names := map[string]bool{}
	report := analyzeRows(t, "id tenant", 60_000, advisor.Options{Shards: 16}, func(r *rand.Rand, i int) []any {
		tenant := fmt.Sprint("tenant-", 2+r.IntN(4000))
		switch r.IntN(100) {
		case 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19:
			tenant = "it's big"
		case 20, 21, 22, 23, 24:
			tenant = "tenant-1"
		}
		names[tenant] = true
		return []any{uuidOf(r), tenant}
	})
	if len(report.Tenants) != 2 {
		t.Fatalf("got %+v, want two tenants", report.Tenants)
	}
	big, small := report.Tenants[0], report.Tenants[1]
	if big.Value != "it's big" || big.Shards != 4 || big.Share.Low < 0.18 || big.Share.High > 0.22 || big.TimesMedian < 500 || small.Value != "tenant-1" || small.Shards != 1 {
		t.Errorf("got %+v", report.Tenants)
	}
	if !strings.HasSuffix(big.Split, `--key '\x02it\x27s big\x00' --key '\x02it\x27s big\x01'`) {
		t.Errorf("got %s", big.Split)
	}
	layout, err := key.ParseLayout("tenant | id")
	if err != nil {
		t.Fatal(err)
	}
	for name := range names {
		k, err := layout.Encode(key.Columns{"tenant": name, "id": "x"})
		if err != nil {
			t.Fatal(err)
		}
		inside := bytes.Compare(k, []byte("\x02it's big\x00")) >= 0 && bytes.Compare(k, []byte("\x02it's big\x01")) < 0
		if inside != (name == "it's big") {
			t.Errorf("%s is inside the cut: %v", name, inside)
		}
	}
}
