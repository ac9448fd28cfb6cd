package shardmap_test

import (
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/cleavekv/cleave/shardmap"
)

func Example() {
	var visits shardmap.Map[string, int] // the zero value is ready
	var wg sync.WaitGroup
	for _, page := range []string{"home", "about", "home", "home"} {
		wg.Go(func() {
			visits.Compute(page, func(n int, _ bool) (int, shardmap.Op) {
				return n + 1, shardmap.Update
			})
		})
	}
	wg.Wait()
	home, _ := visits.Load("home")
	fmt.Println(home, visits.Len())
	// Output: 3 2
}

func ExampleNew() {
	m, err := shardmap.New[uint64, uint64](shardmap.Options{Capacity: 100_000})
	if err != nil {
		panic(err)
	}
	m.Store(1, 10)
	fmt.Println(m.Load(1))
	_, err = shardmap.New[uint64, uint64](shardmap.Options{Shards: 12})
	fmt.Println(err)
	// Output:
	// 10 true
	// shardmap: bad options: option Shards is 12: use a power of two from 1 to 4096, or 0 for the default
}

func ExampleMap_Compute() {
	var stock shardmap.Map[string, int]
	stock.Store("bolt", 1)
	sell := func(item string) {
		left, ok := stock.Compute(item, func(n int, loaded bool) (int, shardmap.Op) {
			switch {
			case !loaded:
				return 0, shardmap.Cancel
			case n == 1:
				return 0, shardmap.Delete
			default:
				return n - 1, shardmap.Update
			}
		})
		fmt.Println(left, ok)
	}
	stock.Store("nut", 2)
	sell("nut")
	sell("bolt")
	sell("gear")
	// Output:
	// 1 true
	// 0 false
	// 0 false
}

func ExampleMap_LoadOrCompute() {
	var patterns shardmap.Map[string, *regexp.Regexp]
	compile := func(text string) (*regexp.Regexp, bool, error) {
		return patterns.LoadOrCompute(text, func() (*regexp.Regexp, error) { return regexp.Compile(text) })
	}
	for _, text := range []string{"a+", "a+", "("} {
		re, loaded, err := compile(text)
		fmt.Println(re, loaded, err)
	}
	// Output:
	// a+ false <nil>
	// a+ true <nil>
	// <nil> false error parsing regexp: missing closing ): `(`
}

func ExampleCompareAndSwap() {
	var leader shardmap.Map[int, string]
	leader.Store(7, "a")
	fmt.Println(shardmap.CompareAndSwap(&leader, 7, "b", "c"))
	fmt.Println(shardmap.CompareAndSwap(&leader, 7, "a", "c"))
	fmt.Println(leader.Load(7))
	// Output:
	// false
	// true
	// c true
}

func ExampleMap_All() {
	var m shardmap.Map[string, int]
	m.Store("a", 1)
	m.Store("b", 2)
	var keys []string
	for k := range m.All() {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	fmt.Println(keys)
	// Output: [a b]
}

func ExampleMap_Stats() {
	m, err := shardmap.New[uint64, uint64](shardmap.Options{Shards: 8})
	if err != nil {
		panic(err)
	}
	for i := range uint64(1000) {
		m.Store(i, i)
	}
	stats := m.Stats()
	fmt.Println(len(stats.Shards), stats.Total().Entries, stats.EntriesInBuckets)
	// Output: 8 1000 true
}
