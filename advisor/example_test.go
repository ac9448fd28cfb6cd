package advisor_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/advisor/csvfile"
)

// Orders of a shop: should they be sharded by customer or by country?
func ExampleAnalyze() {
	var orders strings.Builder
	orders.WriteString("customer,country\n")
	for i := range 20_000 {
		fmt.Fprintf(&orders, "customer-%d,%s\n", i*7919%3001, [...]string{"DE", "FR", "IT"}[i%3])
	}

	report, err := advisor.Analyze(context.Background(), csvfile.NewReader(strings.NewReader(orders.String()), csvfile.Options{}), advisor.Options{
		Shards:     8,
		Candidates: []string{"customer", "country"},
		Now:        time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range report.Candidates {
		fmt.Println(c.Grade, c.Kind, c.Layout+":", c.Sentence)
	}
	// Output:
	// A range customer: spreads data and writes evenly, and keeps rows of one customer together
	// A hash customer: spreads data and writes evenly, and keeps rows of one customer together
	// F hash country: only 3 values for 8 shards
	// F range country: only 3 values for 8 shards
}
