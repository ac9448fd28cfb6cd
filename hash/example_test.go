package hash_test

import (
	"fmt"
	"log"

	"github.com/cleavekv/cleave/hash"
)

// A stable value may be written down: every process computes the same one.
func Example() {
	h := hash.XXH3String("user:1000")
	fmt.Println(h)
	fmt.Println(hash.Restore(h.Uint64()) == h)
	// Output:
	// fb6841b2068c0c9f
	// true
}

// Keys with one hash tag share a slot, so one shard can commit them together.
func ExampleSlotOfString() {
	fmt.Println(hash.SlotOfString("{user1000}.following"))
	fmt.Println(hash.SlotOfString("{user1000}.followers"))
	// Output:
	// 3443
	// 3443
}

// A second, independent choice of bucket without hashing the key again.
func ExampleStable_Derive() {
	h := hash.XXH3String("user:1000")
	for i := range uint64(3) {
		fmt.Println(h.Derive(i).Uint64() % 100)
	}
	// Output:
	// 60
	// 80
	// 4
}

// A table that strangers fill is keyed by a seed that they cannot know.
func ExampleMaphash() {
	seeded := hash.NewMaphash()
	buckets := make([][]string, 16)
	add := func(key string) {
		i := seeded.SumString(key).Uint64() % uint64(len(buckets))
		buckets[i] = append(buckets[i], key)
	}
	add("a")
	add("a")
	fmt.Println(len(buckets[seeded.SumString("a").Uint64()%16]))
	// Output: 2
}

// Any function can be measured, here one that adds up bytes.
func ExampleMeasure() {
	sum := func(key []byte) uint64 {
		var h uint64
		for _, c := range key {
			h += uint64(c)
		}
		return h
	}
	report, err := hash.Measure(hash.Function{Name: "sum", Sum: sum}, hash.MeasureOptions{})
	if err != nil {
		log.Fatal(err)
	}
	clumped, _ := report.Furthest("prefix")
	fmt.Printf("%v: %v keys fell into %v buckets with z = %.0f, chance explains %.1f\n",
		report.Verdict, clumped.Keys, clumped.Buckets, clumped.Z, report.LimitZ)
	// Output:
	// bad: 65536 keys fell into 1024 buckets with z = 2668, chance explains 5.4
}
