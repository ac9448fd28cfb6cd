package advisor_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/partition"
)

// at30Days is a time of the scenarios that has nothing to do with the row's place.
func at30Days(r *rand.Rand) time.Time {
	return start.Add(time.Duration(r.Int64N(int64(now.Sub(start)))))
}

// guessScenarios are tables without queries whose attributes spread rows at least as well as their identifiers, and
// tables whose rows are not in the order in which they were written.
var guessScenarios = []scenario{
	{
		name: "titles and counts that spread better than tenants", columns: "id tenant_id title created_at word_count",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{uuidOf(r), fmt.Sprint("t", min(r.IntN(1500), r.IntN(1500), r.IntN(1500))), fmt.Sprint(pick(r, "a the no"), " ", r.IntN(3000)), at.Format(time.RFC3339Nano), r.IntN(9000)}
		},
		best: []string{"tenant_id:string", "id:uuid"}, grade: "A",
	},
	{
		name: "readings with more values than sensors", columns: "fühler reading_milli quality t",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{fmt.Sprint("s", r.IntN(400)), r.IntN(100_000), r.IntN(2), at.Format(time.RFC3339Nano)}
		},
		kinds: []partition.Kind{partition.Range},
		best:  []string{"f_hler:string | t:time"}, worst: "t",
	},
	{
		name: "prices beside a buyer", columns: "buyer price_cents zip",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{r.IntN(5000), r.IntN(9000), r.IntN(90_000) + 10_000}
		},
		best: []string{"buyer:int"},
	},
	{
		name: "a unique text beside a number of the ticket", columns: "subject status ticket_no",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{fmt.Sprint("about ", r.Uint64()), pick(r, "open closed"), i + 1}
		},
		best: []string{"ticket_no:int", "hash(ticket_no)"}, worst: "status",
	},
	{
		name: "orders exported in no order", columns: "id customer created_at",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{uuidOf(r), fmt.Sprint("c", r.IntN(5000)), at30Days(r).Format(time.RFC3339Nano)}
		},
		kinds: []partition.Kind{partition.Range},
		best:  []string{"customer:string"}, worst: "created_at", pattern: "monotonic",
	},
	{
		name: "orders exported by customer", columns: "customer created_at amount",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{fmt.Sprintf("c%05d", i/8), at30Days(r).Format(time.RFC3339Nano), r.IntN(5000)}
		},
		kinds: []partition.Kind{partition.Range},
		best:  []string{"customer:string"}, worst: "created_at", pattern: "monotonic",
	},
	{
		name: "UUIDv7 exported in no order", columns: "id shop",
		row:   func(r *rand.Rand, i int, at time.Time) []any { return []any{uuid7Of(r, at30Days(r)), r.IntN(4000)} },
		kinds: []partition.Kind{partition.Range},
		best:  []string{"shop:int"}, worst: "id", pattern: "monotonic",
	},
	{
		name: "newest first", columns: "customer created_at",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{fmt.Sprint("c", r.IntN(5000)), now.Add(start.Sub(at)).Format(time.RFC3339Nano)}
		},
		kinds: []partition.Kind{partition.Range},
		best:  []string{"customer:string"}, worst: "created_at",
	},
	{
		name: "births, in the order of registration", columns: "email birth_date user_id created_at",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{fmt.Sprint(r.Uint64(), "@mail.example"), now.AddDate(0, 0, -7000-r.IntN(20_000)).Format(time.DateOnly), 5 * i, at.Format(time.RFC3339Nano)}
		},
		best: []string{"user_id:int", "hash(user_id)"},
	},
	{
		name: "accounts of a nightly batch", columns: "account business_date balance",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{1_000_000 + i%1500*37, start.AddDate(0, 0, i/1500).Format(time.DateOnly), r.Float64()}
		},
		best: []string{"account:int"}, worst: "business_date", pattern: "monotonic",
	},
	{
		name: "likes of a post that all look at", columns: "post_id liker_id liked_at",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			post := "viral"
			if r.IntN(10) > 3 {
				post = fmt.Sprint("p", r.IntN(20_000))
			}
			return []any{post, r.IntN(30_000), at.Format(time.RFC3339Nano)}
		},
		queries: `{"op":"select","columns":["post_id"],"count":80} {"op":"select","columns":["post_id","liker_id"],"count":20}`,
		kinds:   []partition.Kind{partition.Range},
		best:    []string{"post_id:string | liker_id:int"}, worst: "post_id | liked_at",
	},
	{
		name: "queries by a column that few values have", columns: "a1 a2 a3 a4 a5 a6 a7 a8 a9 lot",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			row := []any{}
			for range 9 {
				row = append(row, r.IntN(9000))
			}
			return append(row, fmt.Sprint("lot-", r.IntN(300)))
		},
		queries: `{"op":"select","columns":["lot","a9"],"count":10} {"op":"select","columns":["lot"],"count":5}`,
		best:    []string{"lot:string"},
	},
}

