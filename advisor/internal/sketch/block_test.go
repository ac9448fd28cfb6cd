package sketch

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// However a stream is cut into blocks, the counts are exact, and frequent values are within their bounds.
func TestBlock_CountsAreThoseOfTheStream(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	zipf := rand.NewZipf(r, 1.1, 1, 1<<20)
	truth := map[uint64]uint64{}
	whole, parts, heavy, block := NewDistinct(), NewDistinct(), NewHeavyHitters(), NewBlock()
	texts := map[uint64]uint64{}
	for range 60 {
		for i := range uint32(1 + r.IntN(BlockRows)) {
			v := zipf.Uint64()
			truth[v]++
			texts[mix(v)] = v
			whole.Add(mix(v))
			block.Add(mix(v), i)
		}
		for v := range block.Values {
			parts.AddCount(v.Hash, uint64(v.Count))
		}
		frequent, missed := block.Reduce(nil)
		if len(frequent) > maxFrequent {
			t.Fatalf("%d frequent values, want at most %d", len(frequent), maxFrequent)
		}
		heavy.AddMissed(uint64(missed))
		for _, v := range frequent {
			heavy.Add(v.Hash, uint64(v.Count), fmt.Append(nil, texts[v.Hash]))
		}
		block.Reset()
	}
	if whole.Count() != parts.Count() || whole.Repeats() != parts.Repeats() {
		t.Errorf("in blocks %v values that repeat %v times, in one %v and %v", parts.Count(), parts.Repeats(), whole.Count(), whole.Repeats())
	}
	rows := uint64(0)
	for _, n := range truth {
		rows += n
	}
	if heavy.Missed() > rows/512 {
		t.Errorf("up to %d of %d may be missed, want at most one in 512", heavy.Missed(), rows)
	}
	listed := map[uint64]bool{}
	for _, top := range heavy.Top(heavyKept) {
		var v uint64
		fmt.Sscan(top.Text, &v)
		listed[v] = true
		if n := truth[v]; n < top.Count || n > top.Count+top.Missed {
			t.Errorf("value %d came %d times, want %d to %d", v, n, top.Count, top.Count+top.Missed)
		}
	}
	for v, n := range truth {
		if n > heavy.Missed() && !listed[v] {
			t.Errorf("value %d came %d times and is not listed", v, n)
		}
	}
}
