package heat

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// newTraffic returns operations on keys of a zipf distribution that is spread over the space, and their exact sums.
func newTraffic(seed uint64, n int) []Access {
	r := rand.New(rand.NewPCG(seed, 3))
	all := make([]Access, n)
	for i, key := range zipfKeys(r, n) {
		all[i] = Access{Key: fmt.Appendf(nil, "%05d", key*7919%100_000), BytesOut: 100}
		switch r.IntN(10) {
		case 0, 1, 2:
			all[i].Write, all[i].BytesIn = true, 50
		case 3:
			all[i].BytesOut = 20_000
		}
	}
	return all
}

func sumLoads(all []Access, start, end []byte) (l RangeLoad) {
	for i := range all {
		if isInRange(all[i].Key, start, end) {
			l.add(loadOf(&all[i], 1), 1)
		}
	}
	return l
}

// As long as the operations fit, nothing is an estimate.
func TestRanges_ExactAsLongAsOperationsFit(t *testing.T) {
	all := newTraffic(1, 500)
	a, b := must(NewRanges(600, 1)), must(NewRanges(600, 2))
	for i := range all {
		[]*Ranges{a, b}[i%2].Add(&all[i], 1)
	}
	a.Merge(b)
	for _, span := range [][2]string{{"", "5"}, {"3", "31"}, {"9", ""}} {
		end := []byte(span[1])
		if span[1] == "" {
			end = nil
		}
		got, want := a.Load([]byte(span[0]), end), sumLoads(all, []byte(span[0]), end)
		if !isNear(got.Reads, want.Reads) || !isNear(got.Writes, want.Writes) || !isNear(got.BytesIn, want.BytesIn) || !isNear(got.BytesOut, want.BytesOut) {
			t.Errorf("from %q to %q: %+v, want %+v", span[0], span[1], got, want)
		}
	}
}

func TestRanges_Loads_AreThoseOfEachRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := must(NewRanges(64, 1))
		for _, key := range rapid.SliceOfN(rapid.StringMatching("[a-c]{0,3}"), 0, 200).Draw(t, "keys") {
			r.Add(&Access{Key: []byte(key), Write: key < "b"}, 1)
		}
		names := rapid.SliceOfN(rapid.StringMatching("[a-c]{1,3}"), 0, 9).Draw(t, "bounds")
		slices.Sort(names)
		var bounds [][]byte
		for _, name := range names { // the same may be there twice: nothing is between them
			bounds = append(bounds, []byte(name))
		}
		loads := r.Loads(bounds)
		for i, got := range loads {
			var start, end []byte
			if i > 0 {
				start = bounds[i-1]
			}
			if i < len(bounds) {
				end = bounds[i]
			}
			if want := r.Load(start, end); !isNear(got.Reads, want.Reads) || !isNear(got.Writes, want.Writes) {
				t.Fatalf("range %d of %q has %+v, want %+v", i, names, got, want)
			}
		}
	})
}

// Many samples of the same traffic, merged or not, are right on average, and each is near.
func TestRanges_EstimatesAreRightOnAverage(t *testing.T) {
	const capacity, runs, operations = 256, 60, 10_000
	all := newTraffic(2, operations)
	start, end := []byte("2"), []byte("6")
	want := sumLoads(all, start, end)
	var sum RangeLoad
	for seed := range uint64(runs) {
		parts := []*Ranges{must(NewRanges(capacity, 3*seed)), must(NewRanges(capacity, 3*seed+1)), must(NewRanges(capacity, 3*seed+2))}
		for i := range all {
			part := parts[min(i%5, 2)]
			part.Add(&all[i], 1)
			if i == operations/2 {
				part.Scale(1) // changes nothing
			}
		}
		whole := parts[0]
		whole.Merge(parts[1])
		whole.Merge(parts[2])
		if whole.Len() > capacity || !isNear(whole.Total().Ops(), operations) {
			t.Fatalf("%d entries, %v operations", whole.Len(), whole.Total().Ops())
		}
		got := whole.Load(start, end)
		if math.Abs(got.Ops()-want.Ops()) > 0.25*operations || math.Abs(got.BytesOut-want.BytesOut) > 0.25*sumLoads(all, nil, nil).BytesOut {
			t.Errorf("%+v, want %+v", got, want)
		}
		sum.add(got, 1.0/runs)
	}
	for name, of := range map[string]func(RangeLoad) float64{
		"ops": RangeLoad.Ops, "writes": func(l RangeLoad) float64 { return l.Writes }, "bytes": func(l RangeLoad) float64 { return l.BytesOut },
	} {
		if math.Abs(of(sum)-of(want)) > 0.04*of(sumLoads(all, nil, nil)) {
			t.Errorf("%s: %v on average, want %v", name, of(sum), of(want))
		}
	}
}

