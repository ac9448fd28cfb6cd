package demo

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/cleavekv/cleave/internal/ops/output"
)

const (
	defaultWidth = 80
	// indent is that of all below a heading.
	indent = "  "
)

// script prints a story: headings with numbers, paragraphs, tables, and a line of progress in between.
type script struct {
	out      io.Writer
	width    int
	bold     bool
	progress StatusLine
	story    Story
	startsAt time.Time
	headings int
}

func newScript(s Story, o Options) *script {
	t := &script{out: o.Out, width: cmp.Or(o.Width, defaultWidth), bold: o.Bold, progress: o.Progress, story: s, startsAt: time.Now()}
	if t.out == nil {
		t.out = io.Discard
	}
	return t
}

// title prints what story it is, and for how long it plays.
func (t *script) title() {
	t.print(t.emphasize(t.story.Name) + "\n")
	t.print(wrapIndented(t.story.About, "", t.width))
}

// heading begins a part of the story.
func (t *script) heading(text string) {
	t.headings++
	t.print("\n" + t.emphasize(fmt.Sprintf("%d. %s", t.headings, text)) + "\n")
}

// say prints a paragraph.
func (t *script) say(format string, args ...any) {
	t.print(wrapIndented(fmt.Sprintf(format, args...), indent, t.width))
}

// line prints a line as it is, such as a command.
func (t *script) line(format string, args ...any) {
	t.print(indent + output.EscapeUnprintable(fmt.Sprintf(format, args...)) + "\n")
}

// item prints a paragraph behind a word, such as what was decided. Its further lines begin below its first one.
func (t *script) item(word, text string) {
	const column = 11
	lines := strings.Split(strings.TrimRight(wrapIndented(text, strings.Repeat(" ", column), t.width), "\n"), "\n")
	lines[0] = fmt.Sprintf("%-*s%s", column, indent+word, strings.TrimLeft(lines[0], " "))
	t.print(strings.Join(lines, "\n") + "\n")
}

// table prints figures side by side.
func (t *script) table(c Comparison) {
	columns := []output.Column[Figure]{{Head: "", Cell: func(f Figure) string { return f.Name }}}
	for i, head := range c.Columns {
		columns = append(columns, output.Column[Figure]{Head: head, Right: true, Cell: func(f Figure) string { return f.text(i) }})
	}
	text := output.RenderTable(t.width-len(indent), c.Figures, columns)
	t.print("\n")
	for line := range strings.Lines(text) {
		t.print(indent + line)
	}
}

// show draws the line of progress.
func (t *script) show(text string) {
	if t.progress != nil {
		t.progress.Show(min(float64(time.Since(t.startsAt))/float64(t.story.Takes), 0.99), text)
	}
}

// endProgress removes the line of progress.
func (t *script) endProgress() {
	if t.progress != nil {
		t.progress.End(false)
	}
}

func (t *script) print(text string) {
	t.endProgress()
	_, _ = io.WriteString(t.out, text) // a reader that is gone misses the rest
}

func (t *script) emphasize(text string) string {
	if !t.bold {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}

// wrapIndented breaks a text into lines that begin with an indent.
func wrapIndented(text, indent string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(output.WrapTo(output.EscapeUnprintable(text), width-len(indent))) {
		b.WriteString(indent + strings.TrimLeft(strings.TrimRight(line, "\n"), " ") + "\n")
	}
	return b.String()
}

// drawShares draws a column for each share, the highest as high as there is room.
func drawShares(shares []float64) string {
	const blocks = " ▁▂▃▄▅▆▇█"
	heights := []rune(blocks)
	highest := 0.0
	for _, s := range shares {
		highest = max(highest, s)
	}
	var b strings.Builder
	for _, s := range shares {
		n := 0
		if highest > 0 {
			n = int(s / highest * float64(len(heights)-1))
		}
		if n == 0 {
			b.WriteString("·") // nothing, or next to nothing
			continue
		}
		b.WriteRune(heights[n])
	}
	return b.String()
}

// The forms of figures. What there is none of in a column is not a number.
func asPercent(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }
func asCount(x float64) string   { return output.Count(int64(x + 0.5)) }
func asFactor(x float64) string  { return fmt.Sprintf("%.1f", x) }
func asTime(x float64) string    { return output.Seconds(x) }

// text is the figure of a column.
func (f *Figure) text(column int) string {
	if math.IsNaN(f.Values[column]) {
		return "-"
	}
	return f.format(f.Values[column])
}
