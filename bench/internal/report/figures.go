package report

import (
	"fmt"
	"math"

	"github.com/cleavekv/cleave/bench/internal/duel"
)

// figure prints a value in its unit with three significant digits or so.
func figure(v float64, u duel.Unit) string {
	if math.IsNaN(v) {
		return "–"
	}
	switch u {
	case duel.Bytes:
		return fmt.Sprintf("%.1f B", v)
	case duel.Share:
		return fmt.Sprintf("%.1f %%", 100*v)
	}
	for _, scale := range []struct {
		name string
		size float64
	}{{"ns", 1}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}} {
		if in := v / scale.size; in < 999.5 || scale.name == "s" {
			return significant(in) + " " + scale.name
		}
	}
	panic("unreachable: the last scale takes all")
}

func significant(v float64) string {
	switch {
	case math.Abs(v) >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 9.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// ratio prints a ratio as a factor.
func ratio(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return fmt.Sprintf("%.2fx", v)
}

// interval prints the ends of an estimate.
func interval(e duel.Estimate) string {
	if math.IsNaN(e.Lo) {
		return "–"
	}
	return fmt.Sprintf("%.2f–%.2f", e.Lo, e.Hi)
}
