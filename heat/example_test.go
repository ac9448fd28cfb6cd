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

// Two processes count apart; their tables are merged, and what may be missing is known.
func ExampleTopKeys() {
	var sent [][]byte
	for process := range 2 {
		top, err := heat.NewTopKeys(heat.ByOps, 4)
		if err != nil {
			log.Fatal(err)
		}
		for i := range 1000 {
			key := fmt.Sprintf("user:%d", i)
			if i%2 == 0 {
				key = "celebrity"
			}
			top.Add(&heat.Access{Key: []byte(key), Command: "GET", Client: fmt.Sprintf("web-%d", process)}, 1)
		}
		b, err := top.AppendBinary(nil)
		if err != nil {
			log.Fatal(err)
		}
		sent = append(sent, b)
	}
	all, err := heat.DecodeTopKeys(sent[0])
	if err != nil {
		log.Fatal(err)
	}
	other, err := heat.DecodeTopKeys(sent[1])
	if err != nil {
		log.Fatal(err)
	}
	all.Merge(other)
	hot := all.Top(1)[0]
	fmt.Printf("%s: %.0f of %.0f, %.0f too high at most\n", hot.Key, hot.Count, all.Total(), hot.Error)
	fmt.Printf("%s, from %s and %s\n", hot.Commands[0].Name, hot.Clients[0].Name, hot.Clients[1].Name)
	// Output:
	// celebrity: 1000 of 2000, 0 too high at most
	// GET, from web-0 and web-1
}

// The upper half of a range of ids is where new ones come: the cut is not in the middle.
func ExampleRanges_Split() {
	ranges, err := heat.NewRanges(4096, 1)
	if err != nil {
		log.Fatal(err)
	}
	for i := range 3000 {
		key := fmt.Sprintf("order:%04d", i%1000)
		if i >= 1000 {
			key = fmt.Sprintf("order:%04d", 900+i%100)
		}
		ranges.Add(&heat.Access{Key: []byte(key), Write: true}, 1)
	}
	splits, err := ranges.Split(heat.SplitOptions{Start: []byte("order:"), End: []byte("order;")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("at %s, %.0f %% stay on the left\n", splits[0].Keys[0], 100*splits[0].Shares[0])
	// Output:
	// at order:0929, 50 % stay on the left
}

// A key is hot: the meter names it, and says that no cut of its range would help.
func Example() {
	meter, err := heat.NewMeter(heat.Options{Every: 1}) // each operation, for the example; leave it out
	if err != nil {
		log.Fatal(err)
	}
	recorder := meter.NewRecorder() // one for each goroutine
	for i := range 1000 {
		a := heat.Access{Key: fmt.Appendf(nil, "product:%03d", i), Command: "GET", Client: "shop", BytesOut: 200, Service: 50 * time.Microsecond}
		if i%10 > 0 {
			a.Key = []byte("product:sale")
		}
		if recorder.Sampled(heat.Cost(a.BytesOut, a.Service)) {
			recorder.Record(&a)
		}
	}
	meter.Collect(0)
	top, total := meter.Top(heat.ByOps, 1)
	fmt.Printf("%s has %.0f %% of all, by %s\n", top[0].Key, 100*top[0].Count/total, top[0].Clients[0].Name)
	_, err = meter.Split(heat.SplitOptions{Start: []byte("product:")})
	fmt.Println(err)
	// Output:
	// product:sale has 90 % of all, by shop
	// heat: unsplittable: one key, "product:sale", has 90 % of the load: cache it or split its value
}

// Ids that grow: the edge of the load moves up the map.
func ExampleMap() {
	heatMap, err := heat.NewMap(heat.MapOptions{Layers: []heat.Layer{{Step: time.Second, Keep: time.Minute}}})
	if err != nil {
		log.Fatal(err)
	}
	meter, err := heat.NewMeter(heat.Options{Every: 1, Map: heatMap})
	if err != nil {
		log.Fatal(err)
	}
	recorder := meter.NewRecorder()
	for second := range 5 {
		for i := range 100 {
			recorder.Observe(&heat.Access{Key: fmt.Appendf(nil, "%04d", 100*second+i), Write: true})
		}
		meter.Collect(time.Duration(second+1) * time.Second)
	}
	for start := 0; start < 400; start += 100 {
		view, err := heatMap.View(heat.ViewOptions{Metric: heat.MetricWrites, Rows: 1, Start: fmt.Appendf(nil, "%04d", start), End: fmt.Appendf(nil, "%04d", start+100)})
		if err != nil {
			log.Fatal(err)
		}
		for _, rate := range view.Cells[0] {
			if rate > 50 {
				fmt.Print("#")
			} else {
				fmt.Print(".")
			}
		}
		fmt.Println()
	}
	// Output:
	// #...
	// .#..
	// ..#.
	// ...#
}
