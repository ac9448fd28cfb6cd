package csvfile

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/cleavekv/cleave/advisor"
)

// parser parses a chunk. Several parse at the same time.
type parser struct {
	options *Options
	columns []string
	text    []byte
	pos     int
	size    int   // of the records in text; what follows is for looking ahead
	line    int64 // of text[pos]
	ended   bool
	scratch []byte
}

// parse makes records of the chunk.
func (p *parser) parse(records *advisor.Records) error {
	text := p.text[p.pos:p.size]
	isText := bytes.IndexByte(text, 0) < 0 && utf8.Valid(text)
	hasQuotes := bytes.IndexByte(text, '"') >= 0
	for p.pos < p.size {
		start, line := p.pos, p.line
		problem := p.appendFields(records, hasQuotes)
		n := records.Pending()
		if problem == nil && n == 0 {
			continue // a blank line
		}
		if problem == nil && !isText {
			problem = p.checkText(records, line)
		}
		if problem == nil && n != len(p.columns) {
			problem = &advisor.Problem{Line: line, What: fmt.Sprintf("%d fields, the header has %d", n, len(p.columns))}
		}
		if problem == nil {
			records.EndRecord(line, p.pos-start)
			continue
		}
		records.DropRecord()
		if err := p.report(records, problem); err != nil {
			return err
		}
	}
	return nil
}

// report names what is wrong with a record that is skipped; if the options are strict, it is an error.
func (p *parser) report(records *advisor.Records, problem *advisor.Problem) error {
	if p.options.Strict {
		return &advisor.InputError{Problem: *problem}
	}
	records.Skip(*problem)
	return nil
}

// readHeader names the columns.
func (p *parser) readHeader() error {
	if bom := []byte("\xef\xbb\xbf"); bytes.HasPrefix(p.text, bom) {
		p.pos = len(bom)
	}
	var header advisor.Records
	header.SetText(p.text)
	start, line := p.pos, p.line
	for header.Pending() == 0 {
		if p.pos >= p.size {
			return fmt.Errorf("%w: the input is empty", ErrHeader)
		}
		start, line = p.pos, p.line
		problem := p.appendFields(&header, true)
		if problem == nil {
			problem = p.checkText(&header, line)
		}
		if problem != nil {
			return fmt.Errorf("%w: %w: the input is not CSV", ErrHeader, &advisor.InputError{Problem: *problem})
		}
	}
	n := header.Pending()
	if n > advisor.MaxColumns {
		return fmt.Errorf("%w of at most %d columns: it has %d", ErrHeader, advisor.MaxColumns, n)
	}
	for i := range n {
		name := string(bytes.TrimSpace(header.PendingValue(i)))
		if p.options.NoHeader {
			name = fmt.Sprintf("c%d", i+1)
		} else if name == "" {
			name = fmt.Sprintf("column%d", i+1)
		}
		p.columns = append(p.columns, name)
	}
	if p.options.NoHeader {
		p.pos, p.line = start, line
	}
	return nil
}

// appendFields appends the values of the next record, none of a blank line.
func (p *parser) appendFields(records *advisor.Records, hasQuotes bool) *advisor.Problem {
	start := p.pos
	size := bytes.IndexByte(p.text[start:p.size], '\n') + 1
	if size == 0 {
		size = p.size - start
	}
	if hasQuotes && bytes.IndexByte(p.text[start:start+size], '"') >= 0 {
		return p.appendQuoted(records)
	}
	p.pos += size
	p.line++
	if size > advisor.MaxRecordBytes {
		return &advisor.Problem{Line: p.line - 1, What: tooLong}
	}
	end := start + len(trimLineEnd(p.text[start:p.pos]))
	if start == end {
		return nil
	}
	line := p.text[start:end]
	for {
		i := bytes.IndexByte(line, p.options.Comma)
		if i < 0 {
			appendPlain(records, start, end)
			return nil
		}
		appendPlain(records, start, start+i)
		start += i + 1
		line = line[i+1:]
	}
}

// appendPlain appends a field without quotes, which is null if it is empty.
func appendPlain(records *advisor.Records, start, end int) {
	kind := advisor.Text
	if start == end {
		kind = advisor.Null
	}
	records.AppendSpan(kind, start, end)
}

// appendQuoted appends the values of a record some of whose fields may be in quotes.
func (p *parser) appendQuoted(records *advisor.Records) *advisor.Problem {
	line, at := p.line, p.pos
	found := findEnd(p.text[at:], p.options.Comma, p.ended)
	p.pos += found.size
	p.line += int64(bytes.Count(p.text[at:p.pos], []byte{'\n'}))
	if found.problem != "" {
		return p.newProblem(line, found.field, found.problem)
	}
	end := at + len(trimLineEnd(p.text[at:p.pos]))
	for {
		if at < end && p.text[at] == '"' {
			at = p.appendUnquoted(records, at+1)
		} else {
			start := at
			for at < end && p.text[at] != p.options.Comma {
				at++
			}
			appendPlain(records, start, at)
		}
		if at >= end {
			return nil
		}
		at++ // the comma
	}
}

// appendUnquoted appends the field whose text begins behind a quote, and returns where the closing
// quote ends.
func (p *parser) appendUnquoted(records *advisor.Records, start int) (end int) {
	p.scratch = p.scratch[:0]
	for at := start; ; {
		at += bytes.IndexByte(p.text[at:], '"')
		if at+1 < len(p.text) && p.text[at+1] == '"' {
			p.scratch = append(p.scratch, p.text[start:at+1]...)
			at += 2
			start = at
			continue
		}
		if len(p.scratch) == 0 {
			records.AppendSpan(advisor.Text, start, at)
		} else {
			p.scratch = append(p.scratch, p.text[start:at]...)
			records.AppendValue(advisor.Text, p.scratch)
		}
		return at + 1
	}
}

// checkText finds what is no text in the record that is being made.
func (p *parser) checkText(records *advisor.Records, line int64) *advisor.Problem {
	for i := range records.Pending() {
		if text := records.PendingValue(i); bytes.IndexByte(text, 0) >= 0 || !utf8.Valid(text) {
			return p.newProblem(line, i, "bytes that are not text in UTF-8")
		}
	}
	return nil
}

// newProblem names a column; -1 is none.
func (p *parser) newProblem(line int64, field int, what string) *advisor.Problem {
	problem := &advisor.Problem{Line: line, What: what}
	switch {
	case field >= 0 && field < len(p.columns):
		problem.Column = p.columns[field]
	case field >= 0:
		problem.Column = fmt.Sprint(field + 1)
	}
	return problem
}

// trimLineEnd returns a line without its end.
func trimLineEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte{'\n'}), []byte{'\r'})
}
