package advisor

import (
	"fmt"
	"iter"
)

// Source reads records in the order in which they were written. Packages below this
// one have sources for files and databases; any program can have its own.
type Source interface {
	// Next fills empty records with the next ones, about a MiB of them at most, or leaves that to a
	// function by [Records.ParseLater]. It returns io.EOF, and no records, at the end. It is called by
	// one goroutine at a time. If the context of an analysis ends, a call under way is not waited for.
	Next(r *Records) error
}

// ValueKind is what a source knows about a value before its text is looked at.
type ValueKind uint8

// The kinds of values.
const (
	Null   ValueKind = iota // there is no value
	Text                    // the text decides what it is, as in CSV
	String                  // a string even if its text is a number
	Number                  // a number
	Bool                    // true or false
)

// Records is a number of records, each with the line that it came from. It owns its bytes.
type Records struct {
	columns  []string
	text     []byte
	values   []recordValue
	ends     []recordEnd
	problems []Problem
	skipped  int64
	input    int64
	parse    func(*Records) error
}

// recordValue is the place of a value in the text of its records. The highest bits of size are the
// kind.
type recordValue struct{ start, size uint32 }

const (
	kindShift = 29
	sizeMask  = 1<<kindShift - 1
)

func (v recordValue) kind() ValueKind { return ValueKind(v.size >> kindShift) }

// recordEnd is the last of a record's values, and where it came from.
type recordEnd struct {
	end   uint32 // of its values; they begin where those of the record before end
	bytes uint32
	line  int64
}

// Reset empties r and keeps its memory.
func (r *Records) Reset() {
	r.columns, r.skipped, r.input, r.parse = nil, 0, 0, nil
	r.text, r.values, r.ends, r.problems = r.text[:0], r.values[:0], r.ends[:0], r.problems[:0]
}

// SetColumns names the columns, in the order of a record's values. Columns of one name are the same,
// wherever they are. The caller does not change the slice after that.
func (r *Records) SetColumns(names []string) { r.columns = names }

// Text returns the memory of values that are copied, to be used again before there are any.
func (r *Records) Text() []byte { return r.text }

// SetText hands over text that [Records.AppendSpan] cuts values out of.
func (r *Records) SetText(text []byte) { r.text = text }

// ParseLater leaves the filling to a function. It is called once, on any goroutine, while Next goes
// on, so that several goroutines parse one input.
func (r *Records) ParseLater(parse func(*Records) error) { r.parse = parse }

// Parse calls the function that was left by ParseLater, if there is one.
func (r *Records) Parse() error {
	if r.parse == nil {
		return nil
	}
	parse := r.parse
	r.parse = nil
	return parse(r)
}

// AppendValue adds the next value of the record that is being made. The text is copied.
func (r *Records) AppendValue(kind ValueKind, text []byte) {
	start := len(r.text)
	r.text = append(r.text, text...)
	r.AppendSpan(kind, start, len(r.text))
}

// AppendSpan adds the next value of the record that is being made: the text from start to end.
func (r *Records) AppendSpan(kind ValueKind, start, end int) {
	r.values = append(r.values, recordValue{uint32(start), uint32(end-start) | uint32(kind)<<kindShift})
}

// EndRecord ends the record that is being made. Columns without a value are null. Bytes is the size
// of the record in the input.
func (r *Records) EndRecord(line int64, bytes int) {
	r.ends = append(r.ends, recordEnd{uint32(len(r.values)), uint32(bytes), line})
}

// Pending returns how many values the record has that is being made.
func (r *Records) Pending() int { return len(r.values) - r.firstPending() }

// PendingValue returns the text of a value of the record that is being made.
func (r *Records) PendingValue(i int) []byte { return r.textOf(r.values[r.firstPending()+i]) }

func (r *Records) firstPending() int {
	if n := len(r.ends); n > 0 {
		return int(r.ends[n-1].end)
	}
	return 0
}

// DropRecord drops the values of the record that is being made.
func (r *Records) DropRecord() { r.values = r.values[:r.firstPending()] }

// Skip counts a record that cannot be read, and names what is wrong with it.
func (r *Records) Skip(p Problem) {
	r.skipped++
	r.Note(p)
}

// Note names a problem that no record is skipped for.
func (r *Records) Note(p Problem) {
	if len(r.problems) < maxNamedProblems {
		r.problems = append(r.problems, p)
	}
}

// AddInput counts bytes of the input that were read, for progress.
func (r *Records) AddInput(bytes int64) { r.input += bytes }

// Len returns how many records there are.
func (r *Records) Len() int { return len(r.ends) }

// Problem is something in the input that is not as it should be.
type Problem struct {
	// Line is the line of the input on which the record begins, from 1 on; 0 if all of the input is meant.
	Line int64 `json:"line"`
	// Column is the name or number of the column; empty if the whole record is meant.
	Column string `json:"column,omitempty"`
	// What is wrong.
	What string `json:"what"`
}

// String returns the problem with its place.
func (p Problem) String() string {
	if p.Line == 0 {
		return fmt.Sprintf("column %s: %s", p.Column, p.What)
	}
	if p.Column == "" {
		return fmt.Sprintf("line %d: %s", p.Line, p.What)
	}
	return fmt.Sprintf("line %d, column %s: %s", p.Line, p.Column, p.What)
}

// InputError is a problem that ends an analysis, because the source was to be strict.
type InputError struct{ Problem }

// Error names the place and the problem.
func (e *InputError) Error() string { return e.String() }

// Columns returns the names of the columns.
func (r *Records) Columns() []string { return r.columns }

// Problems returns what was skipped, at most the first 20.
func (r *Records) Problems() []Problem { return r.problems }

// All returns the records in order.
func (r *Records) All() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		first := 0
		for _, end := range r.ends {
			if !yield(Record{r, first, end}) {
				return
			}
			first = int(end.end)
		}
	}
}

// Record is one of several records, valid until those are reset.
type Record struct {
	records *Records
	first   int
	end     recordEnd
}

// Value returns the value of a column, by its number.
func (r Record) Value(column int) (ValueKind, []byte) {
	if column < 0 || r.first+column >= int(r.end.end) {
		return Null, nil
	}
	v := r.records.values[r.first+column]
	return v.kind(), r.records.textOf(v)
}

func (r *Records) textOf(v recordValue) []byte { return r.text[v.start : v.start+v.size&sizeMask] }

// Line returns the line of the input on which the record begins.
func (r Record) Line() int64 { return r.end.line }