// A sample that has left operations out counts as much in one that has room for all.
func TestRanges_MergedIntoALargerOneTheyCountAsMuch(t *testing.T) {
	small, large := must(NewRanges(256, 1)), must(NewRanges(4096, 2))
	for i := range 10_000 {
		small.Add(&Access{Key: fmt.Append(nil, i)}, 1)
		if i%10 == 0 {
			large.Add(&Access{Key: fmt.Append(nil, "few ", i)}, 1)
		}
	}
	large.Merge(small)
	large.Add(&Access{Key: []byte("few after"), Write: true}, 1)
	if few, many := large.Load([]byte("few"), nil).Ops(), large.Load(nil, []byte("few")).Ops(); math.Abs(few-1000) > 600 || math.Abs(many-10_000) > 1500 {
		t.Errorf("%v and %v operations, want about 1000 and 10000", few, many)
	}
}

func TestRanges_WhatIsOlderCountsLess(t *testing.T) {
	r := must(NewRanges(128, 1))
	for range 10 {
		for i := range 1000 {
			r.Add(&Access{Key: fmt.Append(nil, "old", i)}, 1)
		}
		r.Scale(0.5)
	}
	for i := range 1000 {
		r.Add(&Access{Key: fmt.Append(nil, "young", i)}, 1)
	}
	old, young := r.Load([]byte("old"), []byte("p")).Ops(), r.Load([]byte("y"), nil).Ops()
	if !isNear(r.Total().Ops(), 1000*(2-1.0/1024)) || math.Abs(old-1000) > 350 || math.Abs(young-1000) > 350 {
		t.Errorf("%v old and %v young, want about 1000 of each", old, young)
	}
	r.Scale(1e-9)
	if r.Len() != 0 {
		t.Errorf("%d operations are left", r.Len())
	}
}

func TestRanges_Memory(t *testing.T) {
	r := must(NewRanges(64, 1))
	key := bytes.Repeat([]byte("x"), 10_000)
	for i := range 20_000 {
		copy(key, fmt.Append(nil, i))
		r.Add(&Access{Key: key}, 1)
		if i%5000 == 0 {
			r.Scale(0.5)
			r.Reset()
		}
	}
	if limit := 64 * (MaxKeyBytes + 160); r.Bytes() > limit {
		t.Errorf("%d bytes, want at most %d", r.Bytes(), limit)
	}
	a := Access{Key: []byte("k")}
	if n := testing.AllocsPerRun(1000, func() { r.Add(&a, 1) }); n != 0 {
		t.Errorf("%v allocations for each operation", n)
	}
}

func TestRanges_Split_PiecesAreEven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := must(NewRanges(2048, rapid.Uint64().Draw(t, "seed")))
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "random"), 0))
		exact := map[string]float64{}
		for range 20_000 { // denser and denser
			key := fmt.Sprintf("%04.0f", 9999*math.Pow(random.Float64(), 3))
			write := key < "3"
			r.Add(&Access{Key: []byte(key), Write: write}, 1)
			exact[key]++
		}
		o := SplitOptions{Start: []byte("0001"), End: []byte("9"), Pieces: rapid.IntRange(2, 5).Draw(t, "pieces"), Candidates: 4, Random: random.Uint64}
		splits, err := r.Split(o)
		if err != nil {
			t.Fatal(err)
		}
		if len(splits) != 4 {
			t.Fatalf("%d candidates", len(splits))
		}
		total := 0.0
		for key, n := range exact {
			if key >= "0001" && key < "9" {
				total += n
			}
		}
		seen := map[string]bool{}
		for i, s := range splits {
			if len(s.Keys) != o.Pieces-1 || len(s.Shares) != o.Pieces || i > 0 && s.Largest() < splits[i-1].Largest() {
				t.Fatalf("%+v", s)
			}
			if name := string(bytes.Join(s.Keys, []byte("|"))); seen[name] {
				t.Fatalf("%s is there twice", name)
			} else {
				seen[name] = true
			}
			from := "0001"
			for j := range o.Pieces {
				to := "9"
				if j < len(s.Keys) {
					to = string(s.Keys[j])
				}
				share := 0.0
				for key, n := range exact {
					if key >= from && key < to {
						share += n / total
					}
				}
				if from >= to || math.Abs(share-s.Shares[j]) > 6*s.Deviation || math.Abs(share-1/float64(o.Pieces)) > 0.2/float64(o.Pieces)+6*s.Deviation {
					t.Fatalf("piece %d from %s to %s has %v of the load, said are %v ± %v", j, from, to, share, s.Shares[j], s.Deviation)
				}
				from = to
			}
		}
	})
}

