package page_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/engine"
	"github.com/cleavekv/cleave/internal/ops/api"
)

// A person sees that writes move through the keys, asks why, and is shown a better key.
func TestHeatMap_DiagonalLeadsToItsAdvice(t *testing.T) {
	s := startSite(t, "127.0.0.1:0")
	k, err := s.db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "orders", Kind: cleave.Range})
	if err != nil {
		t.Fatal(err)
	}
	var e *engine.DB
	s.db.Engine(&e)
	began := time.Now()
	const columns = 40
	for i := range columns {
		for j := range 20 {
			var b cleave.Batch
			for n := range 100 {
				b.Set(k, fmt.Appendf(nil, "2026-11-20T%06d", i*2000+j*100+n), []byte("v"))
			}
			if err := s.db.Write(ctx, &b); err != nil {
				t.Fatal(err)
			}
		}
		// The ten seconds of a column pass.
		e.Node().Heat().Collect(time.Duration(began.Add(time.Duration(i+1) * 10 * time.Second).UnixNano()))
	}
	end := began.Add(columns * 10 * time.Second).UTC().Format(time.RFC3339)
	m, err := s.client.HeatMap(ctx, api.HeatFilter{Metric: api.MetricWrites, Keyspace: "orders", To: began.Add(columns * 10 * time.Second)})
	if err != nil || len(m.Patterns) == 0 {
		t.Fatalf("%d rows, %d columns, patterns %+v, %v", len(m.Rows), len(m.Columns), m.Patterns, err)
	}
	p := s.openTab("#/heatmap?metric=writes&keyspace=orders&from=" + began.UTC().Format(time.RFC3339) + "&to=" + end)
	p.waitForView("heatmap")
	p.click(`[data-pattern="diagonal"]`, "Moving edge")
	p.waitForText(".heat-details", "What helps")
	p.click(".heat-details a", "Find a better key")
	p.waitForView("advisor")
	p.waitForText("#view", "cleave advise")
}
