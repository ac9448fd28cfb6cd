package key_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"log"
	"slices"
	"time"

	"github.com/cleavekv/cleave/key"
)

func ExampleEncode() {
	a, _ := key.Encode(key.Tuple{"orders", 9, "open"})
	b, _ := key.Encode(key.Tuple{"orders", 10, "open"})
	fmt.Printf("%x\n%x\n", a, b)
	fmt.Println("9 before 10:", bytes.Compare(a, b) < 0)
	// Output:
	// 026f7264657273001509026f70656e00
	// 026f726465727300150a026f70656e00
	// 9 before 10: true
}

func ExampleDecode() {
	b, _ := key.Encode(key.Tuple{"eu", -1, nil, key.Tuple{1.5, []byte{0}}})
	t, err := key.Decode(b)
	fmt.Println(t, err)

	_, err = key.Decode([]byte("\x02eu\x00\x16\x00\x01"))
	fmt.Println(err)
	fmt.Println(errors.Is(err, key.ErrNotCanonical))
	// Output:
	// ("eu", -1, nil, (1.5, b"\x00")) <nil>
	// key: malformed tuple: byte 5: integer is not in its shortest form
	// true
}

// Appending typed values one by one needs no Tuple, and reading them one by one
// needs no allocation.
func ExampleReader() {
	buf := make([]byte, 0, 64)
	buf = key.AppendString(buf, "eu")
	buf = key.AppendInt(buf, 42)

	r := key.NewReader(buf)
	for r.Next() {
		e := r.Element()
		switch e.Kind() {
		case key.KindString:
			s, _ := e.Text()
			fmt.Println("text", s)
		case key.KindInt:
			i, _ := e.Int()
			fmt.Println("number", i)
		}
	}
	fmt.Println("error", r.Err())
	// Output:
	// text eu
	// number 42
	// error <nil>
}

func ExampleTupleRange() {
	orders, _ := key.TupleRange(key.Tuple{"orders"})
	for _, t := range []key.Tuple{{"orders"}, {"orders", 7}, {"orders\x00"}} {
		b, _ := key.Encode(t)
		fmt.Println(t, orders.Contains(b))
	}
	// Output:
	// ("orders") false
	// ("orders", 7) true
	// ("orders\x00") false
}

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
	_, err := key.ParseLayout("(region, week(ts)) | id")
	fmt.Println(err)
	_, err = key.ParseLayout("salt(0) | id")
	fmt.Println(err)
	// Output:
	// key: bad layout "(region, week(ts)) | id": byte 9: unknown function "week"; want minute, hour, day, month, every, salt or hash
	// key: bad layout "salt(0) | id": byte 5: 0 salts; want 1 to 65536
}

// Ids that grow are written all over the keyspace, and found by their id alone.
func ExampleColumnHash() {
	layout, _ := key.ParseLayout("hash(id), id:int")
	for id := range 4 {
		k, _ := layout.AppendValues(nil, 1000+id)
		text, _ := layout.Format(k)
		fmt.Println(text)
	}
	r, _ := layout.Prefix(key.Columns{"id": 1002})
	encoded, _ := key.Encode(key.Tuple{1002})
	fmt.Println(r, key.ColumnHash(encoded))
	// Output:
	// hash(id)=954715742 id=1000
	// hash(id)=3271386980 id=1001
	// hash(id)=1152494902 id=1002
	// hash(id)=3613510238 id=1003
	// ["\x18D\xb1\xad6\x16\x03\xea", "\x18D\xb1\xad6\x16\x03\xea\xff") 1152494902
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

// The last 30 readings of a device: a partition holds a day of them, and each
// day's piece of the walk is one range of the layout.
func ExampleLatest_layout() {
	layout, err := key.ParseLayout("(device, day(ts)) | ts:time")
	if err != nil {
		log.Fatal(err)
	}
	var store [][]byte // the keys of a store, sorted
	now := time.Date(2026, 11, 15, 1, 30, 0, 0, time.UTC)
	for i := range 200 { // every 100 minutes, some of them after now
		for _, device := range []string{"thermostat", "thermometer"} {
			k, err := layout.AppendValues(nil, device, now.Add(time.Duration(i-150)*100*time.Minute))
			if err != nil {
				log.Fatal(err)
			}
			store = append(store, k)
		}
	}
	slices.SortFunc(store, bytes.Compare)
	scan := func(r key.Range) [][]byte {
		return slices.DeleteFunc(slices.Clone(store), func(k []byte) bool { return !r.Contains(k) })
	}

	read := func(p key.Piece, want int) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			ranges, err := layout.Between(key.Columns{"device": "thermostat", "day(ts)": p.From}, p.From, p.To)
			if err != nil {
				yield(nil, err)
				return
			}
			// Without a salt there is one range.
			for _, k := range slices.Backward(scan(ranges[0])) {
				if !yield(k, nil) {
					return
				}
			}
		}
	}
	walk := key.Backward{Bucket: key.Day, Before: now, MaxEmpty: 30}
	found, err := key.Latest(walk, 30, read)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(found.Items), "readings from", found.Buckets, "days:", found.Stop)
	for _, k := range [][]byte{found.Items[0], found.Items[29]} {
		text, err := layout.Format(k)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(text)
	}
	// Output:
	// 30 readings from 4 days: enough
	// device="thermostat" day(ts)=2026-11-14 | ts=2026-11-14T23:50:00Z
	// device="thermostat" day(ts)=2026-11-12 | ts=2026-11-12T23:30:00Z
}

