package key_test

import (
	"fmt"
	"iter"
	"log"
	"time"

	"github.com/cleavekv/cleave/key"
)

// The last 30 messages of a user whose messages are stored by (user, day).
func ExampleLatest() {
	// A store of partitions by day: 12 messages on every second day.
	partitions := map[key.Span][]string{}
	day, err := key.Day.Parse("2024-02-23")
	if err != nil {
		log.Fatal(err)
	}
	for range 6 {
		for i := range 12 {
			partitions[day] = append(partitions[day], fmt.Sprintf("%v #%d", day, i))
		}
		day = day.Next().Next()
	}

	read := func(p key.Piece, want int) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			messages := partitions[p.Span]
			for i := len(messages) - 1; i >= 0 && yield(messages[i], nil); i-- {
			}
		}
	}
	walk := key.Backward{
		Bucket:   key.Day,
		Before:   time.Date(2024, 3, 5, 0, 0, 0, 0, time.UTC),
		MaxEmpty: 90, // give up after three silent months
	}
	found, err := key.Latest(walk, 30, read)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(found.Items), "messages from", found.Buckets, "days:", found.Stop)
	fmt.Println("newest:", found.Items[0])
	fmt.Println("oldest:", found.Items[29])
	// Output:
	// 30 messages from 5 days: enough
	// newest: 2024-03-04 #11
	// oldest: 2024-02-29 #6
}

func ExampleBucket() {
	t := time.Date(2024, 2, 29, 23, 30, 0, 0, time.UTC)
	quarter, err := key.Every(15 * time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	for _, b := range []key.Bucket{key.Hour, key.Day, key.Month, quarter} {
		span, err := b.Of(t)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(b, span, span.Next(), span.Index())
	}
	// Output:
	// hour 2024-02-29T23 2024-03-01T00 474791
	// day 2024-02-29 2024-03-01 19782
	// month 2024-02 2024-03 649
	// 15m 2024-02-29T23:30:00 2024-02-29T23:45:00 1899166
}

// Telemetry at one record a second, read a week at a time.
func ExampleSizeBucket() {
	a, err := key.SizeBucket(key.Load{
		RecordsPerSecond: 1,
		RecordBytes:      120,
		LookBack:         7 * 24 * time.Hour,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(a.Reason)
	for _, c := range a.Choices {
		fmt.Printf("%-5v %6.1f MB, a read touches %d\n", c.Bucket, c.Bytes/1e6, c.FanOut)
	}
	// Output:
	// the longest bucket under the target of 250 MB is a day with 10.4 MB
	// hour     0.4 MB, a read touches 169
	// day     10.4 MB, a read touches 8
	// month  321.4 MB, a read touches 2
}
