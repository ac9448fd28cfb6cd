// Package parquetfile reads Parquet for package advisor.
//
// A leaf of the schema is a column, named by its path with dots between. Leaves that repeat, such as
// those of lists, are left out and named: they are no part of keys. Types are those of the file; times
// and dates are read as such, bytes that are no text in UTF-8 as hexadecimal digits.
//
// Row groups are read in the order of the file, a few thousand rows at a time, so memory holds some
// pages of each column. A row counts as many bytes as its values have as text; in the file it is
// compressed.
package parquetfile

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/cleavekv/cleave/advisor"
)

// ErrFile means that the input is no Parquet, or damaged.
var ErrFile = errors.New("parquetfile: not a whole Parquet file")

// chunkRows is how many rows are read at once, and chunkBytes after how many bytes of text no more are.
const (
	chunkRows  = 1024
	chunkBytes = 512 << 10
)

// Reader is an [advisor.Source]. Get one from NewReader.
type Reader struct {
	file   *parquet.File
	groups []parquet.RowGroup // those that are left
	rows   parquet.Rows       // of the group at hand; nil between two
	buf    []parquet.Row
	// columns are those that are read, and appenders has one for each leaf; nil leaves it out.
	columns   []string
	appenders []appendText
	left      []string // columns that are left out
	row       int64    // its number, from 1 on
	text      []byte   // of the value at hand
}

// NewReader returns a source that reads a Parquet file of a size.
func NewReader(r io.ReaderAt, size int64) (source *Reader, err error) {
	defer recoverDamage(&err)
	file, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	source = &Reader{file: file, groups: file.RowGroups(), buf: make([]parquet.Row, chunkRows), row: 1}
	schema := file.Schema()
	for _, path := range schema.Columns() {
		leaf, ok := schema.Lookup(path...)
		name := strings.Join(path, ".")
		if !ok || leaf.MaxRepetitionLevel > 0 {
			source.left = append(source.left, name)
			source.appenders = append(source.appenders, nil)
			continue
		}
		source.columns = append(source.columns, name)
		source.appenders = append(source.appenders, appenderOf(leaf.Node.Type()))
	}
	if len(source.columns) == 0 {
		return nil, fmt.Errorf("%w: it has no column with one value for each row", ErrFile)
	}
	if n := len(source.columns); n > advisor.MaxColumns {
		return nil, fmt.Errorf("parquetfile: %d columns: at most %d are analysed", n, advisor.MaxColumns)
	}
	return source, nil
}

// Rows returns how many rows the file says that it has.
func (r *Reader) Rows() int64 { return r.file.NumRows() }

// Next is part of [advisor.Source].
func (r *Reader) Next(records *advisor.Records) (err error) {
	defer recoverDamage(&err)
	records.SetColumns(r.columns)
	if r.row == 1 {
		for _, name := range r.left {
			records.Note(advisor.Problem{Column: name, What: "left out: it has lists"})
		}
	}
	before := r.row
	for len(records.Text()) < chunkBytes {
		if r.rows == nil {
			if len(r.groups) == 0 {
				if records.Len() == 0 {
					return io.EOF
				}
				break
			}
			r.rows = r.groups[0].Rows()
			r.groups = r.groups[1:]
		}
		n, err := r.rows.ReadRows(r.buf)
		for _, row := range r.buf[:n] {
			r.appendRow(records, row)
		}
		if err == nil && n > 0 {
			continue
		}
		closeErr := r.rows.Close()
		r.rows = nil
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: row %d: %w", ErrFile, r.row, err)
		}
		if closeErr != nil {
			return fmt.Errorf("%w: row %d: %w", ErrFile, r.row, closeErr)
		}
	}
	if total := r.file.NumRows(); total > 0 {
		records.AddInput(r.file.Size() * (r.row - before) / total)
	}
	return nil
}

// appendRow appends a row. Its values come in the order of the columns, each at most once.
func (r *Reader) appendRow(records *advisor.Records, row parquet.Row) {
	size, next := 0, 0
	for _, v := range row {
		column := v.Column()
		if column < next || column >= len(r.appenders) {
			continue // another value of a list
		}
		for ; next < column; next++ {
			if r.appenders[next] != nil {
				records.AppendValue(advisor.Null, nil)
			}
		}
		next++
		appender := r.appenders[column]
		switch {
		case appender == nil:
		case v.IsNull():
			records.AppendValue(advisor.Null, nil)
		default:
			var kind advisor.ValueKind
			kind, r.text = appender(r.text[:0], v)
			records.AppendValue(kind, r.text)
			size += len(r.text)
		}
	}
	records.EndRecord(r.row, size)
	r.row++
}

// recoverDamage makes an error of a panic: the library has some where a file is damaged.
func recoverDamage(err *error) {
	if found := recover(); found != nil {
		*err = fmt.Errorf("%w: %v", ErrFile, found)
	}
}
