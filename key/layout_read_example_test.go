package key_test

import (
	"bytes"
	"fmt"
	"iter"
	"log"
	"slices"
	"time"

	"github.com/cleavekv/cleave/key"
)

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
		sources[i] = key.SliceCursor(scan(r))
	}
	merged, err := key.Merge(layout.CompareUnsalted, sources...)
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
