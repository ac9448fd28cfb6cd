package ownership

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

var tableSizes = []int{10, 1_000, 10_000}

// newTiledSite returns a group that serves n ranges, and where they begin: keys of a range
// keyspace, or slots.
func newTiledSite(b *testing.B, n int, slots bool) (*Site, []partition.Position) {
	k := partition.Keyspace{ID: 2, Name: "k", Kind: partition.Range}
	starts := make([]partition.Position, n)
	for i := range starts {
		if starts[i] = k.AppendPosition(nil, fmt.Appendf(nil, "customer/%08d/order", i*4999)); slots {
			starts[i] = k.SlotSpan(uint16(i * 6)).Start
		}
	}
	ranges := make([]Range, n)
	for i := range ranges {
		ranges[i] = Range{Span: partition.Span{Start: starts[i]}, Version: 1, State: Serving}
		if i+1 < n {
			ranges[i].Span.End = starts[i+1]
		}
	}
	list, err := NewTable(ranges...)
	if err != nil {
		b.Fatal(err)
	}
	return &Site{Group: 1, Table: list}, starts
}

// What every command asks: may the group write here? The keys are those behind a
// thousand starts, in no order.
func BenchmarkCheck(b *testing.B) {
	for _, slots := range []bool{false, true} {
		for _, n := range tableSizes {
			b.Run(fmt.Sprintf("slots=%v/ranges=%d", slots, n), func(b *testing.B) {
				site, starts := newTiledSite(b, n, slots)
				checkAll(b, site, starts)
			})
		}
	}
}

// What every command asks of a group that serves half of the slots.
func BenchmarkCheckHalf(b *testing.B) {
	site, starts := newTiledSite(b, 32, true)
	var ranges []Range
	for r := range site.Table.All() {
		if len(ranges) < len(starts)/2 {
			ranges = append(ranges, r)
		}
	}
	list, err := NewTable(ranges...)
	if err != nil {
		b.Fatal(err)
	}
	checkAll(b, &Site{Group: 1, Table: list}, starts[:len(ranges)])
}

// The worst there is: of every two shards one is another group's.
func BenchmarkCheckApart(b *testing.B) {
	for _, n := range tableSizes {
		b.Run(fmt.Sprintf("ranges=%d", n), func(b *testing.B) {
			site, starts := newTiledSite(b, 2*n, false)
			var mine []partition.Position
			var ranges []Range
			for i := 0; i < len(starts); i += 2 {
				r, _ := site.Table.Find(starts[i])
				mine, ranges = append(mine, starts[i]), append(ranges, r)
			}
			list, err := NewTable(ranges...)
			if err != nil {
				b.Fatal(err)
			}
			checkAll(b, &Site{Group: 1, Table: list}, mine)
		})
	}
}

func checkAll(b *testing.B, site *Site, starts []partition.Position) {
	rng := rand.New(rand.NewPCG(1, 2))
	keys := make([]partition.Position, 1024)
	for i := range keys {
		keys[i] = append(bytes.Clone(starts[rng.IntN(len(starts))]), 0x30, 0x00, 0x01)
	}
	i := 0
	for b.Loop() {
		if err := site.CheckPosition(keys[i&1023], true); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// The life of a range, without its rows: split, freeze, release, activate, merge.
func BenchmarkReown(b *testing.B) {
	for _, n := range tableSizes {
		b.Run(fmt.Sprintf("ranges=%d", n), func(b *testing.B) {
			site, starts := newTiledSite(b, n, false)
			e := command.NewEnv(memoryState{})
			run := func(expect, become []Range) {
				e.Begin(effect.Header{}, 1)
				c := ChangeOwnership{Expect: expect, Become: become}
				c.Bind(site)
				if reply := c.Eval(e); reply.Err != nil {
					b.Fatal(reply.Err)
				}
			}
			v, i := partition.Version(1), 0
			for b.Loop() {
				i = (i + 7) % n
				whole, _ := site.Table.Find(starts[i])
				middle := append(bytes.Clone(starts[i]), 'm')
				v++
				left, right := whole, whole
				left.Span.End, left.Version = middle, v
				right.Span.Start, right.Version = middle, v
				run([]Range{whole}, []Range{left, right})
				frozen := right
				frozen.State, frozen.Job, frozen.Attempt = Frozen, JobID(v), 1
				run([]Range{right}, []Range{frozen})
				gone := frozen
				gone.State = Foreign
				run([]Range{frozen}, []Range{gone})
				right.Job = JobID(v)
				run([]Range{gone}, []Range{right})
				whole.Version = v
				run([]Range{left, right}, []Range{whole})
			}
		})
	}
}

// What opening a group takes.
func BenchmarkLoad(b *testing.B) {
	for _, n := range tableSizes {
		b.Run(fmt.Sprintf("ranges=%d", n), func(b *testing.B) {
			site, _ := newTiledSite(b, n, false)
			var rows sortedRows
			for r := range site.Table.All() {
				rows.keys = append(rows.keys, recordKey(nil, 1, r.Span.Start))
				rows.values = append(rows.values, r.appendRecord(nil))
			}
			for b.Loop() {
				if l, err := LoadTable(rows, 1); err != nil || l.Len() != n {
					b.Fatal(l, err)
				}
			}
		})
	}
}

// sortedRows are rows that are read from the first to the last.
type sortedRows struct{ keys, values [][]byte }

func (s sortedRows) Get(_, dst []byte) ([]byte, bool, error) { return dst, false, nil }

func (s sortedRows) Scan(_, _ []byte, _ bool, visit func(key, value []byte) bool) error {
	for i := range s.keys {
		if !visit(s.keys[i], s.values[i]) {
			break
		}
	}
	return nil
}
