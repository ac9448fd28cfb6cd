package key_test

import (
	"fmt"
	"log"
	"time"

	"github.com/cleavekv/cleave/key"
)

func ExampleLayout() {
	layout, err := key.ParseLayout("(region, hour(ts)) | id")
	if err != nil {
		log.Fatal(err)
	}
	k, err := layout.Encode(key.Columns{
		"region": "eu",
		"ts":     time.Date(2026, 11, 15, 1, 28, 16, 0, time.UTC),
		"id":     42,
	})
	if err != nil {
		log.Fatal(err)
	}
	text, _ := layout.Format(k)
	partition, _ := layout.Partition(k)
	fmt.Printf("%x\n%x\n%s\n", k, partition, text)

	v, _ := layout.Decode(k)
	ts, _ := v.Value("ts")
	fmt.Println(ts, v.Exact("ts"))
	// Output:
	// 0265750017079b61152a
	// 0265750017079b61
	// region="eu" hour(ts)=2026-11-15T01 | id=42
	// 2026-11-15 01:00:00 +0000 UTC false
}

func ExampleParseLayout() {
	_, err := key.ParseLayout("(region, minute(ts)) | id")
	fmt.Println(err)
	_, err = key.ParseLayout("salt(0) | id")
	fmt.Println(err)
	// Output:
	// key: bad layout "(region, minute(ts)) | id": byte 9: unknown function "minute"; want hour, day, month, every or salt
	// key: bad layout "salt(0) | id": byte 5: 0 salts; want 1 to 65536
}

// A log whose order is time is salted so that it grows in four places. A read
// of it asks all four.
func ExampleLayout_FanOut() {
	layout, _ := key.ParseLayout("(tenant, salt(4)) | ts:time")
	turns, _ := key.NewRoundRobin(4, 0)
	writer, _ := layout.WithSalter(turns)

	start := time.Date(2026, 11, 15, 1, 0, 0, 0, time.UTC)
	for i := range 5 {
		k, _ := writer.AppendValues(nil, "acme", start.Add(time.Duration(i)*time.Minute))
		text, _ := layout.Format(k)
		fmt.Println(text)
	}
	ranges, _ := layout.FanOut(key.Columns{"tenant": "acme"})
	fmt.Println(len(ranges), "ranges")
	// Output:
	// tenant="acme" salt(4)=0 | ts=2026-11-15T01:00:00Z
	// tenant="acme" salt(4)=1 | ts=2026-11-15T01:01:00Z
	// tenant="acme" salt(4)=2 | ts=2026-11-15T01:02:00Z
	// tenant="acme" salt(4)=3 | ts=2026-11-15T01:03:00Z
	// tenant="acme" salt(4)=0 | ts=2026-11-15T01:04:00Z
	// 4 ranges
}

// A time means the instant where the layout has the column itself, and the
// bucket where it has no more than that. The bucket's own name always means the
// bucket.
func ExampleLayout_Prefix() {
	at := time.Date(2026, 11, 15, 1, 28, 16, 0, time.UTC)
	for _, c := range []struct{ layout, given string }{
		{"hour(ts) | ts", "ts"},
		{"hour(ts) | ts", "hour(ts)"},
		{"hour(ts) | id", "ts"},
	} {
		layout, err := key.ParseLayout(c.layout)
		if err != nil {
			log.Fatal(err)
		}
		r, err := layout.Prefix(key.Columns{c.given: at})
		if err != nil {
			log.Fatal(err)
		}
		later, err := layout.Encode(key.Columns{"ts": at.Add(time.Minute), "id": 42})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s by %s: has a minute later: %v\n", c.layout, c.given, r.Contains(later))
	}

	layout, err := key.ParseLayout("(region, hour(ts)) | ts, id")
	if err != nil {
		log.Fatal(err)
	}
	_, err = layout.Prefix(key.Columns{"region": "eu", "id": 42})
	fmt.Println(err)
	// Output:
	// hour(ts) | ts by ts: has a minute later: false
	// hour(ts) | ts by hour(ts): has a minute later: true
	// hour(ts) | id by ts: has a minute later: true
	// key: column does not fit the layout: id is given, but not all before it in (region, hour(ts)) | ts, id
}
