package runs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"testing"
)

// benchOps are as many operations as a chunk of the log holds of rows of a
// hundred bytes, in one piece of memory as there. Keys begin alike and are then
// random; the first is one that has nothing in common with the others, as almost
// every chunk has some.
func benchOps(n int) []Op {
	const keyBytes, rowBytes = 21, 110
	chunk := make([]byte, n*rowBytes)
	ops := make([]Op, n)
	x := uint64(1)
	for i := range ops {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		row := chunk[i*rowBytes:][:rowBytes]
		copy(row, "\x01ks01")
		binary.BigEndian.PutUint64(row[5:], x%1_000_000*0x9e3779b97f4a7c15)
		binary.BigEndian.PutUint64(row[13:], x%1_000_000)
		ops[i] = Op{Key: row[:keyBytes], Value: row[keyBytes:]}
	}
	ops[0].Key[0] = 7
	return ops
}

const chunkOps = 300_000

func filled(ops []Op) *Set {
	s := new(Set)
	s.Append(ops...)
	return s
}

func BenchmarkDrain(b *testing.B) {
	ops := benchOps(chunkOps)
	b.Run("impl=runs", func(b *testing.B) {
		s := filled(ops)
		for b.Loop() {
			s.sorted.Store(nil) // as if nobody had asked before
			s.Drain()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/chunkOps, "ns/row")
	})
	b.Run("impl=sort.Slice", func(b *testing.B) {
		for b.Loop() {
			c := slices.Clone(ops)
			sort.Slice(c, func(i, j int) bool { return bytes.Compare(c[i].Key, c[j].Key) < 0 })
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/chunkOps, "ns/row")
	})
}

// BenchmarkMixed appends a chunk and takes a View every so many operations.
func BenchmarkMixed(b *testing.B) {
	ops := benchOps(chunkOps)
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
	ops := benchOps(chunkOps)
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
	ops := benchOps(chunkOps)
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
