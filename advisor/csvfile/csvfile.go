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
	"slices"
	"unicode/utf8"

	"github.com/cleavekv/cleave/advisor"
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
	src     io.Reader
	options Options
	columns []string

	// buf[pos:end] is what was read and not taken yet. Invariant: it begins with a record.
	buf      []byte
	pos, end int
	// ended means that src has no more, and readErr why if that is not its end.
	ended   bool
	readErr error
	line    int64 // of buf[pos], from 1 on
	scratch []byte
	fields  []field
}

// field is one field of the record at hand.
type field struct {
	text   []byte
	quoted bool
}

// batchBytes is about how much a batch takes. 256 KiB stay in the second-level cache between the
// goroutine that reads and those that count.
const batchBytes = 256 << 10

// NewReader returns a source that reads CSV from r.
func NewReader(r io.Reader, o Options) *Reader {
	return &Reader{src: r, options: o, line: 1, buf: make([]byte, 512<<10)}
}

// Next is part of [advisor.Source].
func (r *Reader) Next(b *advisor.Batch) error {
	if r.columns == nil {
		if err := r.readHeader(b); err != nil {
			return err
		}
	}
	b.SetColumns(r.columns)
	for b.Bytes() < batchBytes {
		line := r.line
		size, err := r.scanRecord(b)
		b.AddInput(int64(size))
		if problem := (*advisor.InputError)(nil); errors.As(err, &problem) {
			if r.options.Strict {
				return err
			}
			b.Skip(problem.Problem)
			continue
		}
		if errors.Is(err, io.EOF) && b.Len() > 0 {
			return nil // the end comes with the next batch
		}
		if err != nil {
			return err
		}
		if err := r.appendRecord(b, line, size); err != nil {
			return err
		}
	}
	return nil
}

// appendRecord adds the fields of a record to the batch, if they are as many as the columns.
func (r *Reader) appendRecord(b *advisor.Batch, line int64, size int) error {
	if len(r.fields) != len(r.columns) {
		p := advisor.Problem{Line: line, What: fmt.Sprintf("%d fields, the header has %d", len(r.fields), len(r.columns))}
		if r.options.Strict {
			return &advisor.InputError{Problem: p}
		}
		b.Skip(p)
		return nil
	}
	for _, f := range r.fields {
		kind := advisor.Text
		if len(f.text) == 0 && !f.quoted {
			kind = advisor.Null
		}
		b.AppendValue(kind, f.text)
	}
	b.EndRecord(line, size)
	return nil
}

// readHeader names the columns.
func (r *Reader) readHeader(b *advisor.Batch) error {
	for !r.ended && bytes.IndexByte(r.buf[r.pos:r.end], '\n') < 0 && r.end < len(r.buf) {
		r.fill()
	}
	if bom := []byte("\xef\xbb\xbf"); bytes.HasPrefix(r.buf[r.pos:r.end], bom) {
		r.pos += len(bom)
	}
	if r.options.Comma == 0 {
		r.options.Comma = detectComma(r.buf[r.pos:r.end])
	}
	start := r.pos
	size, err := r.scanRecord(b)
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: the input is empty", ErrHeader)
	case err != nil:
		return fmt.Errorf("%w: %w: the input is not CSV", ErrHeader, err)
	case len(r.fields) > advisor.MaxColumns:
		return fmt.Errorf("%w of at most %d columns: it has %d", ErrHeader, advisor.MaxColumns, len(r.fields))
	}
	for i, f := range r.fields {
		name := string(bytes.TrimSpace(f.text))
		if r.options.NoHeader {
			name = fmt.Sprintf("c%d", i+1)
		} else if name == "" {
			name = fmt.Sprintf("column%d", i+1)
		}
		r.columns = append(r.columns, name)
	}
	if r.options.NoHeader {
		r.pos, r.line = start, 1
		return nil
	}
	b.AddInput(int64(size))
	return nil
}

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

// scanRecord reads the fields of the next record and returns its size. They are valid until the next
// call.
func (r *Reader) scanRecord(b *advisor.Batch) (int, error) {
	for {
		if r.pos == r.end && !r.fillIfEmpty() {
			return 0, r.endError()
		}
		text := r.buf[r.pos:r.end]
		i := bytes.IndexByte(text, '\n')
		if i < 0 && !r.ended && len(text) < advisor.MaxRecordBytes {
			r.fill()
			continue
		}
		line := text
		size := len(text)
		if i >= 0 {
			line, size = text[:i], i+1
		}
		if i < 0 && !r.ended || size > advisor.MaxRecordBytes {
			return r.skipLine()
		}
		line = bytes.TrimSuffix(line, []byte{'\r'})
		if bytes.IndexByte(line, '"') >= 0 {
			more, taken, err := r.scanQuoted(text)
			if more && !r.ended && len(text) < advisor.MaxRecordBytes {
				r.fill()
				continue
			}
			if more {
				err = r.newProblem(len(r.fields), "a quote that is not closed")
			}
			if err != nil {
				taken = size // the next line may be fine again
			}
			if err == nil {
				err = r.checkText(text[:taken])
			}
			r.take(taken)
			return taken, err
		}
		if len(line) == 0 {
			r.take(size)
			b.AddInput(int64(size))
			continue
		}
		r.splitFields(line)
		err := r.checkText(line)
		r.take(size)
		return size, err
	}
}

