// Package output writes what a command found: as a table for people, as JSON
// or JSON lines for programs.
//
// A command fills a slice of rows, says once how a row is shown, and calls
// [WriteRows]. The JSON forms encode the rows themselves, so their fields are the
// schema that scripts rely on; the table is free to show less, or better.
package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Format is a form of output. The zero value is [Table]. It is a pflag value,
// so a command takes it as a flag.
type Format uint8

// The forms of output.
const (
	Table Format = iota // aligned columns with bars, for people
	JSON                // one array
	JSONL               // one object a line
)

var formatNames = [...]string{Table: "table", JSON: "json", JSONL: "jsonl"}

// FormatNames returns what [Format.Set] takes.
func FormatNames() []string { return slices.Clone(formatNames[:]) }

// String returns the word that [Format.Set] takes.
func (f Format) String() string {
	if int(f) < len(formatNames) {
		return formatNames[f]
	}
	return fmt.Sprintf("Format(%d)", uint8(f))
}

// Set parses a word. It is part of the flag interface, so the caller adds the
// name of the flag and the word to an error.
func (f *Format) Set(word string) error {
	for i, name := range formatNames {
		if word == name {
			*f = Format(i)
			return nil
		}
	}
	return errors.New("want table, json or jsonl")
}

// Type names the value in help texts. It is part of the flag interface.
func (f *Format) Type() string { return "table|json|jsonl" }

// WriteRows writes rows to w in format f. Columns matter to the table alone, and so does the width of
// the screen, 0 if w is none: the reader of a pipe gets all of it.
func WriteRows[T any](w io.Writer, f Format, width int, rows []T, columns []Column[T]) error {
	switch f {
	case Table:
		_, err := io.WriteString(w, renderTable(width, rows, columns))
		return err
	case JSON:
		if rows == nil {
			rows = []T{} // an empty result is [], never null
		}
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(rows)
	case JSONL:
		enc := json.NewEncoder(w)
		for _, row := range rows {
			if err := enc.Encode(row); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("write output: unknown format %d", f)
}

// WriteOne writes a single thing: as an object in JSON, on a line in JSON lines, and as the
// text that show makes for people.
func WriteOne[T any](w io.Writer, f Format, thing T, show func(T) string) error {
	switch f {
	case Table:
		_, err := io.WriteString(w, show(thing))
		return err
	case JSON, JSONL:
		enc := json.NewEncoder(w)
		if f == JSON {
			enc.SetIndent("", "  ")
		}
		return enc.Encode(thing)
	}
	return fmt.Errorf("write output: unknown format %d", f)
}

// Column specifies how one aspect of a row is shown in a table.
type Column[T any] struct {
	Head string
	// Cell returns the text of a row's cell.
	Cell func(T) string
	// Right aligns the column to the right, as figures are read.
	Right bool
	// Bar, if set, draws a bar of this fraction of full width behind the
	// text. Values outside [0, 1] are drawn as the nearest bound.
	Bar func(T) float64
	// CutPriority allows cells to be cut where the screen is too narrow for the table: those of
	// the columns with the highest first. Default 0, never: an id that was cut names nothing.
	CutPriority int
	// DropPriority allows a column to be left out where that is still not enough: the one with the highest first.
	// Default 0, never. The first column is never left out.
	DropPriority int
}

// barCells is the full width of a bar. Ten cells of eight steps each show a
// difference of 1/80, and leave room for columns within [MaxWidth].
const barCells = 10

const columnGap = "  "

// minCellWidth is how many columns a cell keeps that is cut: fewer are of no use.
const minCellWidth = 10

// RenderTable is the table that [WriteRows] writes, as a part of a larger text.
func RenderTable[T any](width int, rows []T, columns []Column[T]) string {
	return renderTable(width, rows, columns)
}

// renderTable lays rows out under their heads, on a screen that has so many columns; 0 for no screen,
// and then nothing is cut.
func renderTable[T any](width int, rows []T, columns []Column[T]) string {
	cells := make([][]string, len(rows)+1)
	widths := make([]int, len(columns))
	put := func(line, column int, text string) {
		text = EscapeUnprintable(strings.ReplaceAll(text, "\n", " "))
		cells[line] = append(cells[line], text)
		widths[column] = max(widths[column], TextWidth(text))
	}
	for c, column := range columns {
		put(0, c, column.Head)
		for r, row := range rows {
			put(r+1, c, column.Cell(row))
		}
	}
	bars := fitColumns(width, widths, columns)
	var b strings.Builder
	for line, texts := range cells {
		var text strings.Builder
		for c, column := range columns {
			if widths[c] == droppedWidth {
				continue
			}
			if c > 0 {
				text.WriteString(columnGap)
			}
			cell := Clip(texts[c], widths[c])
			pad := strings.Repeat(" ", widths[c]-TextWidth(cell))
			if column.Right {
				text.WriteString(pad + cell)
			} else {
				text.WriteString(cell + pad)
			}
			if column.Bar == nil || !bars {
				continue
			}
			drawn := ""
			if line > 0 {
				drawn = drawBar(column.Bar(rows[line-1]), barCells)
			}
			text.WriteString(" " + drawn + strings.Repeat(" ", barCells-TextWidth(drawn)))
		}
		b.WriteString(strings.TrimRight(text.String(), " "))
		b.WriteByte('\n')
	}
	return b.String()
}

// droppedWidth is the width of a column that is left out.
const droppedWidth = -1

// fitColumns makes columns narrower until the table fits on a screen. First the bars go, which say what a
// figure beside them says, then cells are cut, then columns are left out. What does not fit even so is left to the
// terminal.
func fitColumns[T any](screen int, widths []int, columns []Column[T]) (bars bool) {
	total, drawn := len(columnGap)*(len(columns)-1), 0
	for c := range columns {
		total += widths[c]
		if columns[c].Bar != nil {
			drawn += 1 + barCells
		}
	}
	if screen <= 0 || total+drawn <= screen {
		return true
	}
	order := make([]int, 0, len(columns))
	for c := range columns {
		if columns[c].CutPriority > 0 {
			order = append(order, c)
		}
	}
	slices.SortStableFunc(order, func(x, y int) int { return columns[y].CutPriority - columns[x].CutPriority })
	for _, c := range order {
		least := max(minCellWidth, TextWidth(columns[c].Head))
		if cut := min(total-screen, widths[c]-least); cut > 0 {
			widths[c] -= cut
			total -= cut
		}
	}
	for total > screen {
		drop := 0
		for c := range columns {
			if widths[c] != droppedWidth && columns[c].DropPriority > columns[drop].DropPriority {
				drop = c
			}
		}
		if drop == 0 {
			break
		}
		total -= widths[drop] + len(columnGap)
		widths[drop] = droppedWidth
	}
	return false
}

// eighthBlocks are the left blocks of U+2580, from none to seven eighths.
var eighthBlocks = [...]string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}
