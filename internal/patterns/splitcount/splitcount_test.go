package splitcount

import (
	"errors"
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var drawNumber = rapid.SampledFrom([]int64{0, 1, -1, 7, 1 << 62, -1 << 62, math.MaxInt64, math.MinInt64})

func drawPower(most int) *rapid.Generator[int] {
	return rapid.Map(rapid.IntRange(0, most), func(n int) int { return 1 << n })
}

// sumExactly is the sum of numbers of any size.
func sumExactly(list []int64) *big.Int {
	sum := new(big.Int)
	for _, n := range list {
		sum.Add(sum, big.NewInt(n))
	}
	return sum
}

func TestATotalOverflowsOnlyIfTheSumDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(drawNumber, 0, 9).Draw(t, "parts")
		got, err := Total(list)
		switch want := sumExactly(list); {
		case !want.IsInt64():
			if !errors.Is(err, ErrOverflow) {
				t.Fatalf("%v: %d, %v; want an overflow", list, got, err)
			}
		case err != nil || got != want.Int64():
			t.Fatalf("%v: %d, %v; want %v", list, got, err, want)
		}
	})
}

func TestAResizeKeepsTheSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(drawNumber, 1, 16).Draw(t, "parts")
		to := drawPower(5).Draw(t, "to")
		delta := drawNumber.Draw(t, "delta")
		for _, change := range []struct {
			make  func() ([]int64, error)
			parts int
			sum   *big.Int
		}{
			{func() ([]int64, error) { return Resize(parts, to) }, to, sumExactly(parts)},
			{func() ([]int64, error) { return MoveToFirst(parts, delta) }, len(parts), sumExactly(append([]int64{delta}, parts...))},
		} {
			out, err := change.make()
			if err != nil {
				if !errors.Is(err, ErrOverflow) {
					t.Fatal(err)
				}
				continue
			}
			if sumExactly(out).Cmp(change.sum) != 0 || len(out) != change.parts {
				t.Fatalf("%v becomes %v, want %d parts with the sum %v", parts, out, change.parts, change.sum)
			}
		}
	})
	if _, err := Resize([]int64{1}, 3); err == nil {
		t.Error("three parts are no power of two")
	}
}

func TestAManifestIsReadBack(t *testing.T) {
	for parts := range MaxParts + 1 {
		got, err := ParseManifest(AppendManifest(nil, parts))
		if IsValidCount(parts) != (err == nil) || err == nil && got != parts {
			t.Errorf("%d parts are read as %d, %v", parts, got, err)
		}
	}
	if parts, err := ParseManifest(nil); err != nil || parts != 1 {
		t.Errorf("an absent manifest: %d, %v", parts, err)
	}
}

func FuzzParseManifest(f *testing.F) {
	for _, s := range []string{"", "2", "1", "3", "02", "+2", "2 ", "18446744073709551618", "512"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		parts, err := ParseManifest(append([]byte{}, b...))
		if err == nil && string(AppendManifest(nil, parts)) != string(b) {
			t.Errorf("%q is read as %d", b, parts)
		}
	})
}

// runSizer lets a sizer watch windows in which so many clients add all the time, each add
// taking what took says for a number of parts.
func runSizer(s *Sizer, parts, most, windows int, clients float64, took func(parts int) time.Duration) int {
	const window = 250 * time.Millisecond
	for range windows {
		l := Load{Window: window, AddTime: time.Duration(clients * float64(window))}
		l.Adds = int64(l.AddTime / took(parts))
		parts = s.Step(parts, most, l)
	}
	return parts
}

func TestACounterGrowsOnlyIfThatHelps(t *testing.T) {
	divided := func(parts int) time.Duration { return time.Millisecond / time.Duration(min(parts, 8)) }
	for _, c := range []struct {
		name    string
		clients float64
		took    func(int) time.Duration
		most    int
		want    int
	}{
		{"a crowd that parts divide, as far as they do", 64, divided, 64, 8},
		{"no further than allowed", 64, divided, 4, 4},
		{"a crowd that parts do not help", 64, func(int) time.Duration { return time.Millisecond }, 64, 1},
		{"a crowd that parts make slower", 64, func(p int) time.Duration { return time.Duration(p) * time.Millisecond }, 64, 1},
		{"a few", 2, divided, 64, 1},
		{"as many as share a batch", 12, divided, 64, 4},
	} {
		// Fifty windows, and then to where no trial is under way.
		var s Sizer
		got := runSizer(&s, 1, c.most, 50, c.clients, c.took)
		for s.partsBefore != 0 || s.skipWindows != 0 {
			got = runSizer(&s, got, c.most, 1, c.clients, c.took)
		}
		if got != c.want {
			t.Errorf("%s: %d parts, want %d", c.name, got, c.want)
		}
	}
}

func TestACounterShrinksWhenTheCrowdHasGone(t *testing.T) {
	took := func(parts int) time.Duration { return time.Millisecond / time.Duration(parts) }
	var s Sizer
	if got := runSizer(&s, 1, 64, 50, 256, took); got != 64 {
		t.Fatalf("%d parts, want 64", got)
	}
	if got := runSizer(&s, 64, 64, 100, 0, took); got != 1 {
		t.Errorf("%d parts are left when nobody adds", got)
	}
	s = Sizer{}
	if got := s.Step(64, 16, Load{Window: time.Second}); got != 16 {
		t.Errorf("%d parts, where 16 are the most", got)
	}
}

// Whatever the load, the count stays within its bounds and changes by a factor of two.
func TestASizerStaysWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Sizer
		parts, most := 1, drawPower(8).Draw(t, "most")
		for range rapid.IntRange(1, 60).Draw(t, "windows") {
			l := Load{time.Second, rapid.Int64Range(0, 1000).Draw(t, "adds"), time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "waited"))}
			next := s.Step(parts, most, l)
			if !IsValidCount(next) || next > most || next > 2*parts || 2*next < parts {
				t.Fatalf("from %d to %d of %d", parts, next, most)
			}
			parts = next
		}
	})
}
