package output

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Bytes is a size for people: 640 B, 1.5 KiB, 96 MiB.
func Bytes[N int64 | uint64 | float64](n N) string {
	f, unit := float64(n), 0
	names := [...]string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	for math.Abs(f) >= 1024 && unit < len(names)-1 {
		f /= 1024
		unit++
	}
	decimals := 1
	if unit == 0 || math.Abs(f) >= 99.95 {
		decimals = 0
	}
	return strconv.FormatFloat(f, 'f', decimals, 64) + " " + names[unit]
}

// Count is a number for people: 1,234,567.
func Count[N int | int64 | uint64](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	start := 0
	if text[0] == '-' {
		start = 1
	}
	for at := len(text) - 3; at > start; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// Counted is a number of things for people: 1 row, 1,234 rows. The noun is regular: it takes
// an s, or es after x, s and h.
func Counted[N int | int64 | uint64](n N, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "x"), strings.HasSuffix(noun, "s"), strings.HasSuffix(noun, "h"):
		noun += "es"
	default:
		noun += "s"
	}
	return Count(n) + " " + noun
}

// Seconds is a time span for people: 4.2 ms, 1.5 s, 3m20s, 2h5m, 3d4h.
func Seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case math.IsNaN(s) || math.IsInf(s, 0) || math.Abs(s) > 1e9:
		return "?"
	case s == 0:
		return "0 s"
	case s < 1e-3:
		return strconv.FormatFloat(s*1e6, 'f', 0, 64) + " µs"
	case s < 1:
		return strconv.FormatFloat(s*1e3, 'f', 1, 64) + " ms"
	case s < 60:
		return strconv.FormatFloat(s, 'f', 1, 64) + " s"
	case s < 3600:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case s < 86400:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}

// Bar draws a fraction in so many cells, filled up with dots, so that its end is seen.
func Bar(fraction float64, cells int) string {
	drawn := bar(fraction, cells)
	for n := len([]rune(drawn)); n < cells; n++ {
		drawn += "·"
	}
	return drawn
}
