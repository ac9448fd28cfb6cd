package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// report prints a line for each design. Times are compared with those of the
// first.
func report(out io.Writer, lines []*line, costs []cost) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "shard key\ttransactions\tof several groups\tof several stores\ttime a booking\tratio\tbusiest store\tgroups a page asks\t")
	for i, c := range costs {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%v\t%.2f\t%.0f %%\t%d\t\n", lines[i].name, c.transactions, c.acrossGroups, c.acrossStores,
			c.time().Round(time.Microsecond), float64(c.time())/float64(costs[0].time()), 100*c.busiest(), c.page)
	}
	return w.Flush()
}
