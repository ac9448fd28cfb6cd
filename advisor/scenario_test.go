package advisor_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/partition"
)

// rowSource is records that a function makes.
type rowSource struct {
	columns []string
	rows    int
	row     func(i int) []any
	bytes   int // of a record. Default 100
	next    int
}

func (s *rowSource) size() int { return cmp.Or(s.bytes, 100) }

// Next is part of advisor.Source.
func (s *rowSource) Next(b *advisor.Records) error {
	if s.next == s.rows {
		return io.EOF
	}
	b.SetColumns(s.columns)
	for n := 0; n < 500 && s.next < s.rows; n++ {
		for _, v := range s.row(s.next) {
			if v == nil {
				b.AppendValue(advisor.Null, nil)
				continue
			}
			b.AppendValue(advisor.Text, fmt.Append(nil, v))
		}
		s.next++
		b.EndRecord(int64(s.next+1), s.size())
	}
	return nil
}

// now is the present of all scenarios, and start when their first rows were written.
var (
	now   = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	start = now.Add(-30 * 24 * time.Hour)
)

// scenario is a table whose best key is known.
type scenario struct {
	name    string
	columns string
	row     func(r *rand.Rand, i int, at time.Time) []any
	kinds   []partition.Kind
	queries string
	// best are the partitions of which one has to be ranked first, and worst a layout that has to
	// have a grade below C if it is named as the current key.
	best  []string
	worst string
	// grade is the least that the best key has to get. Default B.
	grade string
	// pattern is one that the column of the worst key has to have.
	pattern string
}

const scenarioRows = 30_000

func uuidOf(r *rand.Rand) string {
	a, b := r.Uint64(), r.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48&0x3fff|0x8000, b&0xffffffffffff)
}

func uuid7Of(r *rand.Rand, at time.Time) string {
	ms := uint64(at.UnixMilli())
	return fmt.Sprintf("%08x-%04x-7%03x-%04x-%012x", ms>>16, ms&0xffff, r.IntN(4096), 0x8000|r.IntN(0x4000), r.Uint64()&0xffffffffffff)
}

func snowflakeOf(r *rand.Rand, at time.Time) int64 {
	return (at.UnixMilli()-1288834974657)<<22 | r.Int64N(32)<<12 | r.Int64N(4)
}

func pick(r *rand.Rand, words string) string {
	list := strings.Fields(words)
	return list[r.IntN(len(list))]
}

// heavyUser returns a user of whom one has the given share of all rows.
func heavyUser(r *rand.Rand, share float64, others int) string {
	if r.Float64() < share {
		return "user-0"
	}
	return fmt.Sprint("user-", 1+r.IntN(others))
}

