package output

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestWrapKeepsEveryWordAndTheWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.StringMatching(`[a-z±:]{1,60}`)).Draw(t, "words")
		wrapped := Wrap(strings.Join(words, " "))
		if got := strings.Fields(wrapped); strings.Join(got, " ") != strings.Join(words, " ") {
			t.Fatalf("%q became %q", words, got)
		}
		lines := strings.Split(wrapped, "\n")
		for i, line := range lines {
			if utf8.RuneCountInString(line) > Width {
				t.Fatalf("%q is wider than %d", line, Width)
			}
			if i == 0 {
				continue
			}
			if !strings.HasPrefix(line, "  ") {
				t.Fatalf("%q continues a line and is not indented", line)
			}
			if first := strings.Fields(line)[0]; utf8.RuneCountInString(lines[i-1]+" "+first) <= Width {
				t.Fatalf("%q would fit behind %q", first, lines[i-1])
			}
		}
	})
}

func TestWrapLeavesALongWordWhole(t *testing.T) {
	long := strings.Repeat("x", Width+1)
	if got, want := Wrap("a "+long+" b"), "a\n  "+long+"\n  b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSignedShowsNoSignOfNothing(t *testing.T) {
	for _, c := range []struct {
		f        float64
		decimals int
		want     string
	}{
		{-0.004, 2, "0.00"},
		{0.004, 2, "0.00"},
		{math.Copysign(0, -1), 1, "0.0"},
		{-0.4, 0, "0"},
		{-0.006, 2, "-0.01"},
		{0.006, 2, "+0.01"},
		{77.81, 2, "+77.81"},
		{-100, 0, "-100"},
		{math.Inf(1), 2, "+Inf"},
		{math.Inf(-1), 2, "-Inf"},
		{math.NaN(), 2, "NaN"},
	} {
		if got := Signed(c.f, c.decimals); got != c.want {
			t.Errorf("Signed(%v, %d) = %q, want %q", c.f, c.decimals, got, c.want)
		}
	}
}
