package memruns

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"testing"
)

// benchKeys are kinds of keys of rows: a table, a keyspace and a slot, or a number, that are
// about even, and the key in it.
var benchKeys = map[string]func(dst []byte, n uint64) []byte{
	"number": func(dst []byte, n uint64) []byte {
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(append(dst, "\x01ks01"...), n*0x9e3779b97f4a7c15), n)
	},
	"text": func(dst []byte, n uint64) []byte {
		dst = binary.BigEndian.AppendUint16(append(dst, "\x01\x05"...), uint16(n*0x9e3779b97f4a7c15>>50))
		return fmt.Appendf(dst, "key:%012d\x00\x01", n)
	},
}

// newBenchOps are as many operations as a chunk of the log holds of rows of a
// hundred bytes, in one piece of memory as there. Some are on the same key; the first is on
// one that has nothing in common with the others, as almost every chunk has some.
func newBenchOps(n int, key string, seed uint64) []Op {
	const rowBytes = 110
	chunk := make([]byte, n*rowBytes)
	ops := make([]Op, n)
	x := seed
	for i := range ops {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		row := chunk[i*rowBytes:][:rowBytes]
		k := benchKeys[key](row[:0], x%1_000_000)
		ops[i] = Op{Key: k, Value: row[len(k):]}
	}
	ops[0].Key[0] = 7
	return ops
}

const chunkOps = 300_000

func newFilledSet(ops []Op) *Set {
	s := new(Set)
	s.Append(ops...)
	return s
}

func BenchmarkDrain(b *testing.B) {
	for key := range benchKeys {
		ops := newBenchOps(chunkOps, key, 1)
		b.Run("keys="+key+"/impl=runs", func(b *testing.B) {
			s := newFilledSet(ops)
			for b.Loop() {
				s.sorted.Store(nil) // as if never asked before
				Drain(nil, s)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/chunkOps, "ns/row")
		})
		b.Run("keys="+key+"/impl=sort.Slice", func(b *testing.B) {
			for b.Loop() {
				c := slices.Clone(ops)
				sort.Slice(c, func(i, j int) bool { return bytes.Compare(c[i].Key, c[j].Key) < 0 })
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/chunkOps, "ns/row")
		})
	}
}

// BenchmarkDrainSets drains sets that are in order already.
func BenchmarkDrainSets(b *testing.B) {
	for key := range benchKeys {
		b.Run("keys="+key, func(b *testing.B) {
			sets := make([]*Set, 3)
			for i := range sets {
				sets[i] = newFilledSet(newBenchOps(chunkOps, key, uint64(i+1)))
				sets[i].View()
			}
			for b.Loop() {
				Drain(nil, sets...)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(3*chunkOps), "ns/row")
		})
	}
}

// BenchmarkMixed appends a chunk and takes a View every so many operations.
func BenchmarkMixed(b *testing.B) {
	ops := newBenchOps(chunkOps, "text", 1)
	for _, every := range []int{10, 100, 10_000, chunkOps} {
		b.Run(fmt.Sprintf("every=%d", every), func(b *testing.B) {
			for b.Loop() {
				var s Set
				for i := 0; i < len(ops); i += every {
					s.Append(ops[i:min(i+every, len(ops))]...)
					s.View()
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/chunkOps, "ns/row")
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	ops := newBenchOps(chunkOps, "text", 1)
	for b.Loop() {
		var s Set
		for i := range ops {
			s.Stage(ops[i].Key, ops[i].Value, false)
			s.Reveal()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/chunkOps, "ns/row")
}

func BenchmarkIter(b *testing.B) {
	ops := newBenchOps(chunkOps, "text", 1)
	for _, runs := range []int{1, 5} {
		b.Run(fmt.Sprintf("runs=%d", runs), func(b *testing.B) {
			var s Set
			left := ops
			for i := range runs {
				n := len(left) * 3 / 4
				if i == runs-1 {
					n = len(left)
				}
				s.Append(left[:n]...)
				left = left[n:]
				s.View()
			}
			v := s.View()
			if len(v.runs) != runs {
				b.Fatalf("%d runs", len(v.runs))
			}
			it := v.Iter(nil, nil)
			for b.Loop() {
				if !it.Next() {
					it.First()
				}
			}
		})
	}
}