func TestRanges_Split_ByWhatIsAskedFor(t *testing.T) {
	r := must(NewRanges(4096, 1))
	for i := range 1000 { // reads below, writes above
		r.Add(&Access{Key: fmt.Appendf(nil, "a%03d", i)}, 1)
		r.Add(&Access{Key: fmt.Appendf(nil, "b%03d", i), Write: true}, 1)
	}
	split := func(weigh func(RangeLoad) float64) string {
		splits, err := r.Split(SplitOptions{Weigh: weigh})
		if err != nil || len(splits) != 1 {
			t.Fatal(splits, err)
		}
		return string(splits[0].Keys[0])
	}
	if got := split(func(l RangeLoad) float64 { return l.Writes }); got != "b500" {
		t.Errorf("by writes it is cut at %s", got)
	}
	if got := split(nil); got != "b000" {
		t.Errorf("by operations it is cut at %s", got)
	}
}

func TestRanges_Split_Refused(t *testing.T) {
	fill := func(keys map[string]int) *Ranges {
		r := must(NewRanges(4096, 1))
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			for range keys[key] {
				r.Add(&Access{Key: []byte(key)}, 1)
			}
		}
		return r
	}
	random := rand.New(rand.NewPCG(1, 1)).Uint64
	size := func(start, end []byte) int64 { // 10 bytes for each letter from a to z
		last := byte('z' + 1)
		if end != nil {
			last = end[0]
		}
		return 10 * int64(last-max(append(slices.Clone(start), 0)[0], 'a'))
	}
	for _, test := range []struct {
		name string
		keys map[string]int
		o    SplitOptions
		text string
	}{
		{"few operations", map[string]int{"a": 30, "b": 30}, SplitOptions{}, "60 operations on the range are known, 64 are needed"},
		{"none in the range", map[string]int{"a": 100, "b": 100}, SplitOptions{Start: []byte("c")}, "0 operations"},
		{"one key", map[string]int{"hot": 1000}, SplitOptions{}, `one key, "hot", has 100 %`},
		{"one hot key", map[string]int{"a": 40, "hot": 900, "x": 60}, SplitOptions{Random: random}, `one key, "hot", has 90 %`},
		{"the piece would be small", map[string]int{"a": 50, "b": 50, "c": 20}, SplitOptions{Size: size, MinBytes: 100}, "a piece that is too small"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := fill(test.keys).Split(test.o)
			var u *UnsplittableError
			if !errors.Is(err, ErrUnsplittable) || !errors.As(err, &u) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("%v, want %q", err, test.text)
			}
		})
	}
	if _, err := fill(map[string]int{"a": 50, "b": 50, "n": 50, "o": 50}).Split(SplitOptions{Size: size, MinBytes: 100}); err != nil {
		t.Errorf("halves that are large enough: %v", err)
	}
	for _, o := range []SplitOptions{{Pieces: 1}, {Pieces: 5000}, {Candidates: -1}, {MinSamples: -1}, {MinShare: 0.6}, {Jitter: 1}} {
		if _, err := fill(nil).Split(o); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := NewRanges(1, 0); !errors.Is(err, ErrOptions) {
		t.Error(err)
	}
}

func BenchmarkRanges(b *testing.B) {
	all := newTraffic(1, 1<<16)
	for _, name := range []string{"add", "add and decay"} {
		b.Run("op="+strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
			r := must(NewRanges(4096, 1))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r.Add(&all[i%len(all)], 1)
				if name != "add" && i%10_000 == 0 {
					r.Scale(0.5)
				}
			}
		})
	}
	b.Run("op=split", func(b *testing.B) {
		r := must(NewRanges(4096, 1))
		for i := range all {
			r.Add(&all[i], 1)
		}
		for b.Loop() {
			if _, err := r.Split(SplitOptions{MinShare: 0.01}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
