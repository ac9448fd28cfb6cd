package ident

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Order alone shows that values rise, not that they are times.
func TestSortedRandomIntegersAreNotCalledTimes(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		values := drawRandomInts(r, 100)
		slices.Sort(values)
		got := recognise(t, values)
		if got.Kind != OrderedInt && got.Kind != AutoIncrement {
			t.Fatalf("seed %d: got %v, %q", seed, got.Kind, got.Evidence)
		}
	}
	// Here nearly every number is plausible, so that only order is left.
	var values []int64
	for i := range int64(100) {
		values = append(values, i*13_999_999_999_999_993)
	}
	o := Options{Back: 11 * 365 * 24 * time.Hour}
	if got, err := Recognise(values, present, o); err != nil || got.Kind != OrderedInt {
		t.Errorf("got %v, %q, %v", got.Kind, got.Evidence, err)
	}
}

func TestUUIDsOfAnotherVariantHaveNoVersion(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 8))
	var values []string
	for range 100 {
		u := uuidAt(4, present, r)
		u[8] &= 0x3f // the variant of Apollo's identifiers, older than versions
		values = append(values, u.String())
	}
	if got := recognise(t, values); got.Kind != UUIDOther {
		t.Errorf("got %v, %q", got.Kind, got.Evidence)
	}
}

func TestAColumnThatKeepsBringingNewValuesIsNotOfLowCardinality(t *testing.T) {
	var values []string
	for i := range 400 {
		name := fmt.Sprintf("regular %d", i*7%51)
		if i%10 == 0 {
			name = fmt.Sprintf("guest %d", i*7919%10007)
		}
		values = append(values, name)
	}
	if got := recognise(t, values); got.Kind != Opaque {
		t.Errorf("got %v, %q", got.Kind, got.Evidence)
	}
}

func TestARunMayRiseOrFallByLuck(t *testing.T) {
	up := make([]*specimen, 12)
	for i := range up {
		up[i] = intSpecimen(int64(i))
	}
	down := slices.Clone(up)
	slices.Reverse(down)
	lg, _ := math.Lgamma(13)
	want := 2 * math.Exp(-lg) // one order of 12! each way
	for _, run := range [][]*specimen{up, down} {
		if got := trendOf(run); !near(got.chance, want) || !got.follows() {
			t.Errorf("chance %v, want %v", got.chance, want)
		}
	}
}