var scenarios = []scenario{
	{
		name: "orders of many customers", columns: "id customer status total",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{uuidOf(r), fmt.Sprint("customer-", r.IntN(5000)), pick(r, "open paid sent done"), r.Float64() * 100}
		},
		best: []string{"customer:string"}, worst: "status", pattern: "low cardinality",
	},
	{
		name: "counter and few columns", columns: "id shop",
		row:  func(r *rand.Rand, i int, at time.Time) []any { return []any{i + 1000, pick(r, "a b c d e")} },
		best: []string{"id:int", "shop:string, id:int"}, worst: "shop", pattern: "low cardinality",
	},
	{
		name: "log without an entity", columns: "ts level message",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{at.Format(time.RFC3339Nano), pick(r, "info info info warn"), strings.Repeat(fmt.Sprint("message ", r.Uint64()), 20)}
		},
		kinds: []partition.Kind{partition.Range},
		best:  []string{"salt(16)"}, worst: "ts:time", pattern: "monotonic",
	},
	{
		name: "telemetry of devices", columns: "device ts value",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{fmt.Sprintf("device-%04d", r.IntN(2000)), at.Format(time.RFC3339Nano), r.Float64()}
		},
		best: []string{"device:string"}, worst: "day(ts)", pattern: "monotonic",
	},
	{
		name: "one celebrity in a hash keyspace", columns: "id user",
		row:   func(r *rand.Rand, i int, at time.Time) []any { return []any{uuidOf(r), heavyUser(r, 0.3, 3000)} },
		kinds: []partition.Kind{partition.Hash},
		best:  []string{"id:uuid", "user:string, salt(16, id)"}, worst: "user", pattern: "celebrity",
	},
	{
		name: "a tenant of a thousand times the median", columns: "id tenant user",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			tenant := "tenant-0"
			if r.IntN(2) > 0 {
				tenant = fmt.Sprint("tenant-", 1+r.IntN(1000))
			}
			return []any{uuidOf(r), tenant, fmt.Sprint(tenant, "-user-", r.IntN(500))}
		},
		kinds: []partition.Kind{partition.Hash},
		best:  []string{"user:string"}, worst: "tenant", pattern: "dominant value",
	},
	{
		name: "pairs of few countries and few categories", columns: "country category price",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{fmt.Sprint("country-", r.IntN(40)), fmt.Sprint("category-", r.IntN(60)), r.Float64()}
		},
		kinds: []partition.Kind{partition.Hash},
		best:  []string{"country:string, category:string"}, worst: "country", pattern: "low cardinality",
	},
	{
		name: "triples of three small columns", columns: "region kind class price",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{fmt.Sprint("r", r.IntN(12)), fmt.Sprint("k", r.IntN(11)), fmt.Sprint("c", r.IntN(10)), r.Float64()}
		},
		kinds: []partition.Kind{partition.Hash},
		best:  []string{"region:string, kind:string, class:string"}, worst: "region", pattern: "low cardinality",
	},
	{
		name: "a user that most rows lack", columns: "id account user",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			var user any
			if r.IntN(10) < 3 {
				user = fmt.Sprint("user-", r.IntN(9000))
			}
			return []any{uuidOf(r), fmt.Sprint("account-", r.IntN(4000)), user}
		},
		best: []string{"account:string"}, worst: "user", pattern: "null-heavy",
	},
	{
		name: "Snowflakes of shops", columns: "id shop",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{snowflakeOf(r, at), fmt.Sprintf("shop-%x", r.IntN(3000)*7919%65521)}
		},
		kinds: []partition.Kind{partition.Range},
		best:  []string{"shop:string"}, worst: "id", pattern: "monotonic",
	},
	{
		name: "UUIDv7 alone in a range keyspace", columns: "id amount",
		row:   func(r *rand.Rand, i int, at time.Time) []any { return []any{uuid7Of(r, at), r.Float64()} },
		kinds: []partition.Kind{partition.Range},
		best:  []string{"hash(id), id:uuid"}, worst: "id", pattern: "monotonic",
	},
	{
		name: "UUIDv7 alone in any keyspace", columns: "id amount",
		row:  func(r *rand.Rand, i int, at time.Time) []any { return []any{uuid7Of(r, at), r.Float64()} },
		best: []string{"id:uuid", "hash(id), id:uuid"},
	},
	{
		name: "queries by seller, not by customer", columns: "id customer seller",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{uuidOf(r), fmt.Sprint("customer-", r.IntN(8000)), fmt.Sprint("seller-", r.IntN(3000))}
		},
		queries: `{"op":"select","filter":{"seller":"seller-1"},"count":95} {"op":"select","columns":["id"],"count":5} {"op":"insert","columns":["id"],"count":500}`,
		best:    []string{"seller:string"}, worst: "customer",
	},
	{
		name: "a key that updates change", columns: "id owner account",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{uuidOf(r), fmt.Sprint("owner-", r.IntN(8000)), fmt.Sprint("account-", r.IntN(6000))}
		},
		queries: `{"op":"select","columns":["owner"],"count":50} {"op":"select","columns":["account"],"count":40} {"op":"update","columns":["account"],"set":["owner"],"count":10}`,
		best:    []string{"account:string"}, worst: "owner", grade: "C", // half of the queries are not its
	},
	{
		name: "times in milliseconds", columns: "ts sensor",
		row: func(r *rand.Rand, i int, at time.Time) []any {
			return []any{at.UnixMilli(), fmt.Sprintf("sensor-%04d", r.IntN(3000))}
		},
		best: []string{"sensor:string"}, worst: "hour(ts)", pattern: "monotonic",
	},
}

