// Package jsonlfile reads JSON lines for package advisor: one object a line.
//
// A member of the object is a column, and one of an object inside it is a column with both names and
// a dot between. Arrays are values that are no part of keys. Columns come in the order in which they
// are first seen; a record without one has null there.
//
// A line that is no object is skipped, counted and named, unless Options.Strict is set. Memory is
// bounded whatever the input: a line is at most [advisor.MaxRecordBytes] long, and columns are at
// most [advisor.MaxColumns].
package jsonlfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cleavekv/cleave/advisor"
)

// Options specify how lines are read. The zero value works.
type Options struct {
	// Strict makes the first line that cannot be read an error.
	Strict bool
}

// Reader is an [advisor.Source]. Get one from NewReader.
type Reader struct {
	src     io.Reader
	options Options
	// columns are shared with batches, so they are never changed, only replaced by longer ones.
	columns []string
	index   map[string]int

	// buf[pos:end] is what was read and not taken yet. Invariant: it begins with a line.
	buf      []byte
	pos, end int
	ended    bool
	readErr  error
	line     int64

	values []value // of the record at hand, by column
	set    []int   // the columns that it has
	parser parser
}

type value struct {
	kind advisor.ValueKind
	text []byte
}

// batchBytes is about how much a batch takes, as in package csvfile.
const batchBytes = 256 << 10

// NewReader returns a source that reads JSON lines from r.
func NewReader(r io.Reader, o Options) *Reader {
	return &Reader{src: r, options: o, line: 1, buf: make([]byte, 512<<10), index: map[string]int{}}
}

// Next is part of [advisor.Source].
func (r *Reader) Next(b *advisor.Batch) error {
	for b.Bytes() < batchBytes {
		text, size, err := r.readLine()
		if errors.Is(err, io.EOF) && b.Len() > 0 {
			break // the end comes with the next batch
		}
		if err != nil {
			b.SetColumns(r.columns)
			return err
		}
		b.AddInput(int64(size))
		line := r.line
		r.line++
		if text = bytes.TrimSpace(text); len(text) == 0 && size <= advisor.MaxRecordBytes {
			continue
		}
		problem := r.parseLine(text, size)
		if problem == nil {
			r.appendRecord(b, line, size)
			continue
		}
		problem.Line = line
		if r.options.Strict {
			return &advisor.InputError{Problem: *problem}
		}
		b.Skip(*problem)
	}
	b.SetColumns(r.columns)
	return nil
}

// appendRecord adds the record at hand to the batch.
func (r *Reader) appendRecord(b *advisor.Batch, line int64, size int) {
	last := 0
	for _, column := range r.set {
		last = max(last, column+1)
	}
	for i := range last {
		b.AppendValue(r.values[i].kind, r.values[i].text)
	}
	b.EndRecord(line, size)
}

// parseLine makes a record of a line.
func (r *Reader) parseLine(text []byte, size int) *advisor.Problem {
	for _, column := range r.set {
		r.values[column] = value{}
	}
	r.set = r.set[:0]
	if size > advisor.MaxRecordBytes {
		return &advisor.Problem{What: fmt.Sprintf("a line of more than %d KiB", advisor.MaxRecordBytes>>10)}
	}
	r.parser.reset(text)
	if err := r.parser.parseObject("", 0, r.addMember); err != nil {
		var named *advisor.InputError
		if errors.As(err, &named) {
			return &named.Problem
		}
		return &advisor.Problem{What: fmt.Sprintf("byte %d: %v", r.parser.pos+1, err)}
	}
	if rest := bytes.TrimSpace(text[r.parser.pos:]); len(rest) > 0 {
		return &advisor.Problem{What: fmt.Sprintf("byte %d: more behind the object", r.parser.pos+1)}
	}
	return nil
}

// addMember sets a value of the record at hand.
func (r *Reader) addMember(name []byte, v value) error {
	column, known := r.index[string(name)]
	if !known {
		if len(r.columns) == advisor.MaxColumns {
			return &advisor.InputError{Problem: advisor.Problem{Column: string(name[:min(len(name), 64)]), What: fmt.Sprintf("more than %d columns", advisor.MaxColumns)}}
		}
		column = len(r.columns)
		r.columns = append(slices.Clone(r.columns), string(name))
		r.index[string(name)] = column
		r.values = append(r.values, value{})
	}
	r.values[column] = v // the last one counts, as in encoding/json
	r.set = append(r.set, column)
	return nil
}

// readLine returns the next line without its end, and its size. Of a line that is longer than a
// record may be it returns nothing but the size.
func (r *Reader) readLine() (text []byte, size int, err error) {
	searched := 0
	for {
		if i := bytes.IndexByte(r.buf[r.pos+searched:r.end], '\n'); i >= 0 {
			text = r.buf[r.pos : r.pos+searched+i]
			r.pos += searched + i + 1
			return text, searched + i + 1, nil
		}
		searched = r.end - r.pos
		switch {
		case r.ended && searched == 0 && r.readErr != nil:
			return nil, 0, fmt.Errorf("jsonlfile: line %d: %w", r.line, r.readErr)
		case r.ended && searched == 0:
			return nil, 0, io.EOF
		case r.ended:
			text = r.buf[r.pos:r.end]
			r.pos = r.end
			return text, searched, nil
		case searched > advisor.MaxRecordBytes:
			return nil, r.skipLine(), nil
		}
		r.fill()
	}
}

// skipLine drops the rest of a line and returns how long all of it was.
func (r *Reader) skipLine() (size int) {
	for {
		if i := bytes.IndexByte(r.buf[r.pos:r.end], '\n'); i >= 0 {
			r.pos += i + 1
			return size + i + 1
		}
		size += r.end - r.pos
		r.pos = r.end
		if r.ended {
			return size
		}
		r.fill()
	}
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

// unescape decodes a string with escapes, quotes included.
func unescape(quoted []byte) ([]byte, error) {
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return nil, errors.New("a string that is not JSON")
	}
	return []byte(s), nil
}
