package output

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// MaxWidth is how many columns of a terminal our texts and tables keep to.
const MaxWidth = 100

// Wrap breaks text between words into lines of at most [MaxWidth] columns. Lines
// that continue one are indented, so that notes below each other stay apart. A
// longer word stays whole: it may be copied.
func Wrap(text string) string { return WrapTo(text, MaxWidth) }

// WrapTo is [Wrap] for a screen of so many columns; for one that is wider than [MaxWidth], or whose
// width is not known and 0, lines are no longer than that.
func WrapTo(text string, screen int) string {
	if screen <= 0 || screen > MaxWidth {
		screen = MaxWidth
	}
	const indent = "  "
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		n := TextWidth(word)
		switch {
		case i == 0:
		case column+1+n > screen:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

// Rate is a count a second, rounded, with its digits in groups.
func Rate(perSecond float64) string { return Count(int64(math.Round(perSecond))) }

// ShellWord writes text so that a shell takes it for one word.
func ShellWord(text string) string {
	isPlain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("/._-+:@%,=", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !isPlain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// FormatSigned formats f with its sign. What rounds to nothing has none: -0.00 would
// claim a direction that the digits do not show.
func FormatSigned(f float64, decimals int) string {
	text := strconv.FormatFloat(f, 'f', decimals, 64)
	if strings.Trim(text, "-0.") == "" {
		return strings.TrimPrefix(text, "-")
	}
	if f > 0 && text[0] != '+' { // an infinity brings its sign along
		return "+" + text
	}
	return text
}

// ellipsis stands for what was cut off.
const ellipsis = "…"

// runeWidth is how many columns of a terminal a rune takes.
func runeWidth(r rune) int {
	switch {
	case r < 0x300: // all below are narrow, and most texts have nothing else
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// TextWidth is how many columns of a terminal a text of one line takes.
func TextWidth(text string) (n int) {
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

// Clip cuts a text that takes more columns than there are, and ends it with an ellipsis. Without a
// width, 0, there is room for all of it.
func Clip(text string, width int) string {
	if width <= 0 || TextWidth(text) <= width {
		return text
	}
	n := 0
	for i, r := range text {
		if n += runeWidth(r); n > width-1 {
			return text[:i] + ellipsis
		}
	}
	return text
}

// EscapeUnprintable is a text that no terminal takes for more than text: bytes of what is not printed, such
// as those of escape sequences, are written \xNN. Ends of lines stay.
func EscapeUnprintable(text string) string {
	if strings.IndexFunc(text, isUnprintable) < 0 {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		n := utf8.RuneLen(r)
		if r == utf8.RuneError {
			_, n = utf8.DecodeRuneInString(text[i:])
		}
		if r != utf8.RuneError && !isUnprintable(r) || r == utf8.RuneError && n > 1 {
			b.WriteRune(r)
			continue
		}
		for _, c := range []byte(text[i : i+n]) {
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
}

// isUnprintable reports whether a rune is not printed, or may stand for a byte that is no text.
func isUnprintable(r rune) bool { return r != '\n' && (r == utf8.RuneError || !unicode.IsPrint(r)) }

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

// Rough is an estimate rounded to two digits: the others would claim what is not known, and a later estimate with other
// ones would look like a loss.
func Rough[N int | int64 | uint64](n N) N {
	unit := N(1)
	for n/unit >= 100 {
		unit *= 10
	}
	return (n + unit/2) / unit * unit
}

// Plural is a number of things for people: 1 row, 1,234 rows. The noun is regular: it takes
// an s, or es after x, s and h.
func Plural[N int | int64 | uint64](n N, noun string) string {
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

// RenderBar draws a fraction in so many cells, filled up with dots, so that its end is seen.
func RenderBar(fraction float64, cells int) string {
	drawn := drawBar(fraction, cells)
	for n := len([]rune(drawn)); n < cells; n++ {
		drawn += "·"
	}
	return drawn
}

// drawBar draws a fraction of a bar that is at most cells wide. Anything above
// nothing shows at least its thinnest line, so that small is not taken for none.
func drawBar(fraction float64, cells int) string {
	if math.IsNaN(fraction) || fraction <= 0 || cells <= 0 {
		return ""
	}
	steps := int(math.Round(min(fraction, 1) * float64(cells) * 8))
	steps = max(steps, 1)
	return strings.Repeat("█", steps/8) + eighthBlocks[steps%8]
}
