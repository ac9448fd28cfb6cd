package heat

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// stream is a sequence of accesses in an order that is made to hurt.
type stream struct {
	name string
	keys func(r *rand.Rand, n, capacity int) []int
}

func zipfKeys(r *rand.Rand, n int) []int {
	z, keys := rand.NewZipf(r, 1.1, 1, 1<<20), make([]int, n)
	for i := range keys {
		keys[i] = int(z.Uint64())
	}
	return keys
}

var streams = []stream{
	{"zipf", func(r *rand.Rand, n, _ int) []int { return zipfKeys(r, n) }},
	{"zipf, the hottest last", func(r *rand.Rand, n, _ int) []int {
		keys := zipfKeys(r, n)
		slices.SortFunc(keys, func(a, b int) int { return b - a })
		return keys
	}},
	{"zipf, the hottest first", func(r *rand.Rand, n, _ int) []int {
		keys := zipfKeys(r, n)
		slices.Sort(keys)
		return keys
	}},
	{"uniform", func(r *rand.Rand, n, capacity int) []int {
		keys := make([]int, n)
		for i := range keys {
			keys[i] = r.IntN(4 * capacity)
		}
		return keys
	}},
	{"one key more than there is room for, in turn", func(_ *rand.Rand, n, capacity int) []int {
		keys := make([]int, n)
		for i := range keys {
			keys[i] = i % (capacity + 1)
		}
		return keys
	}},
	{"each key once, but one", func(_ *rand.Rand, n, capacity int) []int {
		keys := make([]int, n)
		for i := range keys {
			if i%(2*capacity) != 0 {
				keys[i] = i
			}
		}
		return keys
	}},
}

// exactCounts is what a table must agree with.
type exactCounts struct {
	by     Measure
	counts map[string]float64
	total  float64
}

func (e *exactCounts) add(a *Access) {
	n := e.by.of(a)
	e.counts[string(a.Key)] += n
	e.total += n
}

func (e *exactCounts) scale(factor float64) {
	e.total *= factor
	for k := range e.counts {
		e.counts[k] *= factor
	}
}

// check compares a table that was handed every operation with the truth.
func (e *exactCounts) check(t interface{ Fatalf(string, ...any) }, top *TopKeys) {
	const slack = 1 + 1e-9
	if math.Abs(top.Total()-e.total) > 1e-9*e.total {
		t.Fatalf("the total is %v, want %v", top.Total(), e.total)
	}
	if top.Floor() > e.total/float64(top.Capacity())*slack {
		t.Fatalf("a key with %v may be missed, that is more than %v by %d", top.Floor(), e.total, top.Capacity())
	}
	if top.Len() > top.Capacity() || len(top.keys) != top.Len() {
		t.Fatalf("%d keys in a table of %d", top.Len(), top.Capacity())
	}
	tracked, bytes := map[string]bool{}, 0
	for _, k := range top.Top(-1) {
		n := e.counts[k.Key]
		if n > k.Count*slack || n < (k.Count-k.Error)/slack-1e-6 || k.Error > e.total/float64(top.Capacity())*slack || k.Deviation != 0 {
			t.Fatalf("%+v, but the truth is %v of %v", k, n, e.total)
		}
		tracked[k.Key] = true
		bytes += len(k.Key)
	}
	for i, k := range top.heap {
		if top.keys[k.key] != k || k.index != i || k.count < top.heap[max(i-1, 0)/2].count {
			t.Fatalf("the heap is wrong at %d: %+v", i, k)
		}
	}
	if bytes != top.keyBytes {
		t.Fatalf("%d bytes of keys are counted as %d", bytes, top.keyBytes)
	}
	for key, n := range e.counts {
		if !tracked[key] && n > top.Floor()*slack {
			t.Fatalf("%s has %v of %v and is not tracked; the floor is %v", key, n, e.total, top.Floor())
		}
	}
}

