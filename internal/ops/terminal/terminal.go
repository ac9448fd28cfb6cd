// Package terminal answers one question: is there a person, and how does a command talk
// to them?
//
// A question is put only to a person: without a terminal on both sides it is
// [ErrNoTerminal], so that a script never hangs and never agrees by accident. Progress is one
// line that is drawn anew at a terminal, and nothing elsewhere. Colours obey NO_COLOR.
//
// It writes to one stream, that of errors: what a command found is not its business.
package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/cleavekv/cleave/internal/ops/output"
)

// ErrNoTerminal means that there is no terminal for a prompt: say yes beforehand.
var ErrNoTerminal = errors.New("there is no terminal to ask at")

// Terminal is where a person may be.
type Terminal struct {
	in  *bufio.Reader
	out io.Writer
	// Interactive reports whether both sides are a terminal, and OutputIsTerminal whether the output is.
	Interactive, OutputIsTerminal bool
}

// New looks at the streams of a command.
func New(in io.Reader, out io.Writer) *Terminal {
	shown := isTerminal(out)
	return &Terminal{in: bufio.NewReader(in), out: out, OutputIsTerminal: shown, Interactive: shown && isTerminal(in)}
}

// NewForTest is a terminal whose nature is known, for tests.
func NewForTest(in io.Reader, out io.Writer, person bool) *Terminal {
	return &Terminal{in: bufio.NewReader(in), out: out, Interactive: person, OutputIsTerminal: person}
}

// isTerminal reports whether a stream is a file that is one.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Width is how many columns a stream has: 0 if it is no terminal, or one that does not report it.
func Width(stream any) int {
	if !isTerminal(stream) {
		return 0
	}
	columns, _, err := term.GetSize(int(stream.(*os.File).Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// Confirm asks a question. Only y or yes is one. If ctx ends before there is an answer, it returns
// the error of ctx; what is typed later is lost, so the command ends then.
func (t *Terminal) Confirm(ctx context.Context, question string) (bool, error) {
	if !t.Interactive {
		return false, ErrNoTerminal
	}
	fmt.Fprintf(t.out, "%s [y/N] ", question)
	type answer struct {
		line string
		err  error
	}
	read := make(chan answer, 1)
	go func() { // a read of a terminal cannot be ended otherwise
		line, err := t.in.ReadString('\n')
		read <- answer{line, err}
	}()
	var got answer
	select {
	case got = <-read:
	case <-ctx.Done():
		fmt.Fprintln(t.out) // what follows begins on a line of its own
		return false, ctx.Err()
	}
	if got.err != nil && !errors.Is(got.err, io.EOF) {
		return false, got.err
	}
	if got.err != nil {
		fmt.Fprintln(t.out) // after an end of file the cursor is still on the prompt's line
	}
	said := strings.ToLower(strings.TrimSpace(got.line))
	return said == "y" || said == "yes", nil
}

// CanColor reports whether a stream takes colours: a terminal, unless NO_COLOR is set to
// anything, or the terminal is a dumb one.
func CanColor(out io.Writer) bool {
	return isTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Progress is a line that is drawn anew while work goes on. The zero value of its
// fields but t draws nothing yet.
type Progress struct {
	t     *Terminal
	drawn bool
}

// NewProgress begins a line of progress.
func (t *Terminal) NewProgress() *Progress { return &Progress{t: t} }

// lineWidth is how many a line may have that is drawn anew: one that the terminal breaks would leave
// its first half behind. The last column stays free, as some terminals break behind it.
func (t *Terminal) lineWidth() int {
	if n := Width(t.out); n > 1 {
		return n - 1
	}
	return 79
}

// Show draws the line: a bar if the fraction is known, which one below 0 is not, and a
// text. Without a terminal it draws nothing.
func (p *Progress) Show(fraction float64, text string) {
	if !p.t.OutputIsTerminal {
		return
	}
	if fraction >= 0 {
		text = fmt.Sprintf("%s %3.0f %%  %s", output.RenderBar(fraction, 20), 100*min(fraction, 1), text)
	}
	fmt.Fprintf(p.t.out, "\r\x1b[K%s", output.Clip(output.EscapeUnprintable(text), p.t.lineWidth()))
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

// ReadKeys returns the keys that a person presses, each when it is pressed and without an echo, until restore is
// called. Without a terminal no key comes.
func (t *Terminal) ReadKeys(in any) (keys <-chan byte, restore func()) {
	pressed := make(chan byte)
	f, ok := in.(*os.File)
	if !ok || !t.Interactive {
		return pressed, func() {}
	}
	before, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return pressed, func() {}
	}
	go func() { // a read of a terminal cannot be ended otherwise
		for {
			b, err := t.in.ReadByte()
			if err != nil {
				return
			}
			pressed <- b
		}
	}()
	return pressed, func() { _ = term.Restore(int(f.Fd()), before) }
}

// Height is how many lines a stream has: 0 if it is no terminal, or one that does not report it.
func Height(stream any) int {
	if !isTerminal(stream) {
		return 0
	}
	_, lines, err := term.GetSize(int(stream.(*os.File).Fd()))
	if err != nil {
		return 0
	}
	return lines
}