// A salted log is written in four places and read back in order: each salt's
// range is sorted, and the merge compares all but the salt.
func ExampleLayout_CompareUnsalted() {
	layout, err := key.ParseLayout("salt(4) | ts:time")
	if err != nil {
		log.Fatal(err)
	}
	turns, err := key.NewRoundRobin(4, 0)
	if err != nil {
		log.Fatal(err)
	}
	writer, err := layout.WithSalter(turns)
	if err != nil {
		log.Fatal(err)
	}
	var store [][]byte // the keys of a store, sorted
	start := time.Date(2026, 11, 15, 1, 0, 0, 0, time.UTC)
	for i := range 10 {
		k, err := writer.AppendValues(nil, start.Add(time.Duration(i)*time.Minute))
		if err != nil {
			log.Fatal(err)
		}
		store = append(store, k)
	}
	slices.SortFunc(store, bytes.Compare)
	scan := func(r key.Range) [][]byte {
		return slices.DeleteFunc(slices.Clone(store), func(k []byte) bool { return !r.Contains(k) })
	}

	// From 01:03 to before 01:08; layout.FanOut(nil) gives the ranges of it all.
	ranges, err := layout.Between(nil, start.Add(3*time.Minute), start.Add(8*time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	sources := make([]key.Cursor[[]byte], len(ranges))
	for i, r := range ranges {
		sources[i] = key.NewSliceCursor(scan(r))
	}
	merged, err := key.NewMerger(layout.CompareUnsalted, sources...)
	if err != nil {
		log.Fatal(err)
	}
	for k, err := range merged.All() {
		if err != nil {
			log.Fatal(err)
		}
		text, err := layout.Format(k)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(text)
	}
	// Output:
	// salt(4)=3 | ts=2026-11-15T01:03:00Z
	// salt(4)=0 | ts=2026-11-15T01:04:00Z
	// salt(4)=1 | ts=2026-11-15T01:05:00Z
	// salt(4)=2 | ts=2026-11-15T01:06:00Z
	// salt(4)=3 | ts=2026-11-15T01:07:00Z
}

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

// A log whose writes go round over four salts and whose reads see one order.
func ExampleNewSaltMerger() {
	type event struct {
		at   int
		text string
	}
	salter, err := key.NewRoundRobin(4, 0)
	if err != nil {
		log.Fatal(err)
	}
	ranges := make([][]event, salter.Salts())
	for i, text := range []string{"boot", "login", "click", "click", "buy", "logout", "halt"} {
		salt := salter.Salt(nil)
		ranges[salt] = append(ranges[salt], event{i, text})
	}

	byTime := func(a, b event) int { return cmp.Compare(a.at, b.at) }
	m, err := key.NewSaltMerger(salter.Salts(), byTime, func(salt int) (key.Cursor[event], error) {
		return key.NewSliceCursor(ranges[salt]), nil
	})
	if err != nil {
		log.Fatal(err)
	}
	for e, err := range m.All() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.at, e.text)
		if e.text == "buy" {
			break // the ranges are closed here
		}
	}
	place, _ := m.Place()
	fmt.Printf("continue after %d, which salt %d held\n", place.Item.at, place.Source)
	// Output:
	// 0 boot
	// 1 login
	// 2 click
	// 3 click
	// 4 buy
	// continue after 4, which salt 0 held
}

func ExampleSaltCount() {
	a, err := key.SaltCount(12)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(a.Salts, "salts:", a.Price)
	// Output:
	// 16 salts: an ordered read opens 16 ranges, waits for the slowest, and makes about 4 comparisons a record
}