// Whatever order keys come in, and however the tables are merged, no count is out of its bounds and no frequent key
// is missed.
func TestTopKeys_CountsAreWithinTheirBounds(t *testing.T) {
	for _, s := range streams {
		t.Run(s.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
				capacity := rapid.IntRange(2, 40).Draw(t, "capacity")
				by := rapid.SampledFrom([]Measure{ByOps, ByBytes, ByService, ByConflicts}).Draw(t, "by")
				exact := &exactCounts{by: by, counts: map[string]float64{}}
				tables := make([]*TopKeys, rapid.IntRange(1, 4).Draw(t, "tables"))
				for i := range tables {
					tables[i] = must(NewTopKeys(by, capacity))
				}
				keys := s.keys(r, rapid.IntRange(1, 600).Draw(t, "operations"), capacity)
				for i, key := range keys {
					a := Access{Key: fmt.Append(nil, key), BytesOut: r.IntN(100), Service: time.Duration(r.IntN(1000)), Conflict: r.IntN(3) == 0}
					tables[i*len(tables)/len(keys)].Add(&a, 1) // tables see different keys
					exact.add(&a)
					if i == len(keys)/2 {
						exact.scale(0.5)
						for _, table := range tables {
							table.Scale(0.5, 0)
						}
					}
				}
				for len(tables) > 1 { // in any order
					r.Shuffle(len(tables), func(i, j int) { tables[i], tables[j] = tables[j], tables[i] })
					o := must(DecodeTopKeys(must(tables[1].AppendBinary(nil))))
					tables[0].Merge(o)
					tables = append(tables[:1], tables[2:]...)
				}
				exact.check(t, tables[0])
				a := Access{Key: []byte("after the merge"), BytesOut: 3, Service: 3, Conflict: true}
				for range 10 {
					tables[0].Add(&a, 1)
					exact.add(&a)
				}
				exact.check(t, tables[0])
				tables[0].Reset()
				if tables[0].Len() != 0 || tables[0].Total() != 0 || tables[0].keyBytes != 0 {
					t.Fatalf("after Reset there are %d keys", tables[0].Len())
				}
			})
		})
	}
}

// By sampling too, the estimate of a hot key is right on average, and as far off as its deviation says.
func TestTopKeys_SampledCountsAreWithinTheirDeviation(t *testing.T) {
	const operations, every = 40_000, 20
	for _, by := range []Measure{ByOps, ByBytes} {
		off, worst := 0, 0.0
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 1))
			top, exact := must(NewTopKeys(by, 256)), &exactCounts{by: by, counts: map[string]float64{}}
			for _, key := range zipfKeys(r, operations) {
				a := Access{Key: fmt.Append(nil, key), BytesOut: 100 + r.IntN(100)}
				exact.add(&a)
				if r.IntN(every) == 0 {
					top.Add(&a, every)
				}
			}
			for _, k := range top.Top(5) {
				distance := math.Abs(k.Count-exact.counts[k.Key]) / k.Deviation
				worst = max(worst, distance)
				if distance > 2 {
					off++
				}
			}
		}
		if worst > 5 || off > 15 { // of 100, five are expected
			t.Errorf("by %v: %d of 100 are off by more than two deviations, the worst by %.1f", by, off, worst)
		}
	}
}

func TestTopKeys_SayWhatAKeyIsAskedAndByWhat(t *testing.T) {
	top := must(NewTopKeys(ByOps, 8))
	for i := range 1000 {
		a := Access{Key: []byte("hot"), Command: "GET", Client: "web", BytesOut: 10, Service: 100 * time.Microsecond}
		switch {
		case i%4 == 0:
			a.Command, a.Write, a.BytesIn = "SET", true, 10
		case i%50 == 1:
			a.Client = fmt.Sprint("job ", i)
			a.Service = 20 * time.Millisecond
		}
		top.Add(&a, 1)
	}
	k := top.Top(1)[0]
	if k.Ops != 1000 || k.Writes != 250 || k.Bytes != 12_500 || k.Mean < 490*time.Microsecond || k.Mean > 510*time.Microsecond {
		t.Errorf("%+v", k)
	}
	if k.P99 < 20*time.Millisecond || k.P99 > 30*time.Millisecond {
		t.Errorf("p99 is %v, want 20 to 30 ms", k.P99)
	}
	if k.Commands[0] != (NameCount{"GET", 750}) || k.Commands[1] != (NameCount{"SET", 250}) || k.Clients[0].Name != "web" || k.Clients[0].Ops < 960 || k.Clients[0].Ops > 980 {
		t.Errorf("asked by %v, %v", k.Commands, k.Clients)
	}
}

