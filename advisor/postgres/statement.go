package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cleavekv/cleave/advisor"
)

// maxStatements is how many statements are read, those that are called most first: what is called less
// has hardly any share.
const maxStatements = 2000

// Queries returns what was asked of the table since the statistics were reset: the columns that
// statements compare in WHERE, by how often they were called. A column counts where all of the
// condition needs it: not if it is part of an OR. Lists of values (IN, ANY) count as one. Statements
// that are too hard to read count as asking for no column. It is called before Next.
func (t *Table) Queries(ctx context.Context) ([]advisor.Query, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// A statement that fails ends a transaction, so it is one in the transaction of its own.
	point, err := t.tx.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("postgres: begin: %w", err)
	}
	rows, err := point.Query(ctx, `SELECT query, sum(calls)::bigint FROM pg_stat_statements
		WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND query ILIKE '%' || $1 || '%'
		GROUP BY query ORDER BY 2 DESC LIMIT $2`, likePattern(t.name), maxStatements)
	var queries []advisor.Query
	if err == nil {
		var text string
		var calls int64
		_, err = pgx.ForEachRow(rows, []any{&text, &calls}, func() error {
			if q, ok := readStatement(text, t.schema, t.name, t.columns); ok {
				q.Count = calls
				queries = append(queries, q)
			}
			return nil
		})
	}
	if rollbackErr := point.Rollback(ctx); err == nil && rollbackErr != nil {
		err = rollbackErr
	}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return nil, fmt.Errorf("%w: %s", ErrNoStatements, server.Message)
	}
	if err != nil {
		return nil, fmt.Errorf("postgres: read pg_stat_statements: %w", err)
	}
	return queries, nil
}

// likePattern escapes what LIKE takes for more than a character.
func likePattern(text string) string {
	return strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(text)
}

// readStatement finds what a statement asks of a table; false if that is nothing.
func readStatement(text, schema, table string, columns []string) (q advisor.Query, ok bool) {
	r := statementReader{tokens: splitTokens(text), table: table, schema: schema, columns: columns}
	if len(r.tokens) == 0 {
		return q, false
	}
	q.Op = r.tokens[0].word()
	switch q.Op {
	case "select", "with", "insert", "update", "delete":
	default:
		return q, false
	}
	alias, at := r.findTable()
	if at < 0 {
		return q, false
	}
	if q.Op == "with" {
		q.Op = "select"
	}
	r.alias = alias
	r.readConditions(&q, at)
	if q.Op == "update" {
		q.Set = r.readSet(at)
	}
	return q, true
}

// statementReader looks for the columns of one table in the tokens of a statement.
type statementReader struct {
	tokens               []token
	schema, table, alias string
	columns              []string
}

// findTable returns by which name the table goes in the statement, and where the next token is; -1 if
// the table is not in it. A statement that has the table twice is read as its first mention.
func (r *statementReader) findTable() (alias string, at int) {
	for i := 1; i < len(r.tokens); i++ {
		switch r.tokens[i-1].word() {
		case "from", "join", "update", "into", "only", ",":
		default:
			continue
		}
		name, next := r.tokens[i], i+1
		if next+1 < len(r.tokens) && r.tokens[next].text == "." {
			if name.name() != r.schema {
				continue
			}
			name, next = r.tokens[next+1], next+2
		}
		if name.name() != r.table {
			continue
		}
		if next < len(r.tokens) && r.tokens[next].word() == "as" {
			next++
		}
		if next < len(r.tokens) && r.tokens[next].isName() && !slices.Contains(clauses, r.tokens[next].word()) {
			return r.tokens[next].name(), next + 1
		}
		return r.table, next
	}
	return "", -1
}

// clauses are words behind a table that are no other name of it.
var clauses = []string{"where", "set", "on", "using", "join", "left", "right", "inner", "full", "cross", "natural", "group", "order", "limit", "offset", "returning", "values", "for", "union", "except", "intersect", "having", "window", "fetch", "select", "default", "overriding", "tablesample"}

// endOfWhere are words that end a condition.
var endOfWhere = []string{"group", "order", "limit", "offset", "returning", "for", "union", "except", "intersect", "having", "window", "fetch"}

