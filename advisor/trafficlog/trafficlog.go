// Package trafficlog reads operations on keys for package advisor: a record is an operation, its columns are the parts
// of its key, and its size is the bytes that the operation has moved. So a report is about load and not about what is
// stored; set Traffic of the options of the analysis.
//
// The parts of a key are the columns of the keyspace's layout, if it has one. Otherwise they are what stands between
// separators: cart:{42}:7 has part1 cart, part2 42 and part3 7. Braces of a hash tag that enclose a whole part are no
// part of it. A key that does not fit the layout is skipped, counted and named.
//
// [NewMonitorReader] reads what the command MONITOR of Redis prints.
package trafficlog

import (
	"bytes"
	"fmt"
	"time"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/key"
)

// Operation is what a request does with one key.
type Operation struct {
	Key   []byte
	Write bool
	// Bytes are those that it moves. 0 counts as 1.
	Bytes int
	// Line is where it stands in a log; 0 if it is in none.
	Line int64
}

// Options specify which operations are read and what the parts of their keys are. The zero value works.
type Options struct {
	// Layout is that of the keys. Default none: keys are cut at separators.
	Layout *key.Layout
	// Separator is what stands between the parts of a key without a layout. Default a colon.
	Separator byte
	// Prefix is how keys begin that are read. Default all.
	Prefix []byte
	// OnlyWrites and OnlyReads leave out the others.
	OnlyWrites, OnlyReads bool
}

// maxParts is how many parts of a key are columns; the last one has the rest.
const maxParts = 8

// Reader is an [advisor.Source]. Get one from NewReader.
type Reader struct {
	options Options
	next    func([]Operation) ([]Operation, error)
	ops     []Operation
	columns []string
	values  key.Values
	count   int64 // of operations so far
	// problems returns what is wrong with the input of the last operations, and input how long it was; nil if there is no
	// text.
	problems func() []advisor.Problem
	input    func() int64
}

// NewReader returns a source of the operations that a function appends to its argument, in their order. It may append
// none, and returns io.EOF at the end.
func NewReader(next func([]Operation) ([]Operation, error), o Options) *Reader {
	r := &Reader{options: o, next: next}
	if o.Separator == 0 {
		r.options.Separator = ':'
	}
	if o.Layout != nil {
		r.columns = o.Layout.Columns()
		return r
	}
	for i := range maxParts {
		r.columns = append(r.columns, fmt.Sprint("part", i+1))
	}
	return r
}

// Next is part of [advisor.Source].
func (r *Reader) Next(records *advisor.Records) (err error) {
	if r.ops, err = r.next(r.ops[:0]); err != nil {
		return err
	}
	if r.problems != nil {
		for _, p := range r.problems() {
			records.Skip(p)
		}
		records.AddInput(r.input())
	}
	most := 0
	for i := range r.ops {
		o := &r.ops[i]
		r.count++
		if o.Line == 0 {
			o.Line = r.count
		}
		if o.Write && r.options.OnlyReads || !o.Write && r.options.OnlyWrites || !bytes.HasPrefix(o.Key, r.options.Prefix) {
			continue
		}
		if r.input == nil {
			records.AddInput(int64(o.Bytes))
		}
		if r.options.Layout != nil {
			if err := r.appendColumns(records, o.Key); err != nil {
				records.DropRecord()
				records.Skip(advisor.Problem{Line: o.Line, What: "the key does not fit the layout: " + err.Error()})
				continue
			}
		} else {
			most = max(most, r.appendParts(records, o.Key))
		}
		records.EndRecord(o.Line, max(o.Bytes, 1))
	}
	if r.options.Layout != nil {
		most = len(r.columns)
	}
	records.SetColumns(r.columns[:most])
	return nil
}

// appendParts appends what stands between separators, and returns how many parts there are.
func (r *Reader) appendParts(records *advisor.Records, k []byte) (parts int) {
	for more := true; more; {
		part := k
		if parts++; parts < maxParts {
			part, k, more = bytes.Cut(k, []byte{r.options.Separator})
		} else {
			more = false
		}
		if n := len(part); n >= 2 && part[0] == '{' && part[n-1] == '}' {
			part = part[1 : n-1]
		}
		records.AppendValue(advisor.Text, part)
	}
	return parts
}

// appendColumns appends the columns of the layout. A time of which the key has only buckets is the start of its bucket.
func (r *Reader) appendColumns(records *advisor.Records, k []byte) error {
	if err := r.options.Layout.DecodeInto(&r.values, k); err != nil {
		return err
	}
	for _, name := range r.columns {
		v, ok := r.values.Value(name)
		if !ok {
			v = nil
		}
		switch v := v.(type) {
		case nil:
			records.AppendValue(advisor.Null, nil)
		case string:
			records.AppendValue(advisor.String, []byte(v))
		case []byte:
			records.AppendValue(advisor.String, v)
		case bool:
			records.AppendValue(advisor.Bool, fmt.Append(nil, v))
		case time.Time:
			records.AppendValue(advisor.String, v.UTC().AppendFormat(nil, time.RFC3339Nano))
		case int64, uint64, float32, float64:
			records.AppendValue(advisor.Number, fmt.Append(nil, v))
		default:
			records.AppendValue(advisor.String, fmt.Append(nil, v))
		}
	}
	return nil
}
