package advisor_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/partition"
)

// storedTable is a table that is loaded into a store under a key.
type storedTable struct {
	name    string
	columns string
	layout  string // of a hash keyspace
	row     func(r *rand.Rand, i int) []any
}

var storedTables = []storedTable{
	{"orders of many customers", "customer id", "customer | id", func(r *rand.Rand, i int) []any {
		return []any{fmt.Sprint("customer-", r.IntN(3000)), i}
	}},
	{"a celebrity", "room id", "room | id", func(r *rand.Rand, i int) []any { return []any{heavyUser(r, 0.25, 2000), i} }},
	{"few regions", "region id", "region | id", func(r *rand.Rand, i int) []any { return []any{fmt.Sprint("region-", r.IntN(9)), i} }},
	{"tenants of very different size", "tenant id", "tenant | id", func(r *rand.Rand, i int) []any {
		return []any{fmt.Sprint("tenant-", int(math.Exp(r.Float64()*7))), i}
	}},
	{"pairs", "trip cabin id", "(trip, cabin) | id", func(r *rand.Rand, i int) []any {
		return []any{fmt.Sprint("trip-", r.IntN(30)), r.IntN(20), i}
	}},
}

// What the simulation says is what a store shows that has the same rows under that key: 16 shards of a hash keyspace, and
// the bytes that are found in each.
func TestAnalyze_Skew_IsThatOfAStoreWithTheRows(t *testing.T) {
	const rows, shards = 12_000, 16
	ctx := context.Background()
	for _, table := range storedTables {
		t.Run(table.name, func(t *testing.T) {
			db, err := cleave.OpenMemory(cleave.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			space, err := db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "rows", Kind: cleave.Hash})
			if err != nil {
				t.Fatal(err)
			}
			job, err := db.Start(ctx, cleave.SplitEvenly(space, shards))
			if err == nil {
				_, err = job.Wait(ctx)
			}
			if err != nil {
				t.Fatal(err)
			}
			layout, err := key.ParseLayout(table.layout)
			if err != nil {
				t.Fatal(err)
			}
			partitionOf, err := key.ParseLayout(strings.Split(table.layout, " | ")[0])
			if err != nil {
				t.Fatal(err)
			}
			var batch cleave.Batch
			r := rand.New(rand.NewPCG(3, 4))
			names := strings.Fields(table.columns)
			src := &rowSource{columns: names, rows: rows, bytes: 400, row: func(i int) []any {
				values := table.row(r, i)
				columns := key.Columns{}
				for n, name := range names {
					columns[name] = values[n]
					if v, ok := values[n].(int); ok {
						columns[name] = int64(v)
					}
				}
				part, err := partitionOf.Encode(columns)
				if err != nil {
					t.Fatal(err)
				}
				whole, err := layout.Encode(columns)
				if err != nil {
					t.Fatal(err)
				}
				batch.HSet(space, part, cleave.Field{Name: whole[len(part):], Value: []byte(strings.Repeat("x", 300))})
				if i%500 == 499 {
					if err := db.Write(ctx, &batch); err != nil {
						t.Fatal(err)
					}
					batch = cleave.Batch{}
				}
				return values
			}}
			report, err := advisor.Analyze(ctx, src, advisor.Options{Now: now, Candidates: []string{table.layout}, Kinds: []partition.Kind{partition.Hash}})
			if err != nil {
				t.Fatal(err)
			}
			loads := map[cleave.ShardID]float64{}
			total, most := 0.0, 0.0
			for item, err := range space.Scan(ctx, cleave.ScanOptions{}) {
				if err != nil {
					t.Fatal(err)
				}
				fields, err := space.HGetAll(ctx, item.Key)
				if err != nil {
					t.Fatal(err)
				}
				shard := space.Locate(item.Key).Shard
				for _, f := range fields {
					loads[shard] += float64(len(item.Key) + len(f.Name) + len(f.Value))
					total += float64(len(item.Key) + len(f.Name) + len(f.Value))
				}
				most = max(most, loads[shard])
			}
			shown := most / total * shards
			simulated := report.Candidates[0].Skews[0].Bytes
			t.Logf("the store shows %.3f, simulated %+v", shown, simulated)
			if math.Abs(simulated.Value-shown) > 0.05*shown {
				t.Errorf("the store shows %.3f, simulated %+v", shown, simulated)
			}
		})
	}
}
