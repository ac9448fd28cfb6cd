// Package terminal answers one question: is there a person, and how does a command talk
// to them?
//
// A question is put only to a person: without a terminal on both sides it is
// [ErrNobody], so that a script never hangs and never agrees by accident. Progress is one
// line that is drawn anew at a terminal, and nothing elsewhere. Colours obey NO_COLOR.
//
// It writes to one stream, that of errors: what a command found is not its business.
package terminal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// ErrNobody means that there is nobody to ask: say yes beforehand.
var ErrNobody = errors.New("there is no terminal to ask at")

// Terminal is where a person may be.
type Terminal struct {
	in  *bufio.Reader
	out io.Writer
	// Person tells that both sides are a terminal, and Shown that the output is.
	Person, Shown bool
}

// New looks at the streams of a command.
func New(in io.Reader, out io.Writer) *Terminal {
	shown := isTerminal(out)
	return &Terminal{in: bufio.NewReader(in), out: out, Shown: shown, Person: shown && isTerminal(in)}
}

// With is a terminal whose nature is known, for tests.
func With(in io.Reader, out io.Writer, person bool) *Terminal {
	return &Terminal{in: bufio.NewReader(in), out: out, Person: person, Shown: person}
}

// isTerminal tells whether a stream is a file that is one.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && fileIsTerminal(f)
}

// Confirm asks a question. Only y or yes is one.
func (t *Terminal) Confirm(question string) (bool, error) {
	if !t.Person {
		return false, ErrNobody
	}
	fmt.Fprintf(t.out, "%s [y/N] ", question)
	line, err := t.in.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	if err != nil {
		fmt.Fprintln(t.out) // whoever leaves with an end of file is on the same line
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
}

// Colored tells whether a stream takes colours: a terminal, unless NO_COLOR is set to
// anything, or the terminal is a dumb one.
func Colored(out io.Writer) bool {
	return isTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
