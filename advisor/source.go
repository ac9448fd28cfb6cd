package advisor

import (
	"fmt"
	"iter"
)

// Source reads records in the order in which they were written. Packages advisor/csvfile and
// advisor/jsonlfile have sources; any program can have its own.
type Source interface {
	// Next fills an empty batch with the next records, at most about a MiB of them. It returns io.EOF,
	// and no records, at the end. It is called by one goroutine at a time.
	Next(b *Batch) error
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

// Batch is a number of records, each with the line that it came from. It owns its bytes.
type Batch struct {
	columns  []string
	data     []byte
	values   []batchValue
	records  []batchRecord
	problems []Problem
	skipped  int64
	input    int64
}

// batchValue is the place of a value in the data of its batch.
type batchValue struct {
	start, end uint32
	kind       ValueKind
}

// batchRecord is the last of a record's values, and where it came from.
type batchRecord struct {
	end   int // of its values; they begin where those of the record before end
	line  int64
	bytes int
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.columns, b.skipped, b.input = nil, 0, 0
	b.data, b.values, b.records, b.problems = b.data[:0], b.values[:0], b.records[:0], b.problems[:0]
}

// SetColumns names the columns, in the order of a record's values. Later batches may have more, and
// the same ones before them. The caller does not change the slice after that.
func (b *Batch) SetColumns(names []string) { b.columns = names }

// AppendValue adds the next value of the record that is being made. The text is copied.
func (b *Batch) AppendValue(kind ValueKind, text []byte) {
	start := uint32(len(b.data))
	b.data = append(b.data, text...)
	b.values = append(b.values, batchValue{start, uint32(len(b.data)), kind})
}

// EndRecord ends the record that is being made. Columns without a value are null. Bytes is the size
// of the record in the input.
func (b *Batch) EndRecord(line int64, bytes int) {
	b.records = append(b.records, batchRecord{len(b.values), line, bytes})
}

// DropRecord drops the values of the record that is being made.
func (b *Batch) DropRecord() {
	end := 0
	if n := len(b.records); n > 0 {
		end = b.records[n-1].end
	}
	b.values = b.values[:end]
}

// Skip counts a record that cannot be read, and names what is wrong with it.
func (b *Batch) Skip(p Problem) {
	b.skipped++
	if len(b.problems) < maxNamedProblems {
		b.problems = append(b.problems, p)
	}
}

// AddInput counts bytes of the input that were read, for progress.
func (b *Batch) AddInput(bytes int64) { b.input += bytes }

// Len returns how many records the batch has.
func (b *Batch) Len() int { return len(b.records) }

// Bytes returns how many bytes of values the batch has.
func (b *Batch) Bytes() int { return len(b.data) }

// Problem is something in the input that is not as it should be.
type Problem struct {
	// Line is the line of the input on which the record begins, from 1 on.
	Line int64 `json:"line"`
	// Column is the name or number of the column; empty if the whole record is meant.
	Column string `json:"column,omitempty"`
	// What is wrong.
	What string `json:"what"`
}

// String returns the problem with its place.
func (p Problem) String() string {
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
func (b *Batch) Columns() []string { return b.columns }

// Problems returns what was skipped, at most the first 20.
func (b *Batch) Problems() []Problem { return b.problems }

// Records returns the records in order.
func (b *Batch) Records() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		first := 0
		for _, r := range b.records {
			if !yield(Record{b, first, r}) {
				return
			}
			first = r.end
		}
	}
}

// Record is one record of a batch, valid until that is reset.
type Record struct {
	batch  *Batch
	first  int
	record batchRecord
}

// Value returns the value of a column, by its number.
func (r Record) Value(column int) (ValueKind, []byte) {
	if column < 0 || r.first+column >= r.record.end {
		return Null, nil
	}
	v := r.batch.values[r.first+column]
	return v.kind, r.batch.data[v.start:v.end]
}

// Line returns the line of the input on which the record begins.
func (r Record) Line() int64 { return r.record.line }
