package advisor_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/advisor/csvfile"
	"github.com/cleavekv/cleave/advisor/jsonlfile"
)

// One candidate is simulated, so that nearly all of the time is reading and column statistics.
func BenchmarkAnalyze(b *testing.B) {
	const rows = 1_000_000
	var csv, jsonl bytes.Buffer
	csv.WriteString("id,customer,region,amount,created_at,token\n")
	r := rand.New(rand.NewPCG(1, 2))
	for i := range rows {
		customer, region, amount, second, token := r.IntN(20_000), [...]string{"eu", "us", "ap"}[i%3], r.Float64()*100, i%60, r.Uint64()
		fmt.Fprintf(&csv, "%d,customer-%d,%s,%.2f,2026-10-01T12:00:%02dZ,%016x\n", i+1, customer, region, amount, second, token)
		fmt.Fprintf(&jsonl, `{"id":%d,"customer":"customer-%d","region":"%s","amount":%.2f,"created_at":"2026-10-01T12:00:%02dZ","token":"%016x"}`+"\n", i+1, customer, region, amount, second, token)
	}
	for _, format := range []string{"csv", "jsonl"} {
		b.Run("format="+format, func(b *testing.B) {
			for b.Loop() {
				input := &csv
				var src advisor.Source = csvfile.NewReader(bytes.NewReader(csv.Bytes()), csvfile.Options{})
				if format == "jsonl" {
					input, src = &jsonl, jsonlfile.NewReader(bytes.NewReader(jsonl.Bytes()), jsonlfile.Options{})
				}
				b.SetBytes(int64(input.Len()))
				if _, err := advisor.Analyze(context.Background(), src, advisor.Options{Now: now, Candidates: []string{"customer"}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
