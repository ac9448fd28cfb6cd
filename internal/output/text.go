package output

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Width is how many columns of a terminal our texts and tables keep to.
const Width = 100

// Wrap breaks text between words into lines of at most [Width] columns. Lines
// that continue one are indented, so that notes below each other stay apart. A
// longer word stays whole: it may be copied.
func Wrap(text string) string {
	const indent = "  "
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > Width:
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

// Signed formats f with its sign. What rounds to nothing has none: -0.00 would
// claim a direction that the digits do not show.
func Signed(f float64, decimals int) string {
	text := strconv.FormatFloat(f, 'f', decimals, 64)
	if strings.Trim(text, "-0.") == "" {
		return strings.TrimPrefix(text, "-")
	}
	if f > 0 && text[0] != '+' { // an infinity brings its sign along
		return "+" + text
	}
	return text
}