func TestAnalyze_RanksTheKnownBestKeyFirst(t *testing.T) {
	for _, s := range slices.Concat(scenarios, moreScenarios, guessScenarios) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			report := s.analyze(t)
			best := report.Candidates[0]
			found := false
			for _, want := range s.best {
				found = found || strings.HasPrefix(strings.TrimPrefix(best.Layout, "("), want)
			}
			if !found || best.Grade > cmp.Or(s.grade, "B") {
				t.Errorf("%s %q is first with grade %s, want one of %q", best.Kind, best.Layout, best.Grade, s.best)
				for _, c := range report.Candidates[:min(6, len(report.Candidates))] {
					t.Logf("%s %5.1f %-5s %-45s bytes %.2f writes %v %+v %s", c.Grade, c.Score, c.Kind, c.Layout, c.Skews[0].Bytes.Value, c.Writes, c.Scores, c.Sentence)
				}
			}
			if s.worst == "" {
				return
			}
			current := report.Current
			if current.Grade < "C" {
				t.Errorf("the current key %s has grade %s (%.1f, %s, %+v)", current.Layout, current.Grade, current.Score, current.Sentence, current.Scores)
			}
			if !strings.Contains(report.Fix, best.Layout) {
				t.Errorf("the fix is %q, which does not name %s", report.Fix, best.Layout)
			}
			if s.pattern != "" && !strings.Contains(strings.Join(current.Patterns, ","), s.pattern) {
				t.Errorf("the patterns of %s are %q, want %q", current.Layout, current.Patterns, s.pattern)
			}
		})
	}
}

// analyze runs the scenario with its worst key as the current one.
func (s *scenario) analyze(t *testing.T) *advisor.Report {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	src := &rowSource{columns: strings.Fields(s.columns), rows: scenarioRows, row: func(i int) []any {
		return s.row(r, i, start.Add(time.Duration(i)*(now.Sub(start)/scenarioRows)))
	}}
	o := advisor.Options{Now: now, Kinds: s.kinds, Current: s.worst}
	if s.queries != "" {
		queries, err := advisor.ReadQueries(strings.NewReader(s.queries))
		if err != nil {
			t.Fatal(err)
		}
		o.Queries = queries
	}
	report, err := advisor.Analyze(context.Background(), src, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(report); err != nil {
		t.Fatal(err)
	}
	return report
}

// What the simulation says of a hash keyspace holds for all rows, placed by the map of a store.
func TestAnalyze_SkewOfTheWholeTableIsWithinItsInterval(t *testing.T) {
	held, tried := 0, 0
	tries := uint64(20)
	if testing.Short() {
		tries = 6
	}
	for seed := range tries {
		r := rand.New(rand.NewPCG(seed, 7))
		zipf := rand.NewZipf(r, 1.2, 20, 20_000)
		const rows, shards = 100_000, 16
		space := partition.Keyspace{ID: 1, Kind: partition.Hash, Name: "all"}
		at, err := space.EvenSlots(shards)
		if err != nil {
			t.Fatal(err)
		}
		m, err := partition.NewMap(make([]partition.Group, shards), &space, at...)
		if err != nil {
			t.Fatal(err)
		}
		loads := map[partition.GroupID]float64{}
		src := &rowSource{columns: []string{"user"}, rows: rows, row: func(int) []any {
			user := fmt.Sprint("user-", zipf.Uint64())
			key := append(append([]byte{2}, user...), 0) // a string as a tuple has it
			loads[m.Owner(space.AppendPosition(nil, key)).Group]++
			return []any{user}
		}}
		report, err := advisor.Analyze(context.Background(), src, advisor.Options{
			Now: now, Seed: seed, Candidates: []string{"user:string"}, Kinds: []partition.Kind{partition.Hash},
		})
		if err != nil {
			t.Fatal(err)
		}
		most := 0.0
		for _, n := range loads {
			most = math.Max(most, n)
		}
		truth := most / rows * shards
		skew := report.Candidates[0].Skews[0].Bytes
		tried++
		if skew.Low <= truth && truth <= skew.High {
			held++
		} else {
			t.Logf("seed %d: true skew %.3f, estimate %+v", seed, truth, skew)
		}
	}
	if held < tried-3 { // of 20 at 95 %, fewer come less than twice in a hundred runs
		t.Errorf("%d of %d intervals hold the truth", held, tried)
	}
}