func TestNameCounts_NeverTooHighAndTheFrequentAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lists, exact, total := make([]nameCounts, 3), map[string]float64{}, 0.0
		for range rapid.IntRange(0, 100).Draw(t, "operations") {
			name, n := fmt.Sprint(rapid.IntRange(0, 12).Draw(t, "name")), float64(rapid.IntRange(1, 9).Draw(t, "n"))
			lists[rapid.IntRange(0, 2).Draw(t, "list")].add(name, n)
			exact[name] += n
			total += n
		}
		lists[0].merge(&lists[1])
		lists[0].merge(&lists[2])
		found := map[string]float64{}
		for _, n := range lists[0].list() {
			found[n.Name] = n.Ops
		}
		for name, n := range exact {
			if found[name] > n || n-found[name] > total/(keptNames+1) {
				t.Fatalf("%s has %v of %v, reported are %v", name, n, total, found)
			}
		}
	})
}

func TestTopKeys_LongKeysDiffer(t *testing.T) {
	top := must(NewTopKeys(ByOps, 4))
	long := strings.Repeat("\xff", 10_000)
	for _, end := range []string{"a", "b", "b"} {
		top.Add(&Access{Key: []byte(long + end)}, 1)
	}
	if k := top.Top(-1); len(k) != 2 || k[0].Count != 2 || len(k[0].Key) != MaxKeyBytes {
		t.Errorf("%+v", k)
	}
}

func TestTopKeys_HostileKeysTakeNoMoreMemory(t *testing.T) {
	top := must(NewTopKeys(ByOps, 64))
	key := make([]byte, 4*MaxKeyBytes)
	for i := range 50_000 {
		copy(key, fmt.Append(nil, i))
		top.Add(&Access{Key: key, Client: string(key)}, 1)
	}
	if top.Bytes() > 64*(MaxKeyBytes+800) || top.Len() != 64 {
		t.Errorf("%d keys take %d bytes", top.Len(), top.Bytes())
	}
	for range 3 { // what Scale and Reset give up is used again
		top.Scale(0.5, math.MaxFloat64)
		top.Add(&Access{Key: key}, 1)
		top.Reset()
	}
	if top.Bytes() > 64*800 {
		t.Errorf("%d bytes are kept for reuse", top.Bytes())
	}
}

func TestTopKeys_ScaleForgetsWhatIsLeft(t *testing.T) {
	top := must(NewTopKeys(ByOps, 2))
	for range 100 {
		top.Add(&Access{Key: []byte("a")}, 1)
	}
	top.Add(&Access{Key: []byte("b")}, 1)
	top.Add(&Access{Key: []byte("c")}, 1)
	top.Scale(0.25, 1)
	if k := top.Top(-1); len(k) != 1 || k[0].Count != 25 || top.Floor() != 0 || top.Total() != 25.5 {
		t.Errorf("%+v, floor %v, total %v", k, top.Floor(), top.Total())
	}
}

