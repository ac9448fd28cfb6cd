package heat_test

import (
	"fmt"
	"log"
	"maps"
	"time"

	"github.com/cleavekv/cleave/heat"
)

// A shard that was idle is asked 1000 times a second: the short window has seen it after a few seconds.
func ExampleShardRates() {
	rates, err := heat.NewShardRates[string](2*time.Second, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	counts := map[string]heat.Counts{"orders": {}, "users": {}}
	for second := range 61 {
		orders, users := counts["orders"], counts["users"]
		users.Reads += 100
		if second > 50 {
			orders.Writes += 1000
		}
		counts["orders"], counts["users"] = orders, users
		rates.Record(time.Duration(second)*time.Second, maps.All(counts))
	}
	for _, shard := range []string{"orders", "users"} {
		r := rates.Of(shard)
		fmt.Printf("%s: %.0f ops/s now, %.0f over the last minutes\n", shard, r[0].Ops(), r[1].Ops())
	}
	// Output:
	// orders: 969 ops/s now, 218 over the last minutes
	// users: 100 ops/s now, 100 over the last minutes
}
