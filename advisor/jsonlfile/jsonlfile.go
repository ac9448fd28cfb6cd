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

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/advisor/internal/textchunk"
)

// Options specify how lines are read. The zero value works.
type Options struct {
	// Strict makes the first line that cannot be read an error.
	Strict bool
}

// Reader is an [advisor.Source]. Get one from NewReader.
type Reader struct {
	in      *textchunk.Reader
	options Options
}

type value struct {
	kind advisor.ValueKind
	text []byte
}

// NewReader returns a source that reads JSON lines from r.
func NewReader(r io.Reader, o Options) *Reader {
	return &Reader{in: textchunk.New(r, advisor.MaxRecordBytes), options: o}
}

// Next is part of [advisor.Source].
func (r *Reader) Next(records *advisor.Records) error {
	c, err := r.in.Next(records.Text(), textchunk.LastLine)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			err = fmt.Errorf("jsonlfile: %w", err)
		}
		return err
	}
	records.SetText(c.Text)
	records.AddInput(int64(c.Size + c.Skipped))
	lines := chunkLines{strict: r.options.Strict, line: c.Line, index: map[string]int{}}
	if c.Skipped > 0 {
		return lines.report(records, &advisor.Problem{Line: c.Line, What: tooLong})
	}
	text := c.Text[:c.Size]
	records.ParseLater(func(records *advisor.Records) error { return lines.parse(records, text) })
	return nil
}

// tooLong is what is wrong with a line that is too long.
var tooLong = fmt.Sprintf("a line of more than %d KiB", advisor.MaxRecordBytes>>10)

// chunkLines parses the lines of a chunk. Several parse at the same time, so each has columns of its
// own.
type chunkLines struct {
	strict  bool
	line    int64
	columns []string
	index   map[string]int
	values  []value // of the record at hand, by column
	set     []int   // the columns that it has
	parser  parser
}

// parse makes records of the lines.
func (l *chunkLines) parse(records *advisor.Records, text []byte) error {
	for ; len(text) > 0; l.line++ {
		size := bytes.IndexByte(text, '\n') + 1
		if size == 0 {
			size = len(text)
		}
		line := bytes.TrimSpace(text[:size])
		text = text[size:]
		if len(line) == 0 {
			continue
		}
		problem := l.parseLine(line, size)
		if problem == nil {
			l.appendRecord(records, size)
			continue
		}
		problem.Line = l.line
		if err := l.report(records, problem); err != nil {
			return err
		}
	}
	records.SetColumns(l.columns)
	return nil
}

// report names what is wrong with a line that is skipped; if the options are strict, it is an error.
func (l *chunkLines) report(records *advisor.Records, problem *advisor.Problem) error {
	if l.strict {
		return &advisor.InputError{Problem: *problem}
	}
	records.Skip(*problem)
	return nil
}

// appendRecord appends the record at hand.
func (l *chunkLines) appendRecord(records *advisor.Records, size int) {
	last := 0
	for _, column := range l.set {
		last = max(last, column+1)
	}
	for i := range last {
		records.AppendValue(l.values[i].kind, l.values[i].text)
	}
	records.EndRecord(l.line, size)
}

// parseLine makes a record of a line.
func (l *chunkLines) parseLine(text []byte, size int) *advisor.Problem {
	for _, column := range l.set {
		l.values[column] = value{}
	}
	l.set = l.set[:0]
	if size > advisor.MaxRecordBytes {
		return &advisor.Problem{What: tooLong}
	}
	l.parser.reset(text)
	if err := l.parser.parseObject("", 0, l.addMember); err != nil {
		var named *advisor.InputError
		if errors.As(err, &named) {
			return &named.Problem
		}
		return &advisor.Problem{What: fmt.Sprintf("byte %d: %v", l.parser.pos+1, err)}
	}
	if rest := bytes.TrimSpace(text[l.parser.pos:]); len(rest) > 0 {
		return &advisor.Problem{What: fmt.Sprintf("byte %d: more behind the object", l.parser.pos+1)}
	}
	return nil
}

// addMember sets a value of the record at hand.
func (l *chunkLines) addMember(name []byte, v value) error {
	column, known := l.index[string(name)]
	if !known {
		if len(l.columns) == advisor.MaxColumns {
			return &advisor.InputError{Problem: advisor.Problem{Column: string(name[:min(len(name), 64)]), What: fmt.Sprintf("more than %d columns", advisor.MaxColumns)}}
		}
		column = len(l.columns)
		l.columns = append(l.columns, string(name))
		l.index[string(name)] = column
		l.values = append(l.values, value{})
	}
	l.values[column] = v // the last one counts, as in encoding/json
	l.set = append(l.set, column)
	return nil
}

// unescape decodes a string with escapes, quotes included.
func unescape(quoted []byte) ([]byte, error) {
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return nil, errors.New("a string that is not JSON")
	}
	return []byte(s), nil
}
