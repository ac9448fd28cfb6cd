// Package sqlquery reads SQL as far as the advisor has to know it: which columns of a table a statement compares in
// WHERE, and which it writes.
package sqlquery

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/advisor"
)

// Options say which table statements are read for.
type Options struct {
	Schema, Table string
	// Columns are those of the table.
	Columns []string
	// Values adds the values that columns are compared with, or are inserted, where statements have them. Parameters are
	// those of $1 and so on.
	Values     bool
	Parameters []string
}

// Read finds what a statement asks of a table; false if that is nothing.
func Read(text string, o Options) (q advisor.Query, ok bool) {
	r := statementReader{tokens: splitTokens(text), Options: o}
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
	switch {
	case q.Op == "update":
		q.Set = r.readSet(at)
	case q.Op == "insert" && r.Values:
		r.readInserted(&q, at)
	}
	return q, true
}

// statementReader looks for the columns of one table in the tokens of a statement.
type statementReader struct {
	Options
	tokens []token
	alias  string
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
			if name.name() != r.Schema {
				continue
			}
			name, next = r.tokens[next+1], next+2
		}
		if name.name() != r.Table {
			continue
		}
		if next < len(r.tokens) && r.tokens[next].word() == "as" {
			next++
		}
		if next < len(r.tokens) && r.tokens[next].isName() && !slices.Contains(clauses, r.tokens[next].word()) {
			return r.tokens[next].name(), next + 1
		}
		return r.Table, next
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
			if v, ok := r.valueAt(conditions, next+1); ok && operator.text == "=" {
				setFilter(q, column, v)
			} else if !slices.Contains(q.Columns, column) {
				q.Columns = append(q.Columns, column)
			}
		case slices.Contains([]string{"<", ">", "<=", ">="}, operator.text), operator.word() == "between":
			setFilter(q, column, json.RawMessage(`{"ge":null}`))
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
		if n := t.name(); n != r.alias && n != r.Table {
			return "", 0
		}
		t, i = tokens[i+2], i+2
	}
	if !slices.Contains(r.Columns, t.name()) {
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

func setFilter(q *advisor.Query, column string, v json.RawMessage) {
	if q.Filter == nil {
		q.Filter = map[string]json.RawMessage{}
	}
	q.Filter[column] = v
}

// valueAt returns the value at a place, as JSON, if values are wanted and it is one alone.
func (r *statementReader) valueAt(tokens []token, i int) (json.RawMessage, bool) {
	if !r.Values || i >= len(tokens) || !tokens[i].isValue {
		return nil, false
	}
	if i+1 < len(tokens) && tokens[i+1].word() != "and" && !slices.Contains([]string{")", ",", ";"}, tokens[i+1].text) {
		return nil, false // a part of more
	}
	text := tokens[i].text
	if number, ok := strings.CutPrefix(text, "$"); ok {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > len(r.Parameters) {
			return nil, false
		}
		text = r.Parameters[n-1]
	} else if len(text) >= 2 && text[0] == '\'' {
		text = strings.ReplaceAll(text[1:len(text)-1], "''", "'")
	}
	v, err := json.Marshal(text)
	return v, err == nil
}

// readInserted finds the values of a row that is inserted, if its columns are named.
func (r *statementReader) readInserted(q *advisor.Query, at int) {
	tokens := r.tokens[at:]
	if len(tokens) == 0 || tokens[0].text != "(" {
		return
	}
	end := slices.IndexFunc(tokens, func(t token) bool { return t.text == ")" })
	if end < 0 || end+2 >= len(tokens) || tokens[end+1].word() != "values" {
		return
	}
	columns, values := tokens[1:end], tokens[end+3:]
	depth, item := 0, 0
	for i, t := range values {
		isFirst := i == 0 || depth == 0 && values[i-1].text == ","
		if column := 2 * item; depth == 0 && isFirst && column < len(columns) && slices.Contains(r.Columns, columns[column].name()) {
			if v, ok := r.valueAt(values, i); ok {
				setFilter(q, columns[column].name(), v)
			}
		}
		switch t.text {
		case "(":
			depth++
		case ")":
			if depth--; depth < 0 {
				return
			}
		case ",":
			if depth == 0 {
				item++
			}
		}
	}
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
		case t.isName() && slices.Contains(r.Columns, t.name()):
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
