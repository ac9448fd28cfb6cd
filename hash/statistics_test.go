package hash

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func TestLanesCountLikeSeparateCounters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l bitCounters
		var want [64]int
		for _, word := range rapid.SliceOf(rapid.Uint64()).Draw(t, "words") {
			l.add(word)
			for j := range want {
				want[j] += int(word >> j & 1)
			}
		}
		for j := range want {
			if got := l.count(j); got != want[j] {
				t.Fatalf("counter %d is %d, want %d", j, got, want[j])
			}
		}
	})
}

// newFairMatrix fills a matrix with counts that a fair coin would give, changed by
// edit.
func newFairMatrix(edit func(i, j, fair int) int) *flipMatrix {
	const samples, keyBytes = 1024, 16
	m := &flipMatrix{keyBytes: keyBytes, samples: samples, hashBits: 64, flips: make([]bitCounters, 8*keyBytes)}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range m.flips {
		for j := range 64 {
			fair := 0
			for range samples / 64 {
				for word := rng.Uint64(); word != 0; word &= word - 1 {
					fair++
				}
			}
			n := edit(i, j, fair)
			for k := range m.flips[i] {
				m.flips[i][k] |= uint64(n>>k&1) << j
			}
		}
	}
	return m
}

// Each fault is small enough that one of the three tests alone sees it.
func TestEachAvalancheTestFindsItsFaultOnBothSides(t *testing.T) {
	only := func(i, j, n, fair int) int {
		if i == 77 && j == 13 {
			return n
		}
		return fair
	}
	const alpha = 1e-7
	limit := zLimit(alpha)
	for _, c := range []struct {
		name                string
		edit                func(i, j, fair int) int
		mean, worst, spread bool // which tests must raise the alarm
	}{
		{"fair coins", func(_, _, fair int) int { return fair }, false, false, false},
		{"one pair flips too often", func(i, j, fair int) int { return only(i, j, 700, fair) }, false, true, false},
		{"one pair flips too rarely", func(i, j, fair int) int { return only(i, j, 324, fair) }, false, true, false},
		{"all flip a little too often", func(_, _, fair int) int { return fair + 2 }, true, false, false},
		{"all flip a little too rarely", func(_, _, fair int) int { return fair - 2 }, true, false, false},
		{"all exactly one half", func(_, _, _ int) int { return 512 }, false, false, true},
		{"scatter too wide", func(i, j, _ int) int { return 512 + 40 - 80*((i+j)%2) }, false, false, true},
	} {
		a := newFairMatrix(c.edit).toAvalanche(alpha)
		mean := a.MeanZ > limit || a.MeanZ < -limit
		worst := a.Worst > 0.5+a.Noise || a.Worst < 0.5-a.Noise
		spread := a.SpreadZ > limit || a.SpreadZ < -limit
		if mean != c.mean || worst != c.worst || spread != c.spread {
			t.Errorf("%s: mean %v, worst %v, spread %v; want %v, %v, %v: %+v", c.name, mean, worst, spread, c.mean, c.worst, c.spread, a)
		}
		if want := c.mean || c.worst || c.spread; (a.Verdict == VerdictBad) != want {
			t.Errorf("%s: %v, want bad: %v", c.name, a.Verdict, want)
		}
		if c.worst && (a.WorstKeyBit != 77 || a.WorstHashBit != 13) {
			t.Errorf("%s: found at %d, %d", c.name, a.WorstKeyBit, a.WorstHashBit)
		}
	}
}

func TestMatrixShowsWhichKeyBitReachesWhichHashBit(t *testing.T) {
	identity := Function{Name: "identity", KeyBytes: 8, Sum: binary.LittleEndian.Uint64}
	m, err := Matrix(identity, quickOptions)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range m {
		for j, p := range row {
			want := 0.0
			if i == j {
				want = 1
			}
			if p != want {
				t.Fatalf("flipping key bit %d flips hash bit %d with probability %v, want %v", i, j, p, want)
			}
		}
	}
	if len(m) != 64 || len(m[0]) != 64 {
		t.Errorf("matrix is %d x %d, want 64 x 64", len(m), len(m[0]))
	}
	if _, err := Matrix(Function{}, quickOptions); !errors.Is(err, ErrFunction) {
		t.Errorf("a function without Sum: %v", err)
	}
}
