package csvfile

import (
	"bytes"
	"fmt"

	"github.com/cleavekv/cleave/advisor"
)

// foundEnd is where a record ends.
type foundEnd struct {
	size int
	// more means that the record goes on behind the text.
	more bool
	// problem is what is wrong; the size is then that of the first line, because the next may be fine.
	problem string
	field   int
}

// findEnd finds the end of the record that text begins with, some of whose fields may be in quotes.
// However much of the input is in text, the answer is the same, or more.
func findEnd(text []byte, comma byte, ended bool) foundEnd {
	line := bytes.IndexByte(text, '\n') + 1
	if line == 0 && !ended {
		return foundEnd{more: true}
	}
	if line == 0 {
		line = len(text)
	}
	f := endFinder{text: text, line: line, size: len(text), comma: comma, ended: ended}
	if len(text) > advisor.MaxRecordBytes {
		f.text, f.cut = text[:advisor.MaxRecordBytes], true
	}
	for at := 0; ; f.field++ {
		var end *foundEnd
		if at < len(f.text) && f.text[at] == '"' {
			at, end = f.skipQuoted(at + 1)
		} else {
			at, end = f.skipPlain(at)
		}
		if end != nil {
			return *end
		}
	}
}

// endFinder goes over the fields of a record.
type endFinder struct {
	text  []byte // at most as much as a record may have
	cut   bool   // there is more than that
	line  int    // the size of the first line
	size  int    // of all that is there
	field int
	comma byte
	ended bool
}

// atEnd is the answer where the text ends.
func (f *endFinder) atEnd() *foundEnd {
	switch {
	case f.cut:
		return &foundEnd{size: f.line, field: -1, problem: tooLong}
	case !f.ended:
		return &foundEnd{more: true}
	}
	return &foundEnd{size: f.size}
}

func (f *endFinder) refuse(problem string) *foundEnd {
	return &foundEnd{size: f.line, field: f.field, problem: problem}
}

// skipPlain returns where the next field begins, or the end of the record.
func (f *endFinder) skipPlain(at int) (int, *foundEnd) {
	for at < len(f.text) && f.text[at] != f.comma && f.text[at] != '\n' {
		at++
	}
	if at == len(f.text) {
		return 0, f.atEnd()
	}
	if f.text[at] == '\n' {
		return 0, &foundEnd{size: at + 1}
	}
	return at + 1, nil
}

// skipQuoted does the same for a field whose text begins behind a quote.
func (f *endFinder) skipQuoted(at int) (int, *foundEnd) {
	for {
		n := bytes.IndexByte(f.text[at:], '"')
		at += n + 1
		if n < 0 || at == len(f.text) { // a second quote may follow
			if !f.cut && !f.ended {
				return 0, &foundEnd{more: true}
			}
			if n < 0 {
				return 0, f.refuse("a quote that is not closed")
			}
			return 0, f.atEnd()
		}
		if f.text[at] != '"' {
			break
		}
		at++
	}
	rest := bytes.TrimPrefix(f.text[at:], []byte{'\r'})
	switch {
	case len(rest) == 0:
		return 0, f.atEnd()
	case rest[0] == '\n':
		return 0, &foundEnd{size: len(f.text) - len(rest) + 1}
	case f.text[at] != f.comma:
		return 0, f.refuse(fmt.Sprintf("%q behind a quote that is closed", f.text[at]))
	}
	return at + 1, nil
}
