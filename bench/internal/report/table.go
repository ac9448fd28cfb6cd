package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// table is a Markdown table that also reads well in a terminal: columns are
// padded; text is aligned to the left, figures to the right.
type table struct {
	head []string
	rows [][]string
	// text is the number of leading columns that hold text.
	text int
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write prints the table with an empty line after it. A table without rows
// prints nothing.
func (t *table) write(w io.Writer) {
	if len(t.rows) == 0 {
		return
	}
	width := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell), 2)
		}
	}
	t.line(w, width, t.head)
	for i, n := range width {
		rule := strings.Repeat("-", n+2)
		if i >= t.text {
			rule = rule[1:] + ":"
		}
		fmt.Fprint(w, "|", rule)
	}
	fmt.Fprintln(w, "|")
	for _, row := range t.rows {
		t.line(w, width, row)
	}
	fmt.Fprintln(w)
}

func (t *table) line(w io.Writer, width []int, row []string) {
	for i, cell := range row {
		pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
		if i < t.text {
			cell, pad = pad, cell
		}
		fmt.Fprint(w, "| ", pad, cell, " ")
	}
	fmt.Fprintln(w, "|")
}
