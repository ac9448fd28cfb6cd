package heat

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func numberKey(i int) []byte { return binary.BigEndian.AppendUint32([]byte("k"), uint32(i)) }

func TestRanges_Cuts_SharesAreThoseOfTheLoad(t *testing.T) {
	r, err := NewRanges(4096, 1)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	const keys = 1000
	for range 50_000 {
		k := rng.IntN(keys)
		if rng.IntN(10) < 3 {
			k = 500 // 30 % of all
		}
		r.Add(&Access{Key: numberKey(k), Write: true}, 1)
	}
	cuts, samples := r.Cuts(numberKey(0), nil, 16)
	if samples < 4000 || len(cuts) < 12 || len(cuts) > 40 {
		t.Fatalf("%d cuts of %d samples", len(cuts), samples)
	}
	isAt, isBehind := false, false
	for i, c := range cuts {
		k := int(binary.BigEndian.Uint32(c.Key[1:]))
		want := 0.7 * float64(k) / keys
		if k > 500 {
			want += 0.3
		}
		if math.Abs(c.Before-want) > 0.04 {
			t.Errorf("cut %d, at key %d: %.3f of the load lies before, want %.3f", i, k, c.Before, want)
		}
		isAt, isBehind = isAt || k == 500, isBehind || k > 500 && k < 520 && i > 0 && isAt
	}
	if !isAt || !isBehind {
		t.Errorf("the hot key is not alone between two cuts: %v %v", isAt, isBehind)
	}
	if cuts, samples := r.Cuts(numberKey(2000), nil, 16); len(cuts) != 0 || samples != 0 {
		t.Errorf("a range without load has %d cuts of %d samples", len(cuts), samples)
	}
}

func TestRanges_Edge_TellsOrderOfTimeFromOtherLoads(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	counter := 0
	for _, c := range []struct {
		name     string
		next     func() []byte
		min, max float64
	}{
		{"counter", func() []byte { counter++; return fmt.Appendf(nil, "m%012d", counter) }, 0.95, 1},
		{"counter before other keys", func() []byte {
			if rng.IntN(10) == 0 {
				return fmt.Appendf(nil, "z%d", rng.IntN(1e6))
			}
			counter++
			return fmt.Appendf(nil, "m%012d", counter)
		}, 0.8, 0.95},
		{"uniform", func() []byte { return fmt.Appendf(nil, "m%012d", rng.IntN(1e9)) }, 0, 0.2},
		{"a counter for each of 100 tenants", func() []byte { counter++; return fmt.Appendf(nil, "%02d%012d", rng.IntN(100), counter) }, 0, 0.2},
		{"one hot key among others", func() []byte { return fmt.Appendf(nil, "m%d", max(0, rng.IntN(1000)-900)) }, 0, 0.2},
	} {
		earlier, _ := NewRanges(2048, 1)
		newest, _ := NewRanges(2048, 2)
		for range 1000 {
			earlier.Add(&Access{Key: c.next(), Write: true}, 128)
		}
		for range 200 {
			newest.Add(&Access{Key: c.next(), Write: true}, 128)
		}
		share, samples := newest.Edge(earlier, nil, nil)
		if share < c.min || share > c.max || samples != 200 {
			t.Errorf("%s: %.2f of %d writes are at the edge, want %.2f to %.2f of 200", c.name, share, samples, c.min, c.max)
		}
	}
	empty, _ := NewRanges(2048, 1)
	newest, _ := NewRanges(2048, 2)
	newest.Add(&Access{Key: []byte("x"), Write: true}, 1)
	if share, samples := newest.Edge(empty, nil, nil); share != 0 || samples != 0 {
		t.Errorf("with nothing known before: %v of %d", share, samples)
	}
}

func TestMeter_Newest_HasTheLastIntervalAlone(t *testing.T) {
	m, err := NewMeter(Options{Every: 1})
	if err != nil {
		t.Fatal(err)
	}
	r := m.NewRecorder()
	for i := range 3 {
		for range 10 * (i + 1) {
			r.Observe(&Access{Key: numberKey(i), Write: true})
		}
		m.Collect(time.Duration(i) * time.Second)
		newest, at := m.Newest()
		if got := newest.Total().Writes; got != float64(10*(i+1)) || at != time.Duration(i)*time.Second {
			t.Errorf("interval %d: %v writes at %v", i, got, at)
		}
		if got := newest.Load(numberKey(i), nil).Writes; got != float64(10*(i+1)) {
			t.Errorf("interval %d: %v writes of its own key", i, got)
		}
	}
	if cuts, samples := m.Cuts(numberKey(0), nil, 2); samples != 60 || len(cuts) != 1 {
		t.Errorf("%v of %d samples", cuts, samples)
	}
}
