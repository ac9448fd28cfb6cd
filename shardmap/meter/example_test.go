package meter_test

import (
	"fmt"
	"log"

	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/shardmap"
	"github.com/cleavekv/cleave/shardmap/meter"
)

// Which entry of a map do all goroutines want?
func Example() {
	hot, err := heat.NewMeter(heat.Options{Every: 1}) // each operation, for the example; leave it out
	if err != nil {
		log.Fatal(err)
	}
	var sessions shardmap.Map[string, int]
	m := meter.New(&sessions, hot.NewRecorder(), meter.AppendString[string]) // for each goroutine
	for i := range 100 {
		m.Store(fmt.Sprint("session:", i), i)
		m.Load("session:42")
	}
	hot.Collect(0)
	top, total := hot.Top(heat.ByOps, 1)
	fmt.Printf("%s has %.0f of %.0f operations\n", top[0].Key, top[0].Count, total)
	// Output:
	// session:42 has 101 of 200 operations
}
