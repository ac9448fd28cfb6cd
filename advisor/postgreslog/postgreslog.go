// Package postgreslog reads what a log of PostgreSQL says that programs ask of a table, for package advisor.
//
// The log is one of log_destination = csvlog, with statements: log_statement = all, or log_min_duration_statement = 0.
// Statements have their values, from the statement itself or from the line of their parameters, and know their
// transaction; so the report says which share of transactions crosses shards, too. What is no statement about the table
// is passed over.
package postgreslog

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/advisor/internal/sqlquery"
)

// ErrLog means that the text is no csvlog of PostgreSQL. The error names the line.
var ErrLog = errors.New("postgreslog: not a csvlog of PostgreSQL")

// ErrNoStatements means that a log has no statement about the table.
var ErrNoStatements = errors.New("postgreslog: no statement about the table")

// MaxQueries is how many statements are read: the first of the log. They are kept in memory.
const MaxQueries = 200_000

// The fields of a line, and how many it has at least, in all versions of PostgreSQL that are in use.
const (
	fieldSession     = 5
	fieldTransaction = 9
	fieldMessage     = 13
	fieldDetail      = 14
	leastFields      = 23
)

// Read returns what the log says that was asked of a table, which may be named with its schema. Columns are those of the
// table.
func Read(r io.Reader, table string, columns []string) ([]advisor.Query, error) {
	o := sqlquery.Options{Schema: "public", Table: table, Columns: columns, Values: true}
	if schema, name, found := strings.Cut(table, "."); found {
		o.Schema, o.Table = schema, name
	}
	lines := csv.NewReader(r)
	lines.FieldsPerRecord, lines.ReuseRecord = -1, true
	var queries []advisor.Query
	for len(queries) < MaxQueries {
		fields, err := lines.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		var bad *csv.ParseError
		switch {
		case errors.As(err, &bad):
			return nil, fmt.Errorf("%w: line %d: %w", ErrLog, bad.StartLine, bad.Err)
		case err != nil:
			return nil, fmt.Errorf("postgreslog: %w", err)
		case len(fields) < leastFields:
			line, _ := lines.FieldPos(0)
			return nil, fmt.Errorf("%w: line %d: %d fields, want %d or more", ErrLog, line, len(fields), leastFields)
		}
		text, ok := statementOf(fields[fieldMessage])
		if !ok {
			continue
		}
		o.Parameters = parseParameters(fields[fieldDetail])
		if q, ok := sqlquery.Read(text, o); ok {
			q.Count = 1
			if v := fields[fieldTransaction]; v != "" {
				q.Txn = fields[fieldSession] + " " + v
			}
			queries = append(queries, q)
		}
	}
	if len(queries) == 0 {
		return nil, fmt.Errorf("%w %s: log them with log_statement = all or log_min_duration_statement = 0", ErrNoStatements, table)
	}
	return queries, nil
}

// statementOf returns the statement of a message: behind statement, or behind execute and a name, where the time that
// it took may stand before. The steps parse and bind of a statement are no statements.
func statementOf(message string) (text string, ok bool) {
	if rest, timed := strings.CutPrefix(message, "duration: "); timed {
		if _, message, ok = strings.Cut(rest, " ms  "); !ok {
			return "", false
		}
	}
	kind, text, ok := strings.Cut(message, ": ")
	return text, ok && (kind == "statement" || strings.HasPrefix(kind, "execute "))
}

// parseParameters returns the values of a detail such as parameters: $1 = 'a', $2 = NULL. What is cut off is missing.
func parseParameters(detail string) (values []string) {
	const begin = "arameters: " // with a capital since PostgreSQL 16
	at := strings.Index(detail, begin)
	if at < 0 || at > 1 {
		return nil
	}
	for rest := detail[at+len(begin):]; ; {
		_, v, found := strings.Cut(rest, " = ")
		if !found {
			return values
		}
		if !strings.HasPrefix(v, "'") {
			v, rest, found = strings.Cut(v, ", ")
			values = append(values, v)
			if !found {
				return values
			}
			continue
		}
		end := 1
		for end < len(v) && (v[end] != '\'' || end+1 < len(v) && v[end+1] == '\'') {
			if v[end] == '\'' {
				end++
			}
			end++
		}
		if end >= len(v) {
			return values
		}
		values = append(values, strings.ReplaceAll(v[1:end], "''", "'"))
		rest = v[end+1:]
	}
}
