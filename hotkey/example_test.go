package hotkey_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/cleavekv/cleave/hotkey"
)

// A call of any client is wrapped, and the key that callers wait for is named.
func Example() {
	clock := time.Unix(0, 0)
	detector, err := hotkey.New(hotkey.Options{
		Sample: 1, // all of them, for the example; leave it out
		Now:    func() time.Time { return clock },
	})
	if err != nil {
		log.Fatal(err)
	}
	get := hotkey.Wrap(detector, func(_ context.Context, user string) (string, error) {
		clock = clock.Add(time.Millisecond)
		if user == "celebrity" {
			clock = clock.Add(40 * time.Millisecond) // all the world asks for this one
		}
		return "profile of " + user, nil
	})
	for range 30 {
		for _, user := range []string{"ada", "grace", "celebrity", "margaret"} {
			if _, err := get(context.Background(), user); err != nil {
				log.Fatal(err)
			}
		}
	}
	report := detector.Report()
	for _, hot := range report.Hot {
		fmt.Printf("%s takes %v, %.0f times the median of %v\n", hot.Key, hot.Latency, hot.Ratio, report.Median)
	}
	// Output:
	// celebrity takes 41ms, 41 times the median of 1ms
}
