package output

import (
	"math"
	"strings"
	"unicode/utf8"
)

// Column says how one aspect of a row is shown in a table.
type Column[T any] struct {
	Head string
	// Cell returns the text of a row's cell.
	Cell func(T) string
	// Right aligns the column to the right, as figures are read.
	Right bool
	// Bar, if set, draws a bar of this fraction of full width behind the
	// text. Values outside [0, 1] are drawn as the nearest bound.
	Bar func(T) float64
}

// barCells is the full width of a bar. Ten cells of eight steps each show a
// difference of 1/80, and leave room for columns within [Width].
const barCells = 10

const gap = "  "

// Render is the table that [Write] writes, as a part of a larger text.
func Render[T any](rows []T, columns []Column[T]) string { return render(rows, columns) }

// render lays rows out under their heads. Widths count runes: what we print
// has no wide or combining ones, and keys are escaped before they get here.
func render[T any](rows []T, columns []Column[T]) string {
	cells := make([][]string, len(rows)+1)
	widths := make([]int, len(columns))
	put := func(line, column int, text string) {
		cells[line] = append(cells[line], text)
		widths[column] = max(widths[column], utf8.RuneCountInString(text))
	}
	for c, column := range columns {
		put(0, c, column.Head)
		for r, row := range rows {
			put(r+1, c, column.Cell(row))
		}
	}
	var b strings.Builder
	for line, texts := range cells {
		var text strings.Builder
		for c, column := range columns {
			if c > 0 {
				text.WriteString(gap)
			}
			pad := strings.Repeat(" ", widths[c]-utf8.RuneCountInString(texts[c]))
			if column.Right {
				text.WriteString(pad + texts[c])
			} else {
				text.WriteString(texts[c] + pad)
			}
			if column.Bar == nil {
				continue
			}
			drawn := ""
			if line > 0 {
				drawn = bar(column.Bar(rows[line-1]), barCells)
			}
			text.WriteString(" " + drawn + strings.Repeat(" ", barCells-utf8.RuneCountInString(drawn)))
		}
		b.WriteString(strings.TrimRight(text.String(), " "))
		b.WriteByte('\n')
	}
	return b.String()
}

// eighths are the left blocks of U+2580, from none to seven eighths.
var eighths = [...]string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}

// bar draws a fraction of a bar that is at most cells wide. Anything above
// nothing shows at least its thinnest line, so that small is not taken for none.
func bar(fraction float64, cells int) string {
	if math.IsNaN(fraction) || fraction <= 0 || cells <= 0 {
		return ""
	}
	steps := int(math.Round(min(fraction, 1) * float64(cells) * 8))
	steps = max(steps, 1)
	return strings.Repeat("█", steps/8) + eighths[steps%8]
}