func TestTimeHistogram_AQuantileIsAtMostHalfTooHigh(t *testing.T) {
	for d := time.Duration(2048); d < 16*time.Second; d = d*9/8 + 1 {
		if up := timeOfBin(timeBin(d)); up < d || up > d*3/2 {
			t.Fatalf("%v is counted as %v", d, up)
		}
	}
	var h timeHistogram
	if h.quantile(0.5) != 0 {
		t.Error("there is a quantile of nothing")
	}
	for i := range 1000 {
		h[timeBin(time.Duration(i)*time.Millisecond)]++
	}
	for _, share := range []float64{0.1, 0.5, 0.99, 1} {
		if want, got := time.Duration(share*1000)*time.Millisecond, h.quantile(share); got < want-time.Millisecond || got > want*3/2 {
			t.Errorf("the quantile %v is %v, want %v", share, got, want)
		}
	}
	if h[timeBin(time.Hour)]++; timeBin(math.MaxInt64) != timeBins-1 || timeBin(-1) != 0 {
		t.Error("times at the ends have no bin")
	}
}

func TestTopKeys_BadOptions(t *testing.T) {
	for _, err := range []error{
		func() error { _, err := NewTopKeys(9, 10); return err }(),
		func() error { _, err := NewTopKeys(ByOps, 1); return err }(),
		func() error { _, err := NewTopKeys(ByOps, 1<<30); return err }(),
	} {
		if !errors.Is(err, ErrOptions) {
			t.Error(err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("tables of two measures were merged")
		}
	}()
	must(NewTopKeys(ByOps, 8)).Merge(must(NewTopKeys(ByBytes, 8)))
}

// A table that is decoded is one that could have been written, and merging it breaks nothing.
func FuzzDecodeTopKeys(f *testing.F) {
	top := must(NewTopKeys(ByBytes, 4))
	for i := range 20 {
		top.Add(&Access{Key: fmt.Append(nil, i%7), BytesOut: i, Service: time.Duration(i) * time.Millisecond, Command: "GET", Client: fmt.Sprint(i)}, 2)
	}
	f.Add(must(top.AppendBinary(nil)))
	f.Add(must(must(NewTopKeys(ByOps, 2)).AppendBinary(nil)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		top, err := DecodeTopKeys(b)
		if err != nil {
			if !errors.Is(err, ErrEncoding) {
				t.Fatal(err)
			}
			return
		}
		again := must(DecodeTopKeys(must(top.AppendBinary(nil))))
		if fmt.Sprint(again.Top(-1)) != fmt.Sprint(top.Top(-1)) || again.Total() != top.Total() || again.Floor() != top.Floor() {
			t.Fatalf("%+v became %+v", top.Top(-1), again.Top(-1))
		}
		other := must(NewTopKeys(top.By(), 2))
		for i := range 5 {
			other.Add(&Access{Key: fmt.Append(nil, i), BytesIn: 1, Service: 1}, 1)
		}
		other.Merge(top)
		top.Merge(again)
		top.Scale(0.5, 1)
		for _, table := range []*TopKeys{top, other} {
			if table.Len() > table.Capacity() || math.IsNaN(table.Total()) || math.IsInf(table.Floor(), 0) {
				t.Fatalf("%d keys, total %v, floor %v", table.Len(), table.Total(), table.Floor())
			}
			for _, k := range table.Top(-1) {
				if k.Count < k.Error*(1-1e-9) || math.IsNaN(k.Count) || math.IsInf(k.Count, 0) {
					t.Fatalf("%+v", k)
				}
			}
		}
	})
}

func BenchmarkTopKeys(b *testing.B) {
	for _, s := range streams[:4] {
		if strings.Contains(s.name, ",") {
			continue
		}
		r := rand.New(rand.NewPCG(1, 2))
		accesses := make([]Access, 1<<16)
		for i, key := range s.keys(r, len(accesses), 1024) {
			accesses[i] = Access{Key: fmt.Appendf(nil, "user:%d", key), BytesOut: 100, Service: time.Millisecond, Command: "GET", Client: "web"}
		}
		b.Run("keys="+s.name, func(b *testing.B) {
			top := must(NewTopKeys(ByOps, 1024))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				top.Add(&accesses[i%len(accesses)], 1)
			}
		})
	}
}
