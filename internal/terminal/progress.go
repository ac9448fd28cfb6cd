package terminal

import (
	"fmt"
	"unicode/utf8"

	"github.com/cleavekv/cleave/internal/output"
)

// Progress is a line that is drawn anew while work goes on. The zero value of its
// fields but t draws nothing yet.
type Progress struct {
	t     *Terminal
	drawn bool
}

// Progress begins a line of progress.
func (t *Terminal) Progress() *Progress { return &Progress{t: t} }

// Show draws the line: a bar if the fraction is known, which one below 0 is not, and a
// text. Without a terminal it draws nothing.
func (p *Progress) Show(fraction float64, text string) {
	if !p.t.Shown {
		return
	}
	if fraction >= 0 {
		text = fmt.Sprintf("%s %3.0f %%  %s", output.Bar(fraction, 20), 100*min(fraction, 1), text)
	}
	if utf8.RuneCountInString(text) > output.Width {
		text = string([]rune(text)[:output.Width])
	}
	fmt.Fprintf(p.t.out, "\r\x1b[K%s", text)
	p.drawn = true
}

// End leaves the line as it is and goes on below, or removes it.
func (p *Progress) End(keep bool) {
	if !p.drawn {
		return
	}
	if keep {
		fmt.Fprintln(p.t.out)
	} else {
		fmt.Fprint(p.t.out, "\r\x1b[K")
	}
	p.drawn = false
}
