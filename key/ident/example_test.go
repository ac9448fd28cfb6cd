package ident_test

import (
	"fmt"
	"log"
	"time"

	"github.com/cleavekv/cleave/key/ident"
)

// Order numbers of a shop: is it safe to partition a table by ranges of them?
func ExampleRecognise() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	epoch := time.UnixMilli(1288834974657)
	var ids []int64
	for i := range int64(20) {
		arrival := now.Add(time.Duration(i-20) * time.Minute)
		worker := i % 3
		ids = append(ids, arrival.Sub(epoch).Milliseconds()<<22|worker<<12)
	}

	r, err := ident.Recognise(ids, now, ident.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("kind:", r.Kind)
	for _, e := range r.Evidence {
		fmt.Println("-", e)
	}
	fmt.Printf("append-unsafe: %v, confidence %.2f\n", r.AppendUnsafe, r.Confidence)
	// Output:
	// kind: Snowflake
	// - 20 of 20 values fit Snowflake with the epoch of Twitter
	// - meaningless values would do so with a chance below 1e-09
	// - they carry times from 2026-03-01T11:40:00Z to 2026-03-01T11:59:00Z
	// - 20 of 20 values have a sequence below 16 in the low 12 bits
	// - 19 of 19 steps rise in arrival order
	// append-unsafe: true, confidence 0.84
}