// readConditions finds the columns that the WHERE behind a place compares with a value.
func (r *statementReader) readConditions(q *advisor.Query, at int) {
	for at < len(r.tokens) && r.tokens[at].word() != "where" {
		at++
	}
	conditions, ok := flattenConditions(r.tokens[min(at+1, len(r.tokens)):])
	if !ok {
		return
	}
	for i := range conditions {
		column, next := r.columnAt(conditions, i)
		if column == "" || next >= len(conditions) || i > 0 && (conditions[i-1].text == "." || conditions[i-1].word() == "not") {
			continue
		}
		operator := conditions[next]
		switch {
		case operator.text == "=" && isGiven(conditions, next+1), operator.word() == "in" && next+2 < len(conditions) && conditions[next+2].isValue:
			if !slices.Contains(q.Columns, column) {
				q.Columns = append(q.Columns, column)
			}
		case slices.Contains([]string{"<", ">", "<=", ">="}, operator.text), operator.word() == "between":
			if q.Filter == nil {
				q.Filter = map[string]json.RawMessage{}
			}
			q.Filter[column] = json.RawMessage(`{"ge":null}`)
		}
	}
}

// flattenConditions returns the tokens of a condition without queries inside of it; false if not all of
// its parts have to hold.
func flattenConditions(tokens []token) (conditions []token, ok bool) {
	depth, inner := 0, 0 // inner is the depth at which a query began
	for i, t := range tokens {
		isOpen := t.text == "("
		switch {
		case isOpen:
			depth++
			if inner == 0 && i+1 < len(tokens) && tokens[i+1].word() == "select" {
				inner = depth
			}
		case t.text == ")":
			if depth == inner {
				inner = 0
			}
			depth--
		case depth == 0 && slices.Contains(endOfWhere, t.word()):
			return conditions, true
		}
		if depth < 0 {
			break
		}
		if inner > 0 && !(isOpen && depth == inner) {
			continue
		}
		if t.word() == "or" || t.word() == "not" && i+1 < len(tokens) && tokens[i+1].text == "(" {
			return nil, false
		}
		conditions = append(conditions, t)
	}
	return conditions, true
}

// columnAt returns the column that is named at a place, and where the next token is.
func (r *statementReader) columnAt(tokens []token, i int) (column string, next int) {
	t := tokens[i]
	if !t.isName() {
		return "", 0
	}
	if i+2 < len(tokens) && tokens[i+1].text == "." {
		if n := t.name(); n != r.alias && n != r.table {
			return "", 0
		}
		t, i = tokens[i+2], i+2
	}
	if !slices.Contains(r.columns, t.name()) {
		return "", 0
	}
	return t.name(), i + 1
}

// isGiven reports whether a comparison is with a value that the statement is given, not with another
// column.
func isGiven(tokens []token, i int) bool {
	for i < len(tokens) && (tokens[i].text == "(" || tokens[i].text == "-") {
		i++
	}
	if i >= len(tokens) {
		return false
	}
	return tokens[i].isValue || slices.Contains([]string{"any", "true", "false", "now", "cast", "lower", "upper", "current_date"}, tokens[i].word())
}

// readSet returns the columns that an update writes.
func (r *statementReader) readSet(at int) (set []string) {
	for at < len(r.tokens) && r.tokens[at].word() != "set" {
		at++
	}
	depth := 0
	for i := at + 1; i+1 < len(r.tokens); i++ {
		switch t := r.tokens[i]; {
		case t.text == "(":
			depth++
		case t.text == ")":
			depth--
		case t.word() == "where" || t.word() == "from" || t.word() == "returning":
			return set
		case t.isName() && slices.Contains(r.columns, t.name()):
			isTarget := depth == 0 && r.tokens[i+1].text == "=" && (i == at+1 || r.tokens[i-1].text == ",")
			isListed := depth == 1 && r.tokens[at+1].text == "(" && len(set) == countCommas(r.tokens[at+2:i])
			if isTarget || isListed {
				set = append(set, t.name())
			}
		}
	}
	return set
}

func countCommas(tokens []token) (n int) {
	for _, t := range tokens {
		if t.text == "," {
			n++
		}
	}
	return n
}
