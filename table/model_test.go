package table

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/key"
)

// model is a table as a plain list of rows, each with what it was given. It knows the
// layout by its fields alone, and neither bounds nor bytes of keys.
type model struct {
	layout *key.Layout
	fields []key.Field
	salt   int // index of the salt, -1 if there is none
	rows   []modelRow
}

type modelRow struct {
	columns key.Columns
	salt    int
	value   string
}

func newModel(l *key.Layout) *model {
	m := &model{layout: l, fields: l.Fields()}
	m.salt = slices.IndexFunc(m.fields, func(f key.Field) bool { return f.Salts > 0 })
	return m
}

func (m *model) isSaltPicked() bool { return m.salt >= 0 && m.fields[m.salt].Column == "" }

// saltOf returns the salt that follows from columns.
func (m *model) saltOf(c key.Columns) int {
	if m.salt < 0 || m.isSaltPicked() {
		return 0
	}
	f := m.fields[m.salt]
	salter, err := key.NewDerivedSalt(f.Salts)
	if err != nil {
		panic(err)
	}
	return salter.Salt(encodeColumn(f, c[f.Column]))
}

// encodeColumn is a column as the layout has it.
func encodeColumn(f key.Field, v any) []byte {
	text := f.Column
	if f.Type != key.TypeAny {
		text += ":" + f.Type.String()
	}
	l, err := key.ParseLayout(text)
	if err != nil {
		panic(err)
	}
	b, err := l.AppendValues(nil, v)
	if err != nil {
		panic(err)
	}
	return b
}

// sortKey is what a row is ordered by.
func (m *model) sortKey(c key.Columns) (t key.Tuple) {
	for _, f := range m.fields {
		if f.Salts == 0 {
			t = append(t, toElement(f, c[f.Column]))
		}
	}
	return t
}

func toElement(f key.Field, v any) any {
	at, isTime := v.(time.Time)
	switch {
	case f.Hash:
		return int64(key.ColumnHash(encodeColumn(f, v)))
	case f.Bucket != 0:
		span, err := f.Bucket.Of(at)
		if err != nil {
			panic(err)
		}
		return span.Index()
	case isTime:
		return at.UnixNano()
	}
	return v
}

func (m *model) compareRows(a, b modelRow) int {
	return cmp.Or(key.Compare(m.sortKey(a.columns), m.sortKey(b.columns)), cmp.Compare(a.salt, b.salt))
}

// matchesRow reports whether columns name a row.
func (m *model) matchesRow(r modelRow, c key.Columns) bool {
	return key.Compare(m.sortKey(r.columns), m.sortKey(c)) == 0 && (m.isSaltPicked() || r.salt == m.saltOf(c))
}

func (m *model) getRow(c key.Columns) (string, bool) {
	for _, r := range m.sortedRows(false) {
		if m.matchesRow(r, c) {
			return r.value, true
		}
	}
	return "", false
}

func (m *model) deleteRow(c key.Columns) bool {
	before := len(m.rows)
	m.rows = slices.DeleteFunc(m.rows, func(r modelRow) bool { return m.matchesRow(r, c) })
	return len(m.rows) < before
}

// putRow stores a row; salt is what a row that is new gets if it is picked.
func (m *model) putRow(c key.Columns, salt int, value string) {
	if !m.isSaltPicked() {
		salt = m.saltOf(c)
	}
	for _, r := range m.sortedRows(false) {
		if m.matchesRow(r, c) {
			salt = r.salt
			break
		}
	}
	m.deleteRow(c)
	m.rows = append(m.rows, modelRow{c, salt, value})
}

// appendRow stores a row under a salt.
func (m *model) appendRow(c key.Columns, salt int, value string) {
	if !m.isSaltPicked() {
		m.putRow(c, 0, value)
		return
	}
	m.rows = slices.DeleteFunc(m.rows, func(r modelRow) bool { return m.matchesRow(r, c) && r.salt == salt })
	m.rows = append(m.rows, modelRow{c, salt, value})
}

func (m *model) sortedRows(reverse bool) []modelRow {
	rows := slices.SortedFunc(slices.Values(m.rows), m.compareRows)
	if reverse {
		slices.Reverse(rows)
	}
	return rows
}

func (m *model) isGiven(where key.Columns, f key.Field) bool {
	_, column := where[f.Column]
	_, name := where[f.Name()]
	return column && f.Column != "" || name
}

