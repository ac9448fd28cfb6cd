package key

import (
	"fmt"
	"testing"
)

var benchTuples = []struct {
	name  string
	tuple Tuple
}{
	{"key", Tuple{"eu-west", int64(1_794_705_696_000_000_000), int64(42)}},
	{"strings", Tuple{"github", "com", "apple", "foundationdb", "tree"}},
	{"ints", Tuple{int64(1), int64(-1), int64(1 << 40), int64(-1 << 40), int64(1 << 62)}},
	{"mixed", Tuple{vectorUUID, "foobarbaz", int64(1234), nil, 1.5, true, Tuple{"a", nil}}},
}

func BenchmarkTuple(b *testing.B) {
	for _, c := range benchTuples {
		encoded := mustEncode(b, c.tuple)
		buf := make([]byte, 0, len(encoded)+16)
		b.Run(fmt.Sprintf("op=append/tuple=%s", c.name), func(b *testing.B) {
			for b.Loop() {
				buf, _ = Append(buf[:0], c.tuple)
			}
		})
		b.Run(fmt.Sprintf("op=decode/tuple=%s", c.name), func(b *testing.B) {
			for b.Loop() {
				if _, err := Decode(encoded); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("op=read/tuple=%s", c.name), func(b *testing.B) {
			for b.Loop() {
				r := NewReader(encoded)
				for r.Next() {
					r.Element().Int()
				}
			}
		})
	}
}

func BenchmarkLayout(b *testing.B) {
	l := mustLayout(b, "(region:string, hour(ts)) | ts, id:int")
	var row Row = Columns{"region": "eu-west", "ts": someTime, "id": int64(42)}
	key := mustKey(b, l, row)
	b.Run("op=append", func(b *testing.B) {
		buf := make([]byte, 0, 64)
		for b.Loop() {
			buf, _ = l.Append(buf[:0], row)
		}
	})
	b.Run("op=values", func(b *testing.B) {
		buf := make([]byte, 0, 64)
		values := []any{"eu-west", someTime, int64(42)}
		for b.Loop() {
			buf, _ = l.AppendValues(buf[:0], values...)
		}
	})
	b.Run("op=decode", func(b *testing.B) {
		var v Values
		for b.Loop() {
			if err := l.DecodeInto(&v, key); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("op=partition", func(b *testing.B) {
		for b.Loop() {
			if _, err := l.Partition(key); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("op=format", func(b *testing.B) {
		buf := make([]byte, 0, 128)
		for b.Loop() {
			buf, _ = l.AppendFormat(buf[:0], key)
		}
	})
}
