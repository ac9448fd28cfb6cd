package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/advisor/csvfile"
	"github.com/cleavekv/cleave/advisor/jsonlfile"
	"github.com/cleavekv/cleave/advisor/parquetfile"
	"github.com/cleavekv/cleave/advisor/postgres"
	"github.com/cleavekv/cleave/advisor/trafficlog"
	"github.com/cleavekv/cleave/internal/ops/output"
)

// adviseInput is what advise reads.
type adviseInput struct {
	name  string // for errors
	src   advisor.Source
	close func()
	// fraction returns how much was read, below 0 if that is not known.
	fraction func(p advisor.Progress) float64
	// addNotes adds what is to be said about the input when it was read, nil for nothing.
	addNotes func(notes []string) []string
	notes    []string
}

// isDatabase reports whether an argument is the URL of a database.
func isDatabase(name string) bool {
	return strings.HasPrefix(name, "postgres://") || strings.HasPrefix(name, "postgresql://")
}

// openInput opens the file, the table or the traffic that was asked for.
func (f *adviseFlags) openInput(ctx context.Context, cmd *cobra.Command, name string) (*adviseInput, error) {
	if f.live.on {
		f.options.Traffic = true
		return f.live.openLive(ctx)
	}
	if isDatabase(name) {
		return f.openTable(ctx, name)
	}
	if f.table != "" && f.options.ReadQueries == nil || f.sample != 0 {
		return nil, usageError{fmt.Errorf("--table and --sample are for a database: %s is a file", name)}
	}
	file, size, err := openRecords(cmd, name)
	if err != nil {
		return nil, err
	}
	src, err := f.newSource(name, file, size)
	if err != nil {
		file.Close()
		return nil, err
	}
	fraction := func(p advisor.Progress) float64 {
		if size == 0 {
			return -1
		}
		return float64(p.Input) / float64(size)
	}
	return &adviseInput{name: name, src: src, close: func() { file.Close() }, fraction: fraction}, nil
}

// openTable opens a table of PostgreSQL, and asks the database for queries unless there are some.
func (f *adviseFlags) openTable(ctx context.Context, name string) (*adviseInput, error) {
	if f.table == "" {
		return nil, usageError{errors.New("name the table of the database with --table")}
	}
	if f.noHeader || f.strict || f.fileFormat != "" {
		return nil, usageError{errors.New("--no-header, --strict and --format are for files")}
	}
	table, err := postgres.Open(ctx, name, postgres.Options{Table: f.table, Percent: f.sample})
	if err != nil {
		return nil, err
	}
	in := &adviseInput{name: name, src: table, close: table.Close}
	in.fraction = func(p advisor.Progress) float64 {
		if n := table.EstimatedRows(); n > 0 {
			return min(1, float64(p.Rows)/float64(n))
		}
		return -1
	}
	if f.sample > 0 {
		f.options.Fraction = f.sample / 100
		in.notes = append(in.notes, fmt.Sprintf("The rows are those of %v %% of the table's pages: it has more rows and values than are shown.", f.sample))
	}
	if f.queries != "" {
		return in, nil
	}
	f.options.Queries, err = table.Queries(ctx)
	switch {
	case errors.Is(err, postgres.ErrNoStatements):
		in.notes = append(in.notes, fmt.Sprintf("What is asked of the table is not known: %v.", trimAdvise(err)))
	case err != nil:
		table.Close()
		return nil, err
	default:
		in.notes = append(in.notes, fmt.Sprintf("%s of the table from pg_stat_statements.", output.Plural(len(f.options.Queries), "statement")))
	}
	return in, nil
}

// openRecords opens a file, or stdin. The size is 0 if it is not known.
func openRecords(cmd *cobra.Command, name string) (io.ReadCloser, int64, error) {
	if name == "-" {
		return io.NopCloser(cmd.InOrStdin()), 0, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, 0, usageError{err}
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory: name a file of CSV, JSON lines or Parquet", name)
	}
	if err != nil {
		file.Close()
		return nil, 0, usageError{err}
	}
	return file, info.Size(), nil
}

// newSource returns what reads the file's format.
func (f *adviseFlags) newSource(name string, r io.Reader, size int64) (advisor.Source, error) {
	format := f.fileFormat
	if format == "" {
		format = map[string]string{".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".parquet": "parquet", ".pq": "parquet", ".monitor": "monitor"}[strings.ToLower(filepath.Ext(name))]
	}
	if format != "monitor" && (f.live.prefix != "" || f.live.kind != "all") {
		return nil, usageError{errors.New("--prefix and --ops are for --live, and for what MONITOR prints")}
	}
	if f.noHeader && format != "csv" {
		return nil, usageError{errors.New("--no-header is for CSV: other formats have none")}
	}
	switch format {
	case "csv":
		return csvfile.NewReader(r, csvfile.Options{NoHeader: f.noHeader, Strict: f.strict}), nil
	case "parquet":
		file, ok := r.(*os.File)
		if !ok {
			return nil, usageError{errors.New("Parquet is read from its end: name a file in place of stdin")}
		}
		return parquetfile.NewReader(file, size)
	case "jsonl":
		return jsonlfile.NewReader(r, jsonlfile.Options{Strict: f.strict}), nil
	case "monitor":
		if f.strict {
			return nil, usageError{errors.New("--strict is not for what MONITOR prints")}
		}
		f.options.Traffic = true
		return trafficlog.NewMonitorReader(r, f.live.options()), nil
	case "":
		return nil, usageError{fmt.Errorf("%s: the name does not show what it is: say --format csv, jsonl, parquet or monitor", name)}
	}
	return nil, usageError{fmt.Errorf("--format %s: want csv, jsonl, parquet or monitor", format)}
}