// take moves on by n bytes.
func (r *Reader) take(n int) {
	r.line += int64(bytes.Count(r.buf[r.pos:r.pos+n], []byte{'\n'}))
	r.pos += n
}

// splitFields cuts a line without quotes.
func (r *Reader) splitFields(line []byte) {
	r.fields = r.fields[:0]
	for {
		i := bytes.IndexByte(line, r.options.Comma)
		if i < 0 {
			r.fields = append(r.fields, field{text: line})
			return
		}
		r.fields = append(r.fields, field{text: line[:i]})
		line = line[i+1:]
	}
}

// scanQuoted reads a record some of whose fields may be in quotes. It reports whether the record goes
// on behind text, else how long it is.
func (r *Reader) scanQuoted(text []byte) (more bool, size int, err error) {
	r.fields, r.scratch = r.fields[:0], r.scratch[:0]
	for i := 0; ; {
		if i == len(text) || text[i] != '"' {
			n := bytes.IndexAny(text[i:], string([]byte{r.options.Comma, '\n'}))
			if n < 0 {
				r.fields = append(r.fields, field{text: bytes.TrimSuffix(text[i:], []byte{'\r'})})
				return !r.ended, len(text), nil
			}
			f := text[i : i+n]
			if i += n + 1; text[i-1] == '\n' {
				r.fields = append(r.fields, field{text: bytes.TrimSuffix(f, []byte{'\r'})})
				return false, i, nil
			}
			r.fields = append(r.fields, field{text: f})
			continue
		}
		start := len(r.scratch)
		n, closed := r.unquote(text[i+1:])
		if !closed {
			return true, 0, nil
		}
		i += 1 + n
		r.fields = append(r.fields, field{r.scratch[start:len(r.scratch):len(r.scratch)], true})
		rest := bytes.TrimPrefix(text[i:], []byte{'\r'})
		switch {
		case len(rest) == 0:
			return !r.ended, len(text), nil
		case rest[0] == '\n':
			return false, len(text) - len(rest) + 1, nil
		case text[i] == r.options.Comma:
			i++
		default:
			return false, 0, r.newProblem(len(r.fields)-1, fmt.Sprintf("%q behind a quote that is closed", text[i]))
		}
	}
}

// unquote appends the text up to the closing quote to the scratch space, and returns how much of text
// that was, the quote included.
func (r *Reader) unquote(text []byte) (n int, closed bool) {
	for {
		i := bytes.IndexByte(text[n:], '"')
		if i < 0 {
			return 0, false
		}
		r.scratch = append(r.scratch, text[n:n+i]...)
		n += i + 1
		if n == len(text) && !r.ended {
			return 0, false // a second quote may follow
		}
		if n == len(text) || text[n] != '"' {
			return n, true
		}
		r.scratch = append(r.scratch, '"')
		n++
	}
}

// checkText finds what is no text in a record.
func (r *Reader) checkText(record []byte) error {
	if bytes.IndexByte(record, 0) < 0 && utf8.Valid(record) {
		return nil
	}
	bad := slices.IndexFunc(r.fields, func(f field) bool {
		return bytes.IndexByte(f.text, 0) >= 0 || !utf8.Valid(f.text)
	})
	return r.newProblem(bad, "bytes that are not text in UTF-8")
}

// newProblem names a column of the record that begins at r.line.
func (r *Reader) newProblem(column int, what string) error {
	p := advisor.Problem{Line: r.line, What: what}
	switch {
	case column >= 0 && column < len(r.columns):
		p.Column = r.columns[column]
	case column >= 0:
		p.Column = fmt.Sprint(column + 1)
	}
	return &advisor.InputError{Problem: p}
}

// skipLine drops a line that is longer than a record may be.
func (r *Reader) skipLine() (size int, err error) {
	err = r.newProblem(-1, fmt.Sprintf("a record of more than %d KiB", advisor.MaxRecordBytes>>10))
	for {
		if i := bytes.IndexByte(r.buf[r.pos:r.end], '\n'); i >= 0 {
			size += i + 1
			r.take(i + 1)
			return size, err
		}
		size += r.end - r.pos
		r.pos = r.end
		if !r.fillIfEmpty() {
			return size, err
		}
	}
}

// fillIfEmpty reads more where all is taken, and reports whether there was more.
func (r *Reader) fillIfEmpty() bool {
	for r.pos == r.end && !r.ended {
		r.fill()
	}
	return r.pos < r.end
}

// fill reads more behind what is there.
func (r *Reader) fill() {
	if r.pos > 0 {
		copy(r.buf, r.buf[r.pos:r.end])
		r.pos, r.end = 0, r.end-r.pos
	}
	if r.end == len(r.buf) {
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	}
	n, err := r.src.Read(r.buf[r.end:])
	r.end += n
	if err != nil {
		r.ended = true
		if !errors.Is(err, io.EOF) {
			r.readErr = err
		}
	}
}

// endError returns why there is no more.
func (r *Reader) endError() error {
	if r.readErr != nil {
		return fmt.Errorf("csvfile: line %d: %w", r.line, r.readErr)
	}
	return io.EOF
}