// firstOpenField is the first field that is not fixed, nil if all are.
func (m *model) firstOpenField(where key.Columns) *key.Field {
	for i, f := range m.fields {
		if f.Salts == 0 && !m.isGiven(where, f) {
			return &m.fields[i]
		}
	}
	return nil
}

// columnField is the field that is a column itself.
func (m *model) columnField(column string) *key.Field {
	for i, f := range m.fields {
		if f.Column == column && f.IsColumn() {
			return &m.fields[i]
		}
	}
	return nil
}

// matchesQuery reports whether a row is one of a query.
func (m *model) matchesQuery(r modelRow, q Query) bool {
	for name, v := range q.Where {
		if m.salt >= 0 && name == m.fields[m.salt].Name() {
			if r.salt != v.(int) {
				return false
			}
			continue
		}
		if f := m.columnField(name); f != nil {
			if key.Compare(key.Tuple{toElement(*f, r.columns[name])}, key.Tuple{toElement(*f, v)}) != 0 {
				return false
			}
			continue
		}
		for _, f := range m.fields {
			if f.Bucket != 0 && (f.Column == name || f.Name() == name) && toElement(f, v) != toElement(f, r.columns[f.Column]) {
				return false
			}
		}
		if m.salt >= 0 && m.fields[m.salt].Column == name && r.salt != m.saltOf(key.Columns{name: v}) {
			return false
		}
	}
	return m.isInBounds(r, q)
}

// isInBounds reports whether the first open column of a row is within the bounds.
func (m *model) isInBounds(r modelRow, q Query) bool {
	f := m.firstOpenField(q.Where)
	if f == nil {
		return true
	}
	if exact := m.columnField(f.Column); exact != nil {
		f = exact
	}
	at := key.Tuple{toElement(*f, r.columns[f.Column])}
	if q.From != nil && key.Compare(at, key.Tuple{toElement(*f, q.From)}) < 0 {
		return false
	}
	if q.To == nil {
		return true
	}
	if f.Bucket != 0 { // the whole of each bucket that has a part of it
		return key.Compare(at, key.Tuple{toElement(*f, q.To.(time.Time).Add(-1))}) <= 0
	}
	return key.Compare(at, key.Tuple{toElement(*f, q.To)}) < 0
}

// queryRows is the answer to a query.
func (m *model) queryRows(q Query) (rows []modelRow) {
	if from, ok := q.From.(time.Time); ok {
		if to, ok := q.To.(time.Time); ok && !from.Before(to) {
			return nil
		}
	}
	for _, r := range m.sortedRows(q.Reverse) {
		if m.matchesQuery(r, q) && (q.Limit == 0 || len(rows) < q.Limit) {
			rows = append(rows, r)
		}
	}
	return rows
}

// testEpoch is where the times of the tests begin.
var testEpoch = time.Date(2026, 11, 14, 21, 0, 0, 0, time.UTC)

