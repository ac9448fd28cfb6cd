package admin

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/ops/api"
)

// What one evaluation of a path costs a server with so many shards: a stream does it once a second at most.
func BenchmarkLive_Evaluation(b *testing.B) {
	for _, shards := range []int{100, 10_000} {
		db, err := cleave.OpenMemory(cleave.Options{Groups: 4, CacheBytes: 1 << 20, BlockCacheBytes: 1 << 20})
		if err != nil {
			b.Fatal(err)
		}
		l := startServerOn(b, db, "")
		l.waitJobDone(l.client.Post(ctx, api.PathPresplit, api.Presplit{Into: shards}, false))
		for _, target := range []string{api.PathStatus, api.PathPlan, api.PathGroups, api.PathShards + "?limit=1000", api.PathMap} {
			b.Run(fmt.Sprintf("shards=%d/path=%s", shards, target[len(api.PathPrefix)+1:]), func(b *testing.B) {
				bytes := 0
				for b.Loop() {
					status, body := l.admin.live.evaluate(ctx, target, "")
					if bytes = len(body); status != http.StatusOK {
						b.Fatal(status, string(body))
					}
				}
				b.ReportMetric(float64(bytes), "bytes")
			})
		}
	}
}
