// Package csvfile reads CSV for package advisor.
//
// The first record names the columns, and each record after it has as many fields. A field without
// quotes that is empty is null. Fields in quotes may have commas, line ends and doubled quotes, as in
// RFC 4180. A quote inside a field that does not begin with one is text.
//
// A record that cannot be read is skipped, counted and named by its line and column, unless
// Options.Strict is set. Memory is bounded whatever the input: a record is at most
// [advisor.MaxRecordBytes] long.
package csvfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/advisor/internal/textchunk"
)

// Options specify how CSV is read. The zero value works.
type Options struct {
	// Comma separates fields. Default: that of comma, semicolon, tab and bar that the first line has
	// most.
	Comma byte
	// NoHeader means that the first record is data; columns are then named c1, c2 and so on.
	NoHeader bool
	// Strict makes the first record that cannot be read an error.
	Strict bool
}

// ErrHeader means that there is no header to name the columns with.
var ErrHeader = errors.New("csvfile: no header")

// Reader is an [advisor.Source]. Get one from NewReader.
type Reader struct {
	in      *textchunk.Reader
	options Options
	columns []string
}

// NewReader returns a source that reads CSV from r.
func NewReader(r io.Reader, o Options) *Reader {
	return &Reader{in: textchunk.New(r, advisor.MaxRecordBytes), options: o}
}

// Next is part of [advisor.Source].
func (r *Reader) Next(records *advisor.Records) error {
	first := r.columns == nil
	c, err := r.in.Next(records.Text(), r.lastEnd)
	switch {
	case first && errors.Is(err, io.EOF):
		return fmt.Errorf("%w: the input is empty", ErrHeader)
	case errors.Is(err, io.EOF):
		return err
	case err != nil:
		return fmt.Errorf("csvfile: %w", err)
	}
	records.SetText(c.Text)
	records.AddInput(int64(c.Size + c.Skipped))
	p := parser{options: &r.options, columns: r.columns, text: c.Text, size: c.Size, line: c.Line, ended: c.Ended}
	if c.Skipped > 0 && first {
		return fmt.Errorf("%w: line %d: %s: the input is not CSV", ErrHeader, c.Line, tooLong)
	}
	if first {
		if err := p.readHeader(); err != nil {
			return err
		}
		r.columns = p.columns
	}
	records.SetColumns(r.columns)
	if c.Skipped > 0 {
		return p.report(records, &advisor.Problem{Line: c.Line, What: tooLong})
	}
	records.ParseLater(p.parse)
	return nil
}

// tooLong is what is wrong with a record that is too long.
var tooLong = fmt.Sprintf("a record of more than %d KiB", advisor.MaxRecordBytes>>10)

// detectComma returns the separator that the first line has most.
func detectComma(text []byte) byte {
	line, _, _ := bytes.Cut(text, []byte{'\n'})
	best, most := byte(','), 0
	for _, c := range []byte(",;\t|") {
		if n := bytes.Count(line, []byte{c}); n > most {
			best, most = c, n
		}
	}
	return best
}

// lastEnd returns the size of the whole records that text begins with. Only records with quotes have
// to be looked at for that.
func (r *Reader) lastEnd(text []byte, ended bool) int {
	if r.options.Comma == 0 {
		r.options.Comma = detectComma(text)
	}
	if ended {
		return len(text)
	}
	for pos := 0; ; {
		quote := bytes.IndexByte(text[pos:], '"')
		if quote < 0 {
			return max(pos, bytes.LastIndexByte(text, '\n')+1)
		}
		pos += bytes.LastIndexByte(text[pos:pos+quote], '\n') + 1
		end := findEnd(text[pos:], r.options.Comma, ended)
		if end.more {
			return pos
		}
		pos += end.size
	}
}