// drawLayout draws a layout of few columns, some of them times with buckets.
func drawLayout(t *rapid.T) *key.Layout {
	var fields, columns []string
	for i := range rapid.IntRange(1, 3).Draw(t, "columns") {
		name := fmt.Sprintf("c%d", i)
		switch typ := rapid.SampledFrom([]string{"", ":string", ":int", ":time", "bucket", "bucket"}).Draw(t, "type"); typ {
		case "bucket":
			for _, b := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"hour(", "day(", "every(45m, "}), 1, 2, rapid.ID).Draw(t, "buckets") {
				fields = append(fields, b+name+")")
			}
			if rapid.IntRange(0, 3).Draw(t, "exact") > 0 {
				fields = append(fields, name)
				columns = append(columns, name)
			}
		default:
			fields, columns = append(fields, name+typ), append(columns, name)
		}
	}
	if rapid.Bool().Draw(t, "permute") {
		fields = rapid.Permutation(fields).Draw(t, "order")
	}
	bar := rapid.IntRange(1, len(fields)).Draw(t, "bar")
	for i, field := range slices.Clone(fields[:bar]) {
		if name, _, _ := strings.Cut(field, ":"); slices.Contains(columns, name) && rapid.IntRange(0, 3).Draw(t, "hash") == 0 {
			fields = slices.Insert(fields, rapid.IntRange(0, i).Draw(t, "hash at"), "hash("+name+")")
			bar++
		}
	}
	if salt := rapid.SampledFrom([]string{"", "picked", "derived"}).Draw(t, "salt"); salt != "" {
		text := fmt.Sprintf("salt(%d)", rapid.IntRange(1, 4).Draw(t, "salts"))
		if salt == "derived" {
			text = strings.TrimSuffix(text, ")") + ", " + rapid.SampledFrom(append(columns, "other")).Draw(t, "from") + ")"
		}
		fields = slices.Insert(fields, rapid.IntRange(0, bar).Draw(t, "salt at"), text)
		bar++
	}
	text := strings.Join(fields[:bar], ", ")
	if bar < len(fields) {
		text = "(" + text + ") | " + strings.Join(fields[bar:], ", ")
	}
	l, err := key.ParseLayout(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// drawColumn draws a value from few, so that rows meet.
func drawColumn(t *rapid.T, l *key.Layout, name string) any {
	typ := key.TypeAny
	for _, f := range l.Fields() {
		if f.Column == name {
			typ = f.Type
			break
		}
	}
	switch typ {
	case key.TypeString:
		return rapid.SampledFrom([]string{"", "a", "a\x00", "b"}).Draw(t, name)
	case key.TypeInt:
		return rapid.Int64Range(-1, 2).Draw(t, name)
	case key.TypeTime:
		return testEpoch.Add(time.Duration(rapid.IntRange(0, 24).Draw(t, name)) * 15 * time.Minute)
	}
	return rapid.SampledFrom([]any{int64(0), int64(300), "x", "", []byte{0}}).Draw(t, name)
}

func drawColumns(t *rapid.T, l *key.Layout) key.Columns {
	c := key.Columns{}
	for _, name := range l.Columns() {
		c[name] = drawColumn(t, l, name)
	}
	return c
}

// drawWhere fixes the first fields, and perhaps the salt.
func drawWhere(t *rapid.T, m *model) key.Columns {
	where := key.Columns{}
	left := rapid.IntRange(0, len(m.fields)).Draw(t, "fixed")
	for _, f := range m.fields {
		if left == 0 {
			break
		}
		left--
		switch {
		case f.Salts > 0:
			if rapid.Bool().Draw(t, "fix the salt") {
				fixSalt(t, m, f, where)
			}
		case m.isGiven(where, f):
		case f.Bucket != 0 && rapid.IntRange(0, 3).Draw(t, "by name") > 0:
			where[f.Name()] = drawColumn(t, m.layout, f.Column)
		default:
			if !hasFixedBucket(m, where, f.Column) {
				where[f.Column] = drawColumn(t, m.layout, f.Column)
			} else if f.Bucket != 0 {
				where[f.Name()] = drawColumn(t, m.layout, f.Column)
			} else {
				return where // a column whose bucket is fixed by name stays open
			}
		}
	}
	return where
}

// hasFixedBucket reports whether a bucket of the column is fixed already: fixing the column as well
// would say it twice.
func hasFixedBucket(m *model, where key.Columns, column string) bool {
	for _, f := range m.fields {
		if _, ok := where[f.Name()]; ok && f.Column == column {
			return true
		}
	}
	return false
}

func fixSalt(t *rapid.T, m *model, f key.Field, where key.Columns) {
	if _, given := where[f.Column]; given && f.Column != "" || hasFixedBucket(m, where, f.Column) {
		return
	}
	if f.Column != "" && rapid.Bool().Draw(t, "by its column") {
		where[f.Column] = drawColumn(t, m.layout, f.Column)
		return
	}
	where[f.Name()] = rapid.IntRange(0, f.Salts-1).Draw(t, f.Name())
}

func drawQuery(t *rapid.T, m *model) Query {
	q := Query{Where: drawWhere(t, m), Reverse: rapid.Bool().Draw(t, "reverse")}
	if f := m.firstOpenField(q.Where); f != nil && !f.Hash { // there is no order of its column
		if rapid.Bool().Draw(t, "from?") {
			q.From = drawColumn(t, m.layout, f.Column)
		}
		if rapid.Bool().Draw(t, "to?") {
			q.To = drawColumn(t, m.layout, f.Column)
		}
	}
	q.Limit = rapid.SampledFrom([]int{0, 0, 1, 2, 5}).Draw(t, "limit")
	return q
}

// withSalt adds a salt to columns, where it is known.
func withSalt(m *model, c key.Columns, salt int) key.Columns {
	c = maps.Clone(c)
	c[m.fields[m.salt].Name()] = salt
	return c
}
