package fanout_test

import (
	"cmp"
	"context"
	"fmt"
	"log"

	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/key/fanout"
)

// The totals of a day of five regions, which are in a partition for each region and hour.
func ExampleRead() {
	regions := []string{"ap", "eu", "in", "sa", "us"}
	totals, err := fanout.Read(context.Background(), 0, len(regions)*24, func(ctx context.Context, i int) (int, error) {
		region, hour := regions[i/24], i%24
		return len(region) * hour, nil // a read of that partition
	})
	if err != nil {
		log.Fatal(err)
	}
	sum := 0
	for _, n := range totals {
		sum += n
	}
	fmt.Println(len(totals), "partitions:", sum)
	// Output:
	// 120 partitions: 2760
}

// Rows of several partitions in one order, a page of each at a time.
func ExamplePages() {
	partitions := [][]int{{1, 4, 7}, {2, 5, 8}, {3, 6, 9}}
	read := func(ctx context.Context, i int) (page []int, err error) {
		n := min(2, len(partitions[i]))
		page, partitions[i] = partitions[i][:n:n], partitions[i][n:]
		return page, nil // empty at the end
	}
	m, err := key.NewPageMerger(cmp.Compare[int], len(partitions), fanout.Pages(context.Background(), 0, read))
	if err != nil {
		log.Fatal(err)
	}
	for n, err := range m.All() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(n, " ")
	}
	// Output:
	// 1 2 3 4 5 6 7 8 9
}
