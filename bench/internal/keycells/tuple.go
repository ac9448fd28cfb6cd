// Package keycells sets the ordered tuples and the merge against what one
// would use instead.
//
// Only orderedcode keeps the order of values as tuples do. JSON and gob do
// not; they show what a general encoding of the same record costs.
package keycells

import (
	"bytes"
	"encoding/gob"
	"encoding/json"

	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/workload"
	"github.com/cleavekv/cleave/key"
	"github.com/google/orderedcode"
)

// record is a typical key: a region, a time and a name.
type record struct {
	Region string
	Time   int64
	Name   string
}

var sample = record{Region: "eu-west", Time: 1_700_000_000_123_456, Name: "sensor-000481516"}

// The families: what keeps order, and what does not.
const (
	ordered   = "ordered"
	reference = "reference"
)

// fail turns an error into a panic, which takes the contestant out.
func fail(err error) {
	if err != nil {
		panic(err)
	}
}

// must is fail for calls that return a value.
func must[T any](v T, err error) T {
	fail(err)
	return v
}

func encoding() duel.Cell {
	var buf []byte
	return duel.Cell{ID: "key/encode", Title: "encode (string, integer, string) into a buffer that is reused", Contestants: []duel.Contestant{
		{Name: "AppendString, AppendInt", Family: ordered, Ours: true, Work: func(ops int) {
			for range ops {
				buf = key.AppendString(buf[:0], sample.Region)
				buf = key.AppendInt(buf, sample.Time)
				buf = key.AppendString(buf, sample.Name)
			}
		}},
		{Name: "Append(Tuple)", Family: ordered, Ours: true, Work: func(ops int) {
			for range ops {
				buf = must(key.Append(buf[:0], key.Tuple{sample.Region, sample.Time, sample.Name}))
			}
		}},
		{Name: "orderedcode", Family: ordered, Work: func(ops int) {
			for range ops {
				buf = must(orderedcode.Append(buf[:0], sample.Region, sample.Time, sample.Name))
			}
		}},
		{Name: "encoding/json", Family: reference, Work: func(ops int) {
			for range ops {
				workload.Sink += uint64(len(must(json.Marshal(&sample))))
			}
		}},
		{Name: "encoding/gob", Family: reference, Work: func(ops int) {
			var out bytes.Buffer
			enc := gob.NewEncoder(&out)
			for range ops {
				out.Reset()
				fail(enc.Encode(&sample))
			}
		}},
	}}
}

func decoding() duel.Cell {
	tuple := must(key.Encode(key.Tuple{sample.Region, sample.Time, sample.Name}))
	code := string(must(orderedcode.Append(nil, sample.Region, sample.Time, sample.Name)))
	text := must(json.Marshal(&sample))
	return duel.Cell{ID: "key/decode", Title: "decode (string, integer, string)", Contestants: []duel.Contestant{
		{Name: "Reader", Family: ordered, Ours: true, Work: func(ops int) {
			for range ops {
				check(read(tuple))
			}
		}},
		{Name: "Decode", Family: ordered, Ours: true, Work: func(ops int) {
			for range ops {
				workload.Sink += uint64(len(must(key.Decode(tuple))))
			}
		}},
		{Name: "orderedcode", Family: ordered, Work: func(ops int) {
			for range ops {
				var r record
				must(orderedcode.Parse(code, &r.Region, &r.Time, &r.Name))
				check(r)
			}
		}},
		{Name: "encoding/json", Family: reference, Work: func(ops int) {
			for range ops {
				var r record
				fail(json.Unmarshal(text, &r))
				check(r)
			}
		}},
	}}
}

// read decodes into the same record as the others do.
func read(b []byte) (r record) {
	in := key.NewReader(b)
	in.Next()
	r.Region, _ = in.Element().Text()
	in.Next()
	r.Time, _ = in.Element().Int()
	in.Next()
	r.Name, _ = in.Element().Text()
	fail(in.Err())
	return r
}

// check refuses a record that lost something on the way.
func check(r record) {
	if r != sample {
		panic("decoded another record")
	}
}