// A row of a table without queries says which of its identifiers are as good as each other, and what to give.
func TestAnalyze_WithoutQueries_SaysWhatTheVerdictRestsOn(t *testing.T) {
	row := func(r *rand.Rand, i int) []any { return []any{r.IntN(6000), r.IntN(6000), r.IntN(9000)} }
	columns := "buyer_id seller_id price"
	report := analyzeRows(t, columns, 20_000, advisor.Options{Kinds: []partition.Kind{partition.Hash}}, row)
	notes := strings.Join(report.Notes, "\n")
	for _, want := range []string{"Without queries", "buyer_id and seller_id are as good", `{"op": "select", "columns": ["buyer_id"], "count": 90}`} {
		if !strings.Contains(strings.ReplaceAll(notes, "seller_id and buyer_id", "buyer_id and seller_id"), want) && !strings.Contains(notes, strings.ReplaceAll(want, "buyer", "seller")) {
			t.Errorf("the notes are\n%s\nwant %s", notes, want)
		}
	}
	if best := report.Candidates[0]; !strings.Contains(best.Sentence, "keeps rows of one") {
		t.Errorf("best is %s: %s", best.Layout, best.Sentence)
	}
	for _, c := range report.Candidates {
		if strings.HasPrefix(c.Layout, "price") && (c.Grade == "A" || !strings.Contains(c.Sentence, "programs hardly ask for")) {
			t.Errorf("%s has grade %s: %s", c.Layout, c.Grade, c.Sentence)
		}
	}
	report = analyzeRows(t, columns, 20_000, advisor.Options{Kinds: []partition.Kind{partition.Hash}, Queries: []advisor.Query{{Op: "select", Columns: []string{"price"}, Count: 1}}}, row)
	if best := report.Candidates[0]; best.Layout != "price:int" || best.Grade != "A" || strings.Contains(strings.Join(report.Notes, ""), "Without queries") {
		t.Errorf("asked for by price, best is %s, grade %s, with %v", best.Layout, best.Grade, report.Notes)
	}
}

// What the order of the input cannot say is not said.
func TestAnalyze_OrderOfTheInput_IsDoubted(t *testing.T) {
	columns := "customer amount"
	for name, c := range map[string]struct {
		row   func(r *rand.Rand, i int) []any
		note  string
		grade string // of customer in a range keyspace
	}{
		"sorted":  {func(r *rand.Rand, i int) []any { return []any{fmt.Sprintf("c%05d", i/6), r.IntN(900)} }, "The input is sorted by customer", "?"},
		"random":  {func(r *rand.Rand, i int) []any { return []any{r.IntN(4000), r.IntN(900)} }, "No time or counter shows", "A"},
		"counted": {func(r *rand.Rand, i int) []any { return []any{r.IntN(4000), fmt.Sprintf("ORD-%08d", i)} }, "", "A"},
	} {
		report := analyzeRows(t, columns, 20_000, advisor.Options{Current: "customer", CurrentKind: ptrTo(partition.Range)}, c.row)
		notes := strings.Join(report.Notes, "\n")
		doubts := strings.Contains(notes, "The input is") || strings.Contains(notes, "No time or counter")
		if doubts != (c.note != "") || !strings.Contains(notes, c.note) || report.Current.Grade != c.grade {
			t.Errorf("%s: grade %s, notes\n%s\nwant %s and %q", name, report.Current.Grade, notes, c.grade, c.note)
		}
	}
}
